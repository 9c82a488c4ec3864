"""docs/serve.md, executed beside a service."""

import contextlib
import io
import json
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast.commands.main import parser
from holdfast.serve.label_config import LabelConfig
from tests.pages import DOCS, ROOT, blocks
from tests.serve.served import PICTURES, listening, opened, picture, served

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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_what_it_sends_with_curl_is_understood(tmp_path: Path) -> None:
    for name in ("heron.jpg", "stork.jpg"):
        (tmp_path / name).write_bytes(picture((9, 99, 9), "JPEG"))
    for title, shape in (("To a learner of pictures", PICTURES), ("To a learner of two numbers", (2,))):
        (block,) = (block for block in blocks(PAGE, "sh") if block.title == title)
        with listening(tmp_path / title, partial(opened, tmp_path / title, shape)) as address:
            for command in block.commands:
                words = [word.replace("localhost:8080", address) for word in command]
                run = subprocess.run(
                    [*words, "-sS", "--fail-with-body"], cwd=tmp_path, capture_output=True, check=False
                )
                assert run.returncode == 0, (command, run)
                assert json.loads(run.stdout).get("step", 1) == (2 if "/v1/tell" in command[1] else 1)


def test_prometheus_reads_what_it_names(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "yaml")
    (job,) = yaml.safe_load(block.text)["scrape_configs"]
    assert job["authorization"]["credentials"] and job["static_configs"]
    with served(tmp_path / "w") as (client, _):
        there = {family.name for family in text_string_to_metric_families(client.get("/metrics").text)}
    line = next(line for line in PAGE.read_text().splitlines() if line.startswith("- `/metrics`"))
    named = set(re.findall(r"`((?:holdfast|model|parallel|rest)_\w+)`", line))
    assert len(named) >= 12 and named <= there


def test_label_studio_is_shown_an_interface_that_is_read() -> None:
    (block,) = blocks(PAGE, "xml")
    config = LabelConfig.read(block.text)
    assert config.field == "image" and config.choices == {"heron", "stork"}


def test_the_container_and_the_unit_give_options_that_there_are() -> None:
    container = (ROOT / "deploy" / "Dockerfile").read_text()
    words = container.partition("ENTRYPOINT ")[2].strip()
    parser().parse_args(json.loads(words)[1:])
    unit = (ROOT / "deploy" / "holdfast.service").read_text()
    (command,) = (line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart="))
    parser().parse_args(command.split()[1:])
