"""A learner whose folder goes to another machine and back: another path, host name, processor, number of threads."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from holdfast import machine
from holdfast.durable import DurableLearner
from holdfast.errors import OtherBits
from holdfast.storage import checkpoint
from reliability import durable_learner, learners, spaces
from reliability.outcome import counted

COMMAND = "import sys; from reliability.moves import arrive; arrive(*sys.argv[1:])"
OPERATIONS = 5  # at each place
MACHINES: tuple[dict[str, str], ...] = (
    {"OMP_NUM_THREADS": "2", "ATEN_CPU_CAPABILITY": "default"},
    {"OMP_NUM_THREADS": "1", "ATEN_CPU_CAPABILITY": "avx2"},
    {"OMP_NUM_THREADS": "2"},
    {"OMP_NUM_THREADS": "1", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
)
RELATIVE, ABSOLUTE = 1e-3, 1e-5  # of a few steps with other roundings

End = Callable[[DurableLearner], object]


def close(learner: DurableLearner) -> None:
    learner.close()


def write_and_close(learner: DurableLearner) -> None:
    learner.checkpoint()
    learner.close()


ENDS: tuple[End, ...] = (close, durable_learner.kill, write_and_close)


@counted
def moved_and_back(effort: int) -> Iterator[str | None]:
    """It opens, says if what it repeats may have other bits, has everything that was acknowledged, and goes on."""
    for number, (there, end) in enumerate(product(MACHINES, ENDS)):
        if number < effort:
            with TemporaryDirectory() as name:
                for flaw in flaws_of_moving(Path(name), there, end):
                    yield f"{there}, {end.__name__}: {flaw}" if flaw else None


def flaws_of_moving(top: Path, there: dict[str, str], end: End) -> Iterator[str | None]:
    here, elsewhere, back = top / "here", top / "elsewhere" / "data", top / "back"
    for place in (here, elsewhere, back):
        place.mkdir(parents=True)
    learner = durable_learner.opened(here)
    do(learner)
    right = learner.state_hash()
    learner.save(top / "right")
    end(learner)
    durable_learner.folder_of(here).rename(durable_learner.folder_of(elsewhere))
    told = visit(elsewhere, top / "arrived", there)
    yield flaw_of_arriving(told, top, right, has_log=end is not write_and_close)
    shutil.copytree(durable_learner.folder_of(elsewhere), durable_learner.folder_of(back))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = durable_learner.opened(back)
    yield flaw_of_warning(caught, told["conditions"], has_log=True)
    with learner:
        found = done(learner)
        yield None if found == told["left"] else f"{told['left']} operations acknowledged, {found} there"
        do(learner)
        right = learner.state_hash()
    yield None if durable_learner.state(back) == right else "opened again, it is another one"


def flaw_of_arriving(told: dict[str, Any], top: Path, right: str, *, has_log: bool) -> str | None:
    if told["arrived"] != OPERATIONS:
        return f"{OPERATIONS} operations acknowledged, {told['arrived']} there"
    if not has_log and told["hash"] != right:
        return "nothing is to be repeated, but it is another one"
    (ours, _), (theirs, _) = (checkpoint.read(top / name) for name in ("right", "arrived"))
    alike = ours.keys() == theirs.keys() and all(torch.allclose(ours[k], theirs[k], RELATIVE, ABSOLUTE) for k in ours)
    expected = has_log and bool(machine.differences(machine.conditions(), told["conditions"]))
    if told["warned"] != expected:
        return f"{'not ' if expected else ''}told of other bits"
    return None if alike else "it is too unlike the one that left"


def flaw_of_warning(caught: list[warnings.WarningMessage], there: dict[str, Any], *, has_log: bool) -> str | None:
    warned = any(issubclass(each.category, OtherBits) for each in caught)
    expected = has_log and bool(machine.differences(machine.conditions(), there))
    return None if warned == expected else f"{'not ' if expected else ''}told of other bits when it came back"


def visit(folder: Path, saved: Path, there: dict[str, str]) -> dict[str, Any]:
    """What the learner says of itself on the other machine."""
    command = [sys.executable, "-c", COMMAND, str(folder), str(saved)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, env={**os.environ, **there})
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def arrive(folder: str, saved: str) -> None:
    with suppress(OSError, AttributeError):  # where a host name of one's own is not allowed, it stays the same
        spaces.enter(spaces.HOST_NAME, "elsewhere")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = durable_learner.opened(Path(folder))
    told = {"arrived": done(learner), "hash": learner.state_hash(), "conditions": machine.conditions()}
    told["warned"] = any(issubclass(each.category, OtherBits) for each in caught)
    learner.save(saved)
    do(learner)
    learner.close()
    print(json.dumps({**told, "left": done(learner)}))


def done(learner: DurableLearner) -> int:
    return learner.step + learner.pending.asked


def do(learner: DurableLearner) -> None:
    for _ in range(OPERATIONS):
        learners.operation(learner)
