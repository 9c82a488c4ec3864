"""Every built-in method passes every check; a method that breaks what a check asks for fails that check."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast import ER, ERACE, ERAML, SSIL, Batch, Holdfast, ICaRL, Method, Reservoir, checks
from holdfast.commands.main import main
from holdfast.learner import base, training
from holdfast.memory import Memory
from holdfast.memory.class_index import Array, Journal
from holdfast.methods import METHODS, StepContext
from holdfast.nets import Net

VARIANTS: dict[str, Method] = {
    **{name: method() for name, method in METHODS.items()},
    "er:head=cosine": ER(head="cosine"),
    "er-ace:compete=batch+unseen": ERACE(compete="batch+unseen"),
    "holdfast:compete=batch,spare=3": Holdfast(compete="batch", spare=3),
    "holdfast:compete=prior,answer=means": Holdfast(compete="prior", answer="means", forward="replay-statistics"),
    "holdfast:distil=1": Holdfast(distil=1.0),
    "er-aml:loss=triplet": ERAML(metric="triplet", negatives="all"),
    "er-aml:fetch=incoming-first": ERAML(fetch="incoming-first"),
    "ss-il:distil=rehearsal": SSIL(distil="rehearsal"),
    "icarl:distil=false": ICaRL(distil=False),
}


def name_of(item: object) -> str:
    return getattr(item, "__name__", str(item))


QUICK = ("er-ace", "icarl")  # one that looks at tasks
PARAMETERS = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]


@pytest.mark.parametrize("check", checks.ALL, ids=name_of)
@pytest.mark.parametrize("method", PARAMETERS)
def test_every_method_holds_what_every_method_has_to_hold(method: str, check: checks.Check) -> None:
    check(VARIANTS[method])


@dataclass(frozen=True, kw_only=True)
class GlobalRandomness(ER):
    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        return super().loss(net, new, old) * float(np.random.rand())


@dataclass(frozen=True, kw_only=True)
class LearnsFromQuestions(ER):
    trains_to_answer: ClassVar[bool] = True

    def answering_net(self, at: StepContext) -> Net:
        at.net.head.weight.data.mul_(1.001)
        return at.net


@dataclass(frozen=True, kw_only=True)
class WritesWithoutJournal(ER):
    def recall(self, net: Net, new: Batch, memory: Memory, rng: np.random.Generator) -> Any:
        recalled = super().recall(net, new, memory, rng)
        if recalled:
            memory.add(replace(new, task=None), rng)
        return recalled


@dataclass(frozen=True, kw_only=True)
class HidesInfinity(ER):
    def learn(self, new: Batch, at: Any) -> Any:
        loss, extra = super().learn(new, at)
        at.net.head.weight.data.add_(loss.detach() * 0)
        for parameter in at.net.parameters():
            parameter.grad.nan_to_num_(0)
        return torch.zeros(()), extra


@dataclass(frozen=True, kw_only=True)
class KnowsFourClasses(ER):
    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        if net.seen > 4:
            raise ValueError("there are four classes")
        return super().loss(net, new, old)


@dataclass(frozen=True, kw_only=True)
class RemembersInSecret(ER):
    steps: list[int] = field(default_factory=list, repr=False, compare=False)

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        self.steps.append(len(new))
        return super().loss(net, new, old) * len(self.steps)


class Boundless(Reservoir):
    def _admit(self, incoming: dict[str, Array], rng: np.random.Generator, journal: Journal) -> None:
        if self.capacity < 10_000:
            self.capacity = 10_000
            self._columns = {name: np.resize(c, (self.capacity, *c.shape[1:])) for name, c in self._columns.items()}
            self._index._place = np.resize(self._index._place, self.capacity)
        super()._admit(incoming, rng, journal)


@dataclass(frozen=True, kw_only=True)
class KeepsEverything(ER):
    memory_class: ClassVar[type[Memory]] = Boundless


@dataclass(frozen=True, kw_only=True)
class ReplaysEverything(ER):
    memory_class: ClassVar[type[Memory]] = Boundless

    def recall(self, net: Net, new: Batch, memory: Memory, rng: np.random.Generator) -> Any:
        return {"old": memory.at(np.arange(len(memory)))} if len(memory) else {}


@dataclass(frozen=True, kw_only=True)
class NeedsTwoSamples(ER):
    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        return super().loss(net, new, old) + 1e-3 / (len(new) - 1)


@dataclass(frozen=True, kw_only=True)
class NeedsTwoClasses(ER):
    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        return super().loss(net, new, old) / (net.seen - 1)


@dataclass(frozen=True, kw_only=True)
class NewClassesOnly(ER):
    def recall(self, net: Net, new: Batch, memory: Memory, rng: np.random.Generator) -> Any:
        if len(memory) and int(new.y.min()) < int(memory.at(np.arange(len(memory))).y.max()) - 1:
            raise ValueError("classes never come back")
        return super().recall(net, new, memory, rng)


@dataclass(frozen=True, kw_only=True)
class VectorsOnly(ER):
    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        assert new.x.ndim == 2, "vectors only"
        return super().loss(net, new, old)


@contextmanager
def a_learner_that_takes_anything() -> Iterator[None]:
    def as_tensor(x: Any, *how: object) -> Tensor:
        return torch.as_tensor(np.nan_to_num(np.array(x, np.float32)))

    with patch.object(base, "as_tensor", as_tensor):
        yield


@contextmanager
def a_learner_that_keeps_the_callers_array() -> Iterator[None]:
    def as_tensor(x: Any, *how: object) -> Tensor:
        return torch.from_numpy(x)

    def to_store(method: Method, net: Net, new: Batch) -> Batch:
        new.x.zero_()
        return new

    with patch.object(base, "as_tensor", as_tensor), patch.object(ER, "to_store", to_store):
        yield


@contextmanager
def a_learner_that_does_not_look_at_its_weights() -> Iterator[None]:
    with (
        patch("holdfast.learner.finite.all_below", new=lambda limit, tensors: True),
        patch.object(training, "all_below", new=lambda limit, tensors: True),
    ):
        yield


@dataclass
class Broken:
    """A method that fails a check, or a learner that does, and what its check says."""

    method: Callable[[], Method]
    says: str
    circumstances: Callable[[], AbstractContextManager[None]] = nullcontext


BROKEN: dict[checks.Check, Broken] = {
    checks.same_seed_same_future: Broken(GlobalRandomness, "the same seed and batches gave two different learners"),
    checks.predicting_changes_nothing: Broken(LearnsFromQuestions, "predict changed the learner"),
    checks.bad_batches_change_nothing: Broken(ER, "NaN in x was accepted", a_learner_that_takes_anything),
    checks.failures_change_nothing: Broken(WritesWithoutJournal, "an exception .* left the learner changed"),
    checks.non_finite_losses_change_nothing: Broken(
        HidesInfinity, "a weight is not finite", a_learner_that_does_not_look_at_its_weights
    ),
    checks.labels_are_only_names: Broken(KnowsFourClasses, "ValueError: there are four classes"),
    checks.callers_arrays_stay_theirs: Broken(
        ER, "observe changed the arrays it was given", a_learner_that_keeps_the_callers_array
    ),
    checks.saved_is_same: Broken(RemembersInSecret, "a loaded learner learns differently"),
    checks.memory_keeps_its_budget: Broken(KeepsEverything, "the memory grew to 12 with a budget of .*7"),
    checks.every_step_costs_the_same: Broken(ReplaysEverything, "steps 40 to 60 cost"),
    checks.one_sample_at_a_time: Broken(NeedsTwoSamples, "ZeroDivisionError"),
    checks.one_class_only: Broken(NeedsTwoClasses, "NonFiniteError"),
    checks.a_class_comes_back: Broken(NewClassesOnly, "ValueError: classes never come back"),
    checks.images_and_vectors: Broken(VectorsOnly, "vectors only"),
}


def test_there_is_a_broken_method_for_every_check() -> None:
    assert list(BROKEN) == list(checks.ALL)


@pytest.mark.parametrize("check", checks.ALL, ids=name_of)
def test_a_method_that_breaks_a_promise_fails_its_check_with_the_reason(check: checks.Check) -> None:
    broken = BROKEN[check]
    with broken.circumstances(), pytest.raises(AssertionError, match=broken.says):
        check(broken.method())


def test_the_command_says_what_does_not_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from holdfast import ER\n"
        "class Mine(ER):\n"
        "    def loss(self, net, new, old=None):\n"
        "        return super().loss(net, new, old) / (len(new) - 1)\n"
    )
    quick = functools.partial(patch.object, checks, "ALL")
    with quick((checks.one_class_only, checks.one_sample_at_a_time)):
        assert main(["check", f"{file}:Mine"]) == 1
        out = capsys.readouterr().out
        assert "✓ one class only" in out and "✗ one sample at a time: " in out and "1 of 2 hold" in out
        assert main(["check", "er"]) == 0
    assert main(["check", "er-acd"]) == 2
