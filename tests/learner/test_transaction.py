"""Changes that are cut off, also while they are taken back, and what comes beside or into the middle of one."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

import holdfast
from holdfast import ERACE, Learner, mlp
from holdfast.durable import DurableLearner
from holdfast.durable.folder import Folder
from holdfast.errors import InputError, WriteError
from holdfast.learner.labels import Labels
from holdfast.learner.pending import Pending
from holdfast.learner.versions import Version
from holdfast.memory import Reservoir
from holdfast.nets import Head
from tests.threads import beside

X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)


def fresh() -> Learner:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
    return Learner(encoder, ERACE(), memory=6, optimizer=lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))


def batch(number: int) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(number)
    return rng.standard_normal((3, 4)).astype(np.float32), [f"kind {number // 2}", "often", f"kind {number}"]


def taught(learner: Learner, *numbers: int) -> Learner:
    for number in numbers:
        learner.observe(*batch(number))
    return learner


def opened(folder: Path) -> DurableLearner:
    return holdfast.open(folder, mlp((4,), width=8), ERACE(), memory=6)


def cut_off(method: Callable[..., Any], when: str) -> Callable[..., Any]:
    """As it is, but the first time there is an interrupt before or after it."""
    first = [True]

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        interrupts, first[0] = first[0], False
        if interrupts and when == "before":
            raise KeyboardInterrupt
        result = method(*args, **kwargs)
        if interrupts:
            raise KeyboardInterrupt
        return result

    return interrupted


UNDOING = [(Version, "give_back"), (Head, "__setattr__"), (Labels, "cut_after"), (Reservoir, "clear")]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("owner", "name"), UNDOING, ids=[name for _, name in UNDOING])
@pytest.mark.parametrize("steps", [0, 4])
def test_what_is_cut_off_while_it_is_taken_back_is_taken_back_by_who_comes_next(
    steps: int, owner: type, name: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, calm = taught(fresh(), *range(steps)), taught(fresh(), *range(steps))
    answers = learner.predict_proba(X) if steps else None

    def full(self: Learner, *arguments: object) -> None:
        monkeypatch.setattr(owner, name, cut_off(getattr(owner, name), when))
        raise WriteError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "_commit", full)
        with pytest.raises((WriteError, KeyboardInterrupt)):
            learner.observe(*batch(9))
    assert answers is None or np.array_equal(learner.predict_proba(X), answers)
    with beside(lambda: taught(learner, 10, 11)):
        pass
    assert learner.state_hash() == taught(calm, 10, 11).state_hash()


def test_the_copy_of_a_learner_that_was_cut_off_is_of_a_whole_step(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = taught(fresh(), 0, 1)
    monkeypatch.setattr(Version, "give_back", cut_off(Version.give_back, "before"))
    monkeypatch.setattr(Pending, "remove", cut_off(Pending.remove, "after"))
    ticket = learner.ask(batch(2)[0])
    with pytest.raises(KeyboardInterrupt):
        learner.tell(ticket, batch(2)[1])
    twin = copy.deepcopy(learner)
    assert twin.state_hash() == learner.state_hash()
    for each in (learner, twin):
        each.tell(ticket, batch(2)[1])
    calm = taught(fresh(), 0, 1)
    calm.tell(calm.ask(batch(2)[0]), batch(2)[1])
    assert twin.state_hash() == learner.state_hash() == calm.state_hash()


def test_an_interrupt_leaves_no_hook_on_the_norms_of_a_single_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, calm = taught(fresh(), 0), taught(fresh(), 0)
    answers = learner.predict_proba(X)
    with monkeypatch.context() as patch:
        patch.setattr(RemovableHandle, "remove", cut_off(RemovableHandle.remove, "before"))
        with pytest.raises(KeyboardInterrupt):
            learner.observe(X[:1], ["often"])
    assert np.array_equal(learner.predict_proba(X), answers)
    assert taught(learner, 1).state_hash() == taught(calm, 1).state_hash()
    assert np.array_equal(learner.predict_proba(X), calm.predict_proba(X))
    assert not any(part._forward_pre_hooks for part in learner.net.modules())


@pytest.mark.parametrize("what", ["observe", "save", "checkpoint", "close", "state_hash"])
def test_in_the_middle_of_a_change_its_thread_can_do_nothing_else_to_the_learner(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a signal handler might, when the state is neither that before nor that after."""
    arguments: dict[str, tuple[Any, ...]] = {"observe": batch(2), "save": (tmp_path / "file",)}
    with opened(tmp_path / "home") as learner:
        taught(learner, 0)
        before, loss = learner.state_hash(), ERACE.loss

        def handled(*args: Any, **kwargs: Any) -> Any:
            found = loss(*args, **kwargs)
            getattr(learner, what)(*arguments.get(what, ()))
            return found

        with monkeypatch.context() as patch:
            patch.setattr(ERACE, "loss", handled)
            with pytest.raises(InputError, match="in the middle of a change"):
                learner.observe(*batch(1))
        assert learner.state_hash() == before
        after = taught(learner, 1).state_hash()
    assert not (tmp_path / "file").exists()
    with opened(tmp_path / "home") as learner:
        assert learner.state_hash() == after


def interrupted_commit(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """The entry is in the log, but the change does not happen."""
    with monkeypatch.context() as patch:
        patch.setattr(DurableLearner, "_commit", cut_off(DurableLearner._commit, "after"))
        with pytest.raises(KeyboardInterrupt):
            change()


def test_a_question_asked_beside_a_step_that_is_cut_off_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log ends between the moment at which the question finds it sound and that at which it is written there."""
    needs_checkpoint = Folder.needs_checkpoint.fget  # type: ignore[attr-defined]
    with opened(tmp_path) as learner:
        taught(learner, 0)

        def sound_until_now(folder: Folder) -> bool:
            found: bool = needs_checkpoint(folder)
            monkeypatch.setattr(Folder, "needs_checkpoint", property(needs_checkpoint))
            interrupted_commit(monkeypatch, lambda: learner.observe(*batch(1)))
            return found

        monkeypatch.setattr(Folder, "needs_checkpoint", property(sound_until_now))
        ticket = learner.ask(batch(2)[0])
        state = learner.state_hash()
    with opened(tmp_path) as learner:
        assert learner.state_hash() == state
        learner.tell(ticket, batch(2)[1])


def test_a_step_beside_a_question_that_is_cut_off_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loss = ERACE.loss
    with opened(tmp_path) as learner:
        taught(learner, 0)

        def asked_meanwhile(*args: Any, **kwargs: Any) -> Any:
            monkeypatch.setattr(ERACE, "loss", loss)
            interrupted_commit(monkeypatch, lambda: learner.ask(batch(2)[0]))
            return loss(*args, **kwargs)

        monkeypatch.setattr(ERACE, "loss", asked_meanwhile)
        state = taught(learner, 1).state_hash()
        assert learner.step == 2 and not len(learner.pending)
    with opened(tmp_path) as learner:
        assert learner.state_hash() == state
