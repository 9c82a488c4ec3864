"""What a user of the learner relies on. The numbers in the names are those of the reliability table in the docs."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast import (
    ER,
    ERACE,
    ERAML,
    IID,
    MIR,
    Batch,
    FineTuning,
    IIDPlusPlus,
    Learner,
    Method,
    Reservoir,
    mlp,
    small_cnn,
)
from holdfast.errors import BatchError, HoldfastError, InputError, LabelError, NonFiniteError, NothingLearned
from holdfast.learner.labels import Labels
from holdfast.memory.class_index import ClassIndex
from holdfast.nets import Head, Net
from holdfast.storage import checkpoint

METHODS: list[Method] = [
    ER(),
    ER(head="cosine"),
    ERACE(),
    ERACE(compete="batch+unseen"),
    ERAML(),
    ERAML(metric="triplet"),
    ERAML(negatives="all", fetch="incoming-first"),
    FineTuning(),
    IID(),
    IIDPlusPlus(),
]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)
Samples = NDArray[np.float32]


def learner_of(method: Method | None = None, **settings: Any) -> Learner:
    settings = {"memory": 12, "lr": 0.05, "classes": 8, **settings}
    return Learner(mlp((4,), width=16), method or ERACE(), **settings)


def batch(i: int, n: int = 6) -> tuple[Samples, list[str]]:
    """Batch i of a little stream in which a class appears every other batch."""
    rng = np.random.default_rng(i)
    return rng.standard_normal((n, 4)).astype(np.float32), [f"class {c}" for c in rng.integers(0, 2 + i // 2, n)]


def taught(method: Method | None = None, steps: int = 5, **settings: Any) -> Learner:
    learner = learner_of(method, **settings)
    for i in range(steps):
        learner.observe(*batch(i))
    return learner


def weights(learner: Learner) -> list[Tensor]:
    return [tensor.clone() for tensor in learner.net.state_dict().values()]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@every_method
def test_learns_and_answers_with_the_callers_labels(method: Method) -> None:
    rng = np.random.default_rng(0)
    centres = {"cat": np.array([4.0, 0, 0, 0]), "dog": np.array([0, 4.0, 0, 0]), "emu": np.array([0, 0, 4.0, 0])}
    learner = learner_of(method, memory=60)
    for _ in range(60):
        y = rng.choice(list(centres), 12).tolist()
        learner.observe(np.stack([centres[label] for label in y]) + rng.standard_normal((12, 4)) / 2, y)
    pending = np.stack(list(centres.values()))
    assert learner.predict(pending) == list(centres)
    probabilities = learner.predict_proba(pending)
    assert probabilities.shape == (3, len(learner.classes))
    assert np.allclose(probabilities.sum(1), 1, atol=1e-6)
    assert [learner.classes[i] for i in probabilities.argmax(1)] == list(centres)


def test_nothing_learned_yet() -> None:
    with pytest.raises(NothingLearned):
        learner_of().predict(batch(0)[0])


good_x, good_y = batch(7)
BAD_BATCHES: dict[str, tuple[Any, Any, str]] = {
    "NaN": (np.where(np.eye(6, 4) > 0, np.nan, good_x), good_y, "x"),
    "infinite": (np.where(np.eye(6, 4) > 0, np.inf, good_x), good_y, "x"),
    "too large for float32": (np.full((6, 4), 1e300), good_y, "x"),
    "wrong rank": (good_x[0], good_y, "x"),
    "wrong shape": (good_x[:, :3], good_y, "x"),
    "wrong type": (good_x.astype(np.complex64), good_y, "x"),
    "uint8 after float": (good_x.astype(np.uint8), good_y, "x"),
    "a dict": (dict(enumerate(good_x)), good_y, "x"),
    "objects": (good_x.astype(object), good_y, "x"),
    "complex": (good_x.astype(complex), good_y, "x"),
    "empty": (good_x[:0], [], "x"),
    "fewer labels": (good_x, good_y[:5], "y"),
    "more labels": (good_x, [*good_y, "class 0"], "y"),
    "None label": (good_x, [*good_y[:5], None], "y"),
    "NaN label": (good_x, [*good_y[:5], float("nan")], "y"),
    "unhashable label": (good_x, [*good_y[:5], ["class 0"]], "y"),
    "1 and True": (good_x, [1, True, 1, 1, 1, 1], "y"),
    "1 and 1.0": (good_x, [1, 1.0, 1, 1, 1, 1], "y"),
    "no labels": (good_x, None, "y"),
    "labels in a matrix": (good_x, np.zeros((6, 1)), "y"),
    "a string for labels": (good_x, "abcdef", "y"),
    "masked": (np.ma.array(good_x, mask=np.eye(6, 4) > 0), good_y, "x"),
    "sparse": (torch.from_numpy(good_x).to_sparse(), good_y, "x"),
    "without values": (torch.empty(6, 4, device="meta"), good_y, "x"),
    "nested": (torch.nested.as_nested_tensor(list(torch.from_numpy(good_x)), layout=torch.jagged), good_y, "x"),
    "masked labels": (good_x, np.ma.masked_equal(np.arange(6), 2), "y"),
    "a table for labels": (good_x, pd.DataFrame({letter: [0] for letter in "abcdef"}), "y"),
    "pandas' NA": (good_x, [*good_y[:5], pd.NA], "y"),
}


BAD_LATER_ONLY = {"wrong shape", "uint8 after float"}


@pytest.mark.parametrize(
    ("case", "steps"),
    [(case, 3) for case in BAD_BATCHES] + [(case, 0) for case in sorted(BAD_BATCHES.keys() - BAD_LATER_ONLY)],
)
def test_r11_a_bad_batch_changes_nothing(case: str, steps: int) -> None:
    x, y, named = BAD_BATCHES[case]
    learner = taught(steps=steps)
    before = learner.state_hash()
    with pytest.raises((BatchError, LabelError), match=rf"\b{named}\b"):
        learner.observe(x, y)
    assert learner.state_hash() == before
    learner.observe(*batch(9))


def test_r11_1_and_the_string_1_are_two_labels() -> None:
    learner = learner_of()
    learner.observe(good_x, [1, "1", 1, "1", 1, "1"])
    assert learner.classes == [1, "1"]


@pytest.mark.parametrize(
    "view",
    [
        np.asfortranarray,
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.astype(">f4"),
        lambda x: x.astype(np.float64),
        torch.from_numpy,
        lambda x: torch.from_numpy(x).double(),
        lambda x: torch.from_numpy(x).requires_grad_(),
    ],
    ids=["fortran", "negative strides", "big-endian", "float64", "tensor", "double tensor", "requires grad"],
)
def test_r11_the_same_values_in_another_form_are_the_same(view: Callable[[Samples], Any]) -> None:
    plain, other = taught(), taught()
    x, y = batch(5)
    plain.observe(x, y)
    other.observe(view(x), y)
    assert plain.state_hash() == other.state_hash()


@pytest.mark.parametrize(
    "view",
    [
        np.asfortranarray,
        lambda x: x.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2),
        lambda x: torch.from_numpy(x).to(memory_format=torch.channels_last),
        lambda x: torch.from_numpy(np.repeat(x, 2, axis=3))[..., ::2],
        lambda x: torch.as_strided(torch.from_numpy(x.copy()), x.shape, (64, 7, 8, 1)),
        lambda x: x.view(np.memmap),
    ],
    ids=["fortran", "channels last", "channels-last tensor", "every other", "strides of a size of one", "a subclass"],
)
def test_r11_images_in_another_layout_are_the_same(view: Callable[[Any], Any]) -> None:
    x = np.random.default_rng(0).integers(0, 256, (6, 1, 8, 8), np.uint8)
    hashes = set()
    for form in (x, view(x)):
        learner = Learner(small_cnn((1, 8, 8)), ERACE(), memory=10)
        for _ in range(3):
            learner.observe(form, list("aabbcc"))
        hashes.add((learner.state_hash(), learner.predict_proba(form).tobytes()))
    assert len(hashes) == 1


def test_r11_read_only_huge_and_single() -> None:
    learner = taught()
    x, y = batch(5)
    x.setflags(write=False)
    learner.observe(x, y)
    learner.observe(x[:1], y[:1])
    learner.observe(*batch(6, n=5000))
    assert learner.step == 8
    assert learner.memory.offered == 5 * 6 + 6 + 1 + 5000


class Spoiled(ER):
    """A loss that is finite until it is told not to be."""

    factor = 1.0

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        return super().loss(net, new, old) * type(self).factor


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_r12_a_loss_that_is_not_finite_changes_nothing(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = taught(Spoiled())
    before = learner.state_hash()
    with monkeypatch.context() as patch:
        patch.setattr(Spoiled, "factor", factor)
        with pytest.raises(NonFiniteError):
            learner.observe(*batch(5))
    assert learner.state_hash() == before
    learner.observe(*batch(5))


class SquareRoot(nn.Module):
    """Finite outputs, infinite gradient at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return (self.scale * x).clamp(min=0).sqrt()


def test_r12_a_gradient_that_is_not_finite_changes_nothing() -> None:
    learner = Learner(SquareRoot(), ER(), memory=10)
    learner.observe(np.ones((2, 4)), ["a", "b"])
    before = learner.state_hash()
    with pytest.raises(NonFiniteError):
        learner.observe(np.zeros((2, 4)), ["a", "b"])
    assert learner.state_hash() == before


class Injected(Exception):
    pass


STAGES = {
    "labels": (Labels, "admit"),
    "growth": (Head, "grow"),
    "recall": (ERAML, "recall"),
    "forward": (Net, "features"),
    "loss": (ERAML, "loss"),
    "backward": (Tensor, "backward"),
    "update": (torch.optim.SGD, "step"),
    "to_store": (ERAML, "to_store"),
    "memory": (Reservoir, "add"),
    "index, removing": (ClassIndex, "remove"),
    "index, adding": (ClassIndex, "add"),
}


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("steps", [0, 6])
@pytest.mark.parametrize("error", [Injected, KeyboardInterrupt])
def test_r13_an_exception_at_any_stage_rolls_everything_back(
    stage: str, when: str, steps: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch brings a new class, so that growth is under way too; encoder with BatchNorm, SGD with momentum."""
    owner, name = STAGES[stage]
    original = getattr(owner, name)

    def failing(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            raise error
        original(*args, **kwargs)
        raise error

    def fresh() -> Learner:
        encoder = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
        torch.manual_seed(0)
        nn.init.normal_(encoder[0].weight)  # type: ignore[arg-type]
        nn.init.zeros_(encoder[0].bias)  # type: ignore[arg-type]
        return Learner(encoder, ERAML(), memory=10, optimizer=lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))

    disturbed, calm = fresh(), fresh()
    for i in range(steps):
        disturbed.observe(*batch(i))
        calm.observe(*batch(i))
    before = disturbed.state_hash()
    x, y = batch(steps)
    y[0] = "never seen"
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing)
        with pytest.raises(error):
            disturbed.observe(x, y)
    assert disturbed.state_hash() == before
    for i in range(steps, steps + 4):
        disturbed.observe(*batch(i))
        calm.observe(*batch(i))
    assert disturbed.state_hash() == calm.state_hash()


@every_method
def test_r14_questions_change_nothing(method: Method) -> None:
    asked, calm = learner_of(method), learner_of(method)
    for i in range(6):
        for learner in (asked, calm):
            learner.observe(*batch(i))
        for _ in range(i):
            asked.predict(batch(9)[0])
            asked.predict_proba(batch(8)[0])
        assert asked.state_hash() == calm.state_hash()


@every_method
@pytest.mark.parametrize(
    "rename",
    [lambda y: int(y[6:]), lambda y: (y, 1), lambda y: y[::-1], lambda y: float(y[6:]) + 0.5],
    ids=["int", "tuple", "reversed", "float"],
)
def test_r15_renaming_labels_changes_no_weight(method: Method, rename: Callable[[str], Any]) -> None:
    one, other = taught(method, steps=0), taught(method, steps=0)
    for i in range(6):
        x, y = batch(i)
        one.observe(x, y)
        other.observe(x, [rename(label) for label in y])
    assert same(weights(one), weights(other))
    assert [rename(str(label)) for label in one.predict(good_x)] == other.predict(good_x)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_r16_growth_leaves_old_rows_and_their_optimizer_state(
    optimizer: type[torch.optim.Optimizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra: dict[str, Any] = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
    learner = taught(ER(), classes=0, lr=None, optimizer=lambda p: optimizer(p, lr=0.01, **extra))  # type: ignore[call-arg]
    rows = learner.net.rows
    seen: list[tuple[Tensor, Tensor]] = []
    grow = Head.grow

    def look() -> tuple[Tensor, Tensor]:
        weight, key = learner.net.head.weight, "momentum_buffer" if extra else "exp_avg"
        return weight.detach().clone(), learner.optimizer.state[weight][key].clone()

    def watched(self: Head, *args: Any) -> None:
        seen.append(look())
        grow(self, *args)
        seen.append(look())

    monkeypatch.setattr(Head, "grow", watched)
    learner.observe(good_x, [f"new {i}" for i in range(6)])
    (weight_before, state_before), (weight_after, state_after) = seen
    assert learner.net.rows == rows + 6
    assert torch.equal(weight_after[:rows], weight_before)
    assert torch.equal(state_after[:rows], state_before)
    assert not state_after[rows:].any()


@every_method
def test_r17_the_caller_may_reuse_arrays(method: Method) -> None:
    reused, kept = learner_of(method), learner_of(method)
    shared_x = np.empty((6, 4), np.float32)
    shared_y: list[str] = []
    for i in range(6):
        x, y = batch(i)
        shared_x[:], shared_y[:] = x, y
        reused.observe(shared_x, shared_y)
        shared_x[:], shared_y[:] = 99, ["changed"] * 6
        kept.observe(x, y)
    assert reused.state_hash() == kept.state_hash()


def test_r17_tensors_of_the_caller_too() -> None:
    learner, kept = taught(), taught()
    x, y = batch(5)
    shared = torch.from_numpy(x.copy())
    learner.observe(shared, y)
    kept.observe(x, y)
    shared.fill_(99)
    assert learner.state_hash() == kept.state_hash()


@pytest.mark.slow
def test_r18_the_same_seed_gives_the_same_bits_here_and_in_another_process() -> None:
    code = (
        "import torch; torch.set_num_threads(1)\n"
        "from tests.learner.test_learner import METHODS, taught\n"
        "print(*[taught(m).state_hash() for m in METHODS])"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert there == [taught(method).state_hash() for method in METHODS]
    assert taught(ERACE(), seed=1).state_hash() != taught(ERACE(), seed=0).state_hash()


def test_dropout_is_reproducible_and_torchs_own_generator_is_left_alone() -> None:
    def dropped() -> Learner:
        learner = Learner(nn.Sequential(mlp((4,), width=16), nn.Dropout(0.5)), ERACE(), memory=12)
        for i in range(5):
            learner.observe(*batch(i))
        return learner

    torch.manual_seed(1)
    first, after_first = dropped().state_hash(), torch.rand(1)
    torch.manual_seed(1)
    untouched = torch.rand(1)
    assert dropped().state_hash() == first
    assert torch.equal(after_first, untouched)


def test_images_as_uint8_or_scaled_by_the_caller_are_the_same() -> None:
    x = np.random.default_rng(0).integers(0, 256, (6, 1, 8, 8), np.uint8)
    weights_of = []
    for samples in (x, x.astype(np.float32) / 127.5 - 1):
        learner = Learner(nn.Sequential(nn.Flatten(), mlp((64,), width=16)), ERACE(), memory=10)
        for _ in range(3):
            learner.observe(samples, list("aabbcc"))
        weights_of.append(weights(learner))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*weights_of, strict=True))


def test_er_ace_with_every_class_in_the_batch_is_er() -> None:
    er, ace = learner_of(ER(head="cosine"), classes=0), learner_of(ERACE(), classes=0)
    for i in range(8):
        x = np.random.default_rng(i).standard_normal((6, 4))
        for learner in (er, ace):
            learner.observe(x, list("abcabc"))
    assert same(weights(er), weights(ace))


def test_a_head_sized_in_advance_learns_the_same() -> None:
    grown, sized = taught(ER(), classes=0), taught(ER(), classes=8)
    rows = grown.net.rows
    assert sized.net.rows == 8
    assert torch.equal(grown.net.head.weight, sized.net.head.weight[:rows])


def test_memory_holds_what_was_observed() -> None:
    learner = learner_of(memory=1000)
    for i in range(4):
        learner.observe(*batch(i))
    held = learner.memory.at(np.arange(24))
    assert np.array_equal(held.x.numpy(), np.concatenate([batch(i)[0] for i in range(4)]))
    assert [learner.classes[c] for c in held.y.tolist()] == [label for i in range(4) for label in batch(i)[1]]


def test_a_frozen_encoder_stays_as_it_is() -> None:
    encoder = mlp((4,), width=16).requires_grad_(False)
    before = [p.clone() for p in encoder.parameters()]
    learner = Learner(encoder, ERACE(), memory=12)
    head = None
    for i in range(4):
        learner.observe(*batch(i))
        head = head if head is not None else learner.net.head.weight.detach()[:2].clone()
    assert same(before, list(encoder.parameters()))
    assert head is not None
    assert not torch.equal(head, learner.net.head.weight[:2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 0.0}, "lr"),
        ({"memory": -1}, "memory"),
        ({"method": ERACE(compete="batch+unseen"), "classes": 0}, "classes"),
        ({"lr": "0.1"}, "lr must be a number above 0 and at most 1000, not '0.1'"),
        ({"lr": float("inf")}, "lr must be a finite number"),
        ({"lr": True}, "lr"),
        ({"memory": True}, "memory: the capacity must be a whole number of 0 or more, not True"),
        ({"memory": 12.0}, "memory: the capacity must be a whole number"),
        ({"memory": "12"}, "memory: the budget must be a number of bytes such as 614kB, 50MB or 2GiB, not '12'"),
        ({"seed": 1.0}, "seed must be a whole number of 0 or more, not 1.0"),
        ({"seed": "1"}, "seed"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, r"seed must be .* below 2\*\*63"),
        ({"classes": 2.5}, "classes must be a whole number"),
        ({"classes": ["a", "b"]}, "classes must be a whole number"),
        ({"pending": 2.5}, "pending must be a whole number of 1 or more"),
        ({"method": ERACE}, "method must be a Method such as ERACE.., not the class ERACE"),
        ({"method": "er-acee"}, "unknown method 'er-acee': did you mean 'er-ace'"),
        ({"augment": "flip"}, "augment must be a function"),
        ({"optimizer": torch.optim.Adam}, "lr is for the built-in SGD"),
        ({"lr": None, "optimizer": "adam"}, "optimizer must be a function of the parameters"),
        ({"lr": None, "optimizer": torch.optim.SGD([torch.zeros(1)], lr=0.1)}, "optimizer must be a function"),
        ({"lr": None, "optimizer": list}, "optimizer must return a torch.optim.Optimizer, not list"),
        ({"lr": None, "optimizer": torch.optim.LBFGS}, "LBFGS cannot train a head that grows"),
    ],
)
def test_impossible_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        learner_of(**settings)
    assert "\n" not in str(error.value)


def test_a_memory_that_another_learner_has_filled_is_refused() -> None:
    with pytest.raises(InputError, match="another learner's"):
        learner_of(memory=taught().memory)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (nn.Linear(3, 8), r"does not take samples of shape \(4,\).*: RuntimeError: mat1 and mat2"),
        (nn.Embedding(4, 8), "does not take samples"),
        (nn.LSTM(4, 8), "must return a tensor of features, not a tuple"),
        (nn.Sequential(nn.Linear(4, 8), nn.Flatten(0)), "does not take samples"),
        (nn.Linear(4, 8, dtype=torch.complex64), "not a row of real features"),
    ],
)
def test_an_encoder_that_does_not_make_features_of_the_samples(encoder: nn.Module, message: str) -> None:
    learner = Learner(encoder, ERACE(), memory=12)
    before = learner.state_hash()
    with pytest.raises(InputError, match=message) as error:
        learner.observe(*batch(0))
    assert "\n" not in str(error.value) and learner.state_hash() == before


@pytest.mark.parametrize("encoder", [nn.LazyLinear(8), nn.Linear(4, 8, device="meta"), lambda x: x, nn.Linear])
def test_what_is_no_encoder(encoder: Any) -> None:
    with pytest.raises(InputError, match="encoder"):
        Learner(encoder, ERACE(), memory=12)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_learns_where_the_caller_has_turned_gradients_off(mode: Callable[[], Any]) -> None:
    plain, other = taught(steps=0), taught(steps=0)
    for i in range(3):
        plain.observe(*batch(i))
        with mode():
            x, y = batch(i)
            other.observe(torch.from_numpy(x), y)
            other.predict(x)
    assert plain.state_hash() == other.state_hash()


def test_task_ids_may_be_numpys_and_must_be_whole_numbers() -> None:
    plain, other = learner_of(MIR()), learner_of(MIR())
    plain.observe(*batch(0), task=3)
    other.observe(*batch(0), task=np.int64(3))  # type: ignore[arg-type]
    assert plain.state_hash() == other.state_hash()
    for task in ("a", 1.5, True, [1], np.array([1, 2])):
        with pytest.raises(InputError, match="task must be a whole number"):
            other.observe(*batch(0), task=task)  # type: ignore[arg-type]
    assert plain.state_hash() == other.state_hash()


def test_answers_with_a_threshold_that_is_no_number() -> None:
    learner = taught()
    with pytest.raises(InputError, match="reject must be a number"):
        learner.predict(good_x, reject="0.5")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="accept must be a number"):
        learner.rejection_threshold("0.5")  # type: ignore[arg-type]


class NeedsTasks(ER):
    needs_task_ids = True
    tasks: list[int | None] = []  # noqa: RUF012

    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor:
        self.tasks.append(None if new.task is None else new.task.id)
        return super().loss(net, new, old)


def test_task_ids_reach_only_methods_that_declare_them() -> None:
    learner = learner_of(NeedsTasks())
    with pytest.raises(InputError, match="task"):
        learner.observe(*batch(0))
    learner.observe(*batch(0), task=3)
    assert NeedsTasks.tasks == [3]


def test_every_error_is_one_of_ours() -> None:
    learner = taught()
    for x, y, _ in BAD_BATCHES.values():
        with pytest.raises(HoldfastError) as error:
            learner.observe(x, y)
        assert "\n" not in str(error.value)


def test_a_file_saved_while_another_thread_learns_is_that_of_one_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = taught()
    before, pack, threads = learner.state_hash(), checkpoint.pack, []

    def disturbed(*state: Any) -> bytes:
        threads.append(threading.Thread(target=learner.observe, args=batch(5), daemon=True))
        threads[0].start()
        threads[0].join(0.2)  # it has to wait for us, unless there is something wrong
        return pack(*state)

    monkeypatch.setattr(checkpoint, "pack", disturbed)
    learner.save(tmp_path / "saved")
    threads[0].join(60)
    assert learner.step == 6
    assert Learner.load(tmp_path / "saved").state_hash() == before


@pytest.mark.parametrize("optimizer", [None, lambda p: torch.optim.Adam(p, lr=0.01)], ids=["SGD", "Adam"])
@every_method
def test_r34_a_step_that_failed_is_forgotten_though_its_exception_lives_on(
    method: Method, optimizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its traceback holds the graph of a head that was larger for a moment."""
    settings = {"classes": 0, "lr": None, "optimizer": optimizer}
    if method.needs_unseen_classes:
        pytest.skip("its head is sized in advance")
    learner, undisturbed = taught(method, **settings), taught(method, **settings)
    before, kept = learner.state_hash(), []
    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(learner.optimizer, "step", lambda: 1 / 0)
            try:
                learner.observe(good_x, [f"new {i}" for i in range(6)])
            except ZeroDivisionError as error:
                kept.append(error)
                assert learner.state_hash() == before
    assert len(kept) == 3
    for i in (5, 6, 7):
        learner.observe(*batch(i))
        undisturbed.observe(*batch(i))
    assert learner.state_hash() == undisturbed.state_hash()


@pytest.mark.parametrize(
    "around",
    [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)],
    ids=["no_grad", "inference_mode", "autocast"],
)
def test_r34_the_callers_modes_of_torch_change_nothing(around: Callable[[], Any]) -> None:
    plain, other = taught(), learner_of()
    with around():
        for i in range(5):
            other.observe(*batch(i))
        answers = other.predict_proba(good_x)
        other.tell(other.ask(good_x), good_y)
        other.remember(good_x, good_y)
    assert np.array_equal(answers, plain.predict_proba(good_x))
    plain.tell(plain.ask(good_x), good_y)
    plain.remember(good_x, good_y)
    assert other.state_hash() == plain.state_hash()


@pytest.mark.parametrize("settings", [{}, {"average": 0.9}, {"standardise": True}], ids=str)
def test_r34_a_learner_made_in_inference_mode_learns(settings: dict[str, Any]) -> None:
    plain, encoder = Learner(mlp((4,), width=8), ER(), memory=10, **settings), mlp((4,), width=8)
    with torch.inference_mode():
        other = Learner(encoder, ER(), memory=10, **settings)
        made_inside = mlp((4,))
    for learner in (plain, other):
        learner.observe(*batch(1))
        learner.observe(good_x, ["new"] * len(good_x))
    assert other.state_hash() == plain.state_hash()
    with pytest.raises(InputError, match="make it outside"):
        Learner(made_inside, ER())


def test_r34_a_value_that_ruins_statistics_is_refused() -> None:
    """Finite, but its square is not: a variance of the batch would be infinite for ever."""
    encoder = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
    learner = Learner(encoder, ER(), memory=10)
    learner.observe(good_x, good_y)
    before = learner.state_hash()
    with pytest.raises((NonFiniteError, BatchError)):
        learner.observe(np.where(np.eye(6, 4) > 0, 1e20, good_x), good_y)
    assert learner.state_hash() == before
    learner.observe(*batch(8))


@pytest.mark.parametrize("lr", [float("inf"), 1e30, float("nan"), 0.0])
def test_r34_a_learning_rate_that_cannot_be_is_refused(lr: float) -> None:
    with pytest.raises(InputError, match="lr"):
        learner_of(lr=lr)
