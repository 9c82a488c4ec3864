from typing import Any

import pytest

from holdfast.runs.match import matches
from holdfast.runs.spec import RunSpec

SPEC = RunSpec(stream="cifar10", method="er-aml", options={"temperature": "0.2"}, probe=("drift",))


def record(**changes: Any) -> dict[str, Any]:
    return {**SPEC.as_json(), **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seed": 7},
        {"options": {"temperature": "0.20", "replay": "10"}},
        {"stream": "cifar10:tasks=5,batch=10,order=split"},
        {"net": "slim-resnet18"},
        {"probe": ["drift", "gradient"]},
    ],
)
def test_the_same_however_it_is_written(changes: dict[str, Any]) -> None:
    assert matches(SPEC, record(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"options": {"temperature": "0.1"}},
        {"method": "er", "options": {}},
        {"method": "mine.py:Mine", "options": {}},
        {"method": "gone", "options": {}},
        {"stream": "cifar10:tasks=2"},
        {"stream": "cifar10:holdout=5"},
        {"stream": "cifar100"},
        {"net": "mlp"},
        {"memory": 5},
        {"lr": 0.01},
        {"augment": True},
        {"eval_mode": "rotating:100"},
        {"start": "er:head=cosine"},
        {"probe": []},
    ],
)
def test_another_run(changes: dict[str, Any]) -> None:
    assert not matches(SPEC, record(**changes))
