"""docs/serve.md, executed beside a service."""

import contextlib
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.commands.main import parser
from tests.pages import DOCS, ROOT, blocks
from tests.serve.served import listening

PAGE = DOCS / "serve.md"


@pytest.mark.filterwarnings("ignore")  # of gevent, which Triton's client brings
def test_its_python_prints_what_it_says(tmp_path: Path) -> None:
    text = "\n".join(block.text for block in blocks(PAGE, "python") if block.is_run)
    said = [line.rpartition(")  # ")[2] for line in text.splitlines() if line.startswith("print(")]
    folder, names = tmp_path / "weather", dict[str, Any]()
    made = partial(holdfast.open, folder, holdfast.mlp((8,)), memory=5000, keep=5)
    with listening(folder, made) as address:
        own = text.replace("127.0.0.1:8080", address.removeprefix("http://"))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(own, "serve.md", "exec"), names)
        names["client"].close()
        names["triton"].close()
    assert out.getvalue().splitlines() == said and len(said) >= 6


def test_the_container_and_the_unit_give_options_that_there_are() -> None:
    container = (ROOT / "deploy" / "Dockerfile").read_text()
    words = container.partition("ENTRYPOINT ")[2].strip()
    parser().parse_args(json.loads(words)[1:])
    unit = (ROOT / "deploy" / "holdfast.service").read_text()
    (command,) = (line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart="))
    parser().parse_args(command.split()[1:])
