"""The OpenAPI schema: complete enough to make clients from."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.served import served


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with served(tmp_path_factory.mktemp("schema") / "w") as (client, _):
        return client.get("/openapi.json").json()


def _references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _references(each)


def test_whatever_is_referred_to_is_there(schema: Any) -> None:
    references = set(_references(schema))
    assert "#/components/schemas/InferRequest" in references and "#/components/schemas/Samples" in references
    for reference in references:
        found = schema
        for name in reference.removeprefix("#/").split("/"):
            found = found[name]


def test_every_operation_has_a_name_of_its_own_and_says_what_it_takes_and_gives(schema: Any) -> None:
    operations = [each for path in schema["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert "200" in operation["responses"] and operation["responses"]["200"]["content"], path
            assert {"401", "403", "413", "429", "503"} <= set(operation["responses"]), path
            assert "requestBody" in operation or method == "get" or path == "/v1/checkpoints"


def test_what_is_in_a_path_is_always_there_and_nothing_is_asked_for_twice(schema: Any) -> None:
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            parameters = [each for each in operation["parameters"] if "$ref" not in each]
            for each in parameters:
                assert each["in"] != "path" or each["schema"]["type"] in ("string", "integer"), path
            assert not any(each["in"] == "query" and each["name"] == "version" for each in parameters), path


def test_nothing_of_this_machine_is_in_it(schema: Any) -> None:
    assert str(Path.home()) not in json.dumps(schema)
