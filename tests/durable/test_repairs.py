"""What is whole of a damaged learner goes on; nothing is lost without a word, and nothing is deleted."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast import ERACE, Learner, mlp
from holdfast.durable.log import FRAME, HEAD
from holdfast.durable.repairs import Repair
from holdfast.errors import CheckpointError, InputError, InUse, WriteError
from holdfast.storage import files
from tests.durable.small import opened

RNG = np.random.default_rng(1)
BATCHES = [(RNG.standard_normal((4, 3)).astype(np.float32), [f"k{i // 2}"] * 4) for i in range(8)]
RELEASE = Path(__file__).parents[1] / "releases" / "0.1.0" / "durable"
FIRST = 2  # the step of the checkpoint


def hash_after(entries: int) -> str:
    """Of what the log holds: a question is the third of six."""
    learner = Learner(mlp((3,), width=8), ERACE(), memory=20)
    for x, y in BATCHES[:FIRST]:
        learner.observe(x, y)
    for number in range(entries):
        if number == 2:
            learner.ask(BATCHES[7][0])
        else:
            learner.observe(*BATCHES[FIRST + number - (number > 2)])
    return learner.state_hash()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "learner"
    with opened(path) as learner:
        for x, y in BATCHES[:FIRST]:
            learner.observe(x, y)
        learner.checkpoint()
        for x, y in BATCHES[FIRST : FIRST + 2]:
            learner.observe(x, y)
        learner.ask(BATCHES[7][0])
        for x, y in BATCHES[FIRST + 2 : FIRST + 5]:
            learner.observe(x, y)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def log_of(folder: Path) -> Path:
    (file,) = folder.glob("log.*")
    return file


def starts(whole: bytes) -> list[int]:
    """Where entries of a log begin, the seal last."""
    found, place = [], HEAD.size
    while place < len(whole):
        found.append(place)
        place += FRAME.size + FRAME.unpack_from(whole, place)[2]
    return found


def flip(file: Path, place: int) -> None:
    whole = bytearray(file.read_bytes())
    whole[place] ^= 1
    file.write_bytes(whole)


@pytest.mark.slow
@pytest.mark.parametrize("part", [4, FRAME.size + 9], ids=["frame", "content"])
@pytest.mark.parametrize("entry", range(6))
def test_the_entries_before_the_damage_are_kept(home: Path, entry: int, part: int) -> None:
    flip(log_of(home), starts(log_of(home).read_bytes())[entry] + part)
    damaged = contents(home)
    plan = holdfast.repair(home)
    assert contents(home) == damaged and plan.files is None  # nobody has agreed
    assert (plan.kept, plan.lost, plan.step) == (entry, 6 - entry, FIRST + entry - (entry > 2))
    assert plan.last_step == FIRST + 5 + (entry == 2)  # what cannot be read may have been a step
    done = holdfast.repair(home, yes=True)
    assert done.files is not None and contents(done.files) == damaged
    found = holdfast.verify(home, deep=True)
    assert found.ok and (found.step, found.entries) == (plan.step, entry)
    with opened(home) as learner:
        assert learner.state_hash() == hash_after(entry)
        learner.observe(*BATCHES[0])
    assert holdfast.repair(home, yes=True).files is None  # there is nothing left to do


@pytest.mark.parametrize(
    ("harm", "kept"),
    [
        (lambda log: flip(log, 20), 6),  # its beginning alone
        (lambda log: log.write_bytes(log.read_bytes()[: starts(log.read_bytes())[4] + 30]), 4),
        (lambda log: log.write_bytes(b"somebody else's words"), 0),
        (lambda log: log.write_bytes(b""), 0),
        (Path.unlink, 0),
    ],
    ids=["head", "cut", "foreign", "empty", "missing"],
)
def test_a_log_that_is_cut_or_missing(home: Path, harm: Callable[[Path], None], kept: int) -> None:
    harm(log_of(home))
    before = contents(home)
    with pytest.raises(CheckpointError):
        opened(home)
    done = holdfast.repair(home, yes=True)
    assert done.damage is not None and done.kept == kept
    assert done.files is not None and contents(done.files) == before
    with opened(home) as learner:
        assert learner.state_hash() == hash_after(kept)


def test_what_would_be_lost_is_told_before(home: Path) -> None:
    flip(log_of(home), starts(log_of(home).read_bytes())[3] + 4)
    damaged, told = contents(home), list[Repair]()

    def refuse(plan: Repair) -> bool:
        told.append(plan)
        with pytest.raises(InUse):  # nobody else can have it meanwhile
            opened(home)
        return False

    assert holdfast.repair(home, yes=refuse) == told[0]
    assert contents(home) == damaged and len(list(home.iterdir())) == len(damaged)


@pytest.mark.parametrize("step", range(FIRST, FIRST + 6))
def test_back_to_an_earlier_step(home: Path, step: int) -> None:
    before = contents(home)
    done = holdfast.repair(home, to_step=step, yes=True)
    assert done.damage is None and done.step == step
    if step == FIRST + 5:
        assert done.files is None and not done.needed
        return
    assert done.files is not None and contents(done.files) == before
    with opened(home) as learner:
        assert learner.state_hash() == hash_after(step - FIRST + (step >= FIRST + 2))


@pytest.mark.parametrize("step", [-1, 0, FIRST - 1, FIRST + 6, 10**30, 2.5])
def test_a_step_that_is_not_in_the_log_is_refused(home: Path, step: int) -> None:
    before = contents(home)
    with pytest.raises(InputError, match="to_step must be"):
        holdfast.repair(home, to_step=step, yes=True)
    assert contents(home) == before


def test_a_damaged_checkpoint_cannot_be_repaired(home: Path) -> None:
    flip(home / "learner", 1000)
    damaged = contents(home)
    with pytest.raises(CheckpointError, match=r"cannot be repaired: .* from a backup"):
        holdfast.repair(home, yes=True)
    assert contents(home) == damaged
    (home / "learner").unlink()
    with pytest.raises(CheckpointError, match=r"is missing; this cannot be repaired: .* from a backup"):
        holdfast.repair(home, yes=True)
    log_of(home).unlink()
    with pytest.raises(InputError, match="there is no learner in"):
        holdfast.repair(home, yes=True)
    with pytest.raises(InputError, match="there is no folder"):
        holdfast.repair(home / "missing", yes=True)


def test_a_folder_in_use_is_refused(home: Path) -> None:
    with opened(home) as learner:
        with pytest.raises(InUse):
            holdfast.repair(home, yes=True)
        learner.observe(*BATCHES[0])


@pytest.mark.parametrize("failing", [1, 2])
def test_a_repair_that_fails_can_be_repeated(home: Path, failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(log_of(home), starts(log_of(home).read_bytes())[3] + 4)
    damaged, write, calls = contents(home), files.write, [0]

    def full(path: Path, content: bytes) -> None:
        calls[0] += 1
        if calls[0] == failing:
            raise WriteError(f"{path} cannot be written: No space left on device")
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write", full)
        with pytest.raises(WriteError):
            holdfast.repair(home, yes=True)
    assert damaged.items() <= contents(home).items()
    holdfast.repair(home, yes=True)
    with opened(home) as learner:
        assert learner.state_hash() == hash_after(3)
    assert len(list(home.glob("log.*"))) == 1


def test_a_folder_of_the_first_release(tmp_path: Path) -> None:
    home = Path(shutil.copytree(RELEASE, tmp_path / "learner"))
    whole = holdfast.inspect(home)
    flip(log_of(home), log_of(home).stat().st_size // 2)
    plan = holdfast.repair(home, yes=True)
    assert 0 < plan.kept < whole.log.entries
    assert holdfast.verify(home, deep=True).ok
    with holdfast.open(home) as learner:
        assert learner.step == plan.step
