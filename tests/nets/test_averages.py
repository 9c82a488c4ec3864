"""Averaged answers: the net learns as it would without, and its average answers."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import holdfast
from holdfast import DER, ER, ERACE, MIR, SCR, SSIL, GDumb, ICaRL, Learner, Method, mlp
from holdfast.errors import CheckpointError, InputError, NonFiniteError
from holdfast.learner.state import pack
from holdfast.measure.ledger import Ledger
from holdfast.storage import checkpoint
from tests.methods.reference import everything, nearest
from tests.threads import repeating

X = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
METHODS = [ER(), ERACE(), DER(), MIR(), ICaRL(), SSIL(distil="incoming+rehearsal"), SCR()]


def batch(step: int, n: int = 6) -> tuple[NDArray[np.float32], list[str]]:
    """A class appears every fourth batch."""
    rng = np.random.default_rng(step)
    return rng.standard_normal((n, 4)).astype(np.float32), [f"class {rng.integers(2 + step // 4)}" for _ in range(n)]


def encoder() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 8))


def observe(learner: Learner, step: int) -> None:
    learner.observe(*batch(step), task=step // 8)


def taught(method: Method | None = None, steps: int = 20, average: float = 0.9, **settings: Any) -> Learner:
    learner = Learner(encoder(), method or ERACE(), **{"memory": 30, "average": average, **settings})
    for step in range(steps):
        observe(learner, step)
    return learner


def averaged(learner: Learner) -> dict[str, Tensor]:
    assert learner.average is not None
    return {name: tensor.clone() for name, tensor in learner.average.net.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_the_net_learns_the_same_with_and_without(method: Method) -> None:
    (tensors, values), (plain_tensors, plain_values) = (pack(taught(method, average=d)) for d in (0.9, 0.0))
    own = {name for name in tensors if name.startswith("average/")}
    assert own and tensors.keys() - own == plain_tensors.keys()
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in plain_tensors.items())
    assert {name: value for name, value in values.items() if name != "average"} == plain_values


def test_it_is_the_average_of_what_the_weights_were() -> None:
    """d · avg + (1 - d) · w in float64, d = min(0.9, t / (t + 9)); rows of the head count from their first step."""
    learner = taught(steps=0)
    expected: dict[str, NDArray[np.float64]] = {}
    born: list[int] = []
    for step in range(120):
        observe(learner, step)
        born += [step] * (learner.net.seen - len(born))
        for name, tensor in learner.net.state_dict().items():
            now, before = tensor.double().numpy(), expected.get(name, np.empty(0))
            if not tensor.is_floating_point():
                expected[name] = now
                continue
            rows = name.startswith("head")
            t = np.array([step - start for start in born] if rows else [step])
            d = np.minimum(0.9, t / (t + 9)).reshape(-1, *[1] * (now.ndim - 1) if rows else [])
            if rows and len(before) < len(now):
                before = np.concatenate([before.reshape(-1, now.shape[1]), np.zeros_like(now[len(before) :])])
            expected[name] = d * (before if step else 0) + (1 - d) * now
    for name, tensor in averaged(learner).items():
        assert np.allclose(tensor, expected[name], atol=1e-5), name
    assert not torch.allclose(averaged(learner)["head.weight"], learner.net.head.weight, atol=1e-3)


def test_questions_are_answered_by_the_average() -> None:
    learner = taught()
    assert learner.average is not None
    with torch.no_grad():
        right = learner.average.net(torch.from_numpy(X)).softmax(1)
        other = learner.net(torch.from_numpy(X)).softmax(1)
    assert np.array_equal(learner.predict_proba(X), right)
    assert not np.allclose(right, other, atol=1e-3)
    assert learner.answering_net() is learner.average.net


@pytest.mark.parametrize("method", [ICaRL(), SCR()], ids=repr)
def test_class_means_are_those_of_the_averages_features(method: Method) -> None:
    learner = taught(method)
    assert learner.average is not None
    net = copy.deepcopy(learner.average.net).double()
    right = nearest(net, everything(learner), torch.from_numpy(X).double())
    assert learner.predict(X) == [learner.classes[c] for c in right]


def test_a_head_sized_in_advance_gives_the_same_bits() -> None:
    grown, sized = taught(), taught(classes=12)
    assert np.array_equal(grown.predict_proba(X), sized.predict_proba(X))


def test_a_class_that_was_only_remembered_is_known() -> None:
    learner = taught()
    learner.remember(X[:2], ["other"] * 2)
    assert learner.predict_proba(X).shape == (20, len(learner.classes))
    observe(learner, 20)
    assert learner.average is not None
    assert torch.equal(learner.average.net.head.weight[-1], learner.net.head.weight[-1])


@pytest.mark.parametrize("fails", ["loss", "to_store"])
def test_a_step_that_fails_leaves_no_trace(fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, twin = taught(), taught()
    before, answers = learner.state_hash(), learner.predict_proba(X)

    def infinite(self: ERACE, net: Any, new: Any, old: Any = None) -> Tensor:
        return net(new.x).sum() * torch.inf  # type: ignore[no-any-return]

    def interrupted(self: ERACE, net: Any, new: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ERACE, fails, infinite if fails == "loss" else interrupted)
        with pytest.raises((NonFiniteError, KeyboardInterrupt)):
            learner.observe(X[:2], ["new", "newer"])
    assert learner.state_hash() == before
    assert np.array_equal(learner.predict_proba(X), answers)
    for step in range(20, 30):
        observe(learner, step)
        observe(twin, step)
    assert learner.state_hash() == twin.state_hash()


@pytest.mark.parametrize("steps", [0, 1, 20])
def test_a_learner_that_was_saved_goes_on_with_the_same_bits(steps: int, tmp_path: Path) -> None:
    learner = taught(steps=steps)
    learner.save(tmp_path / "file")
    loaded = Learner.load(tmp_path / "file", encoder=encoder())
    assert loaded.state_hash() == learner.state_hash() != taught(steps=steps, average=0.8).state_hash()
    assert loaded.settings["average"] == 0.9
    for step in range(20, 30):
        observe(learner, step)
        observe(loaded, step)
    assert loaded.state_hash() == learner.state_hash()
    assert np.array_equal(loaded.predict_proba(X), learner.predict_proba(X))


def test_what_does_not_learn_is_held_and_saved_once() -> None:
    frozen = nn.Sequential(nn.Linear(4, 500).requires_grad_(False), nn.ReLU(), nn.Linear(500, 4))
    learner, plain = (Learner(frozen, ERACE(), memory=5, average=d) for d in (0.9, 0.0))
    learner.observe(*batch(0))
    plain.observe(*batch(0))
    assert learner.average is not None
    assert learner.average.net.encoder.module[0].weight is frozen[0].weight  # type: ignore[index]
    assert "average/encoder.module.0.weight" not in pack(learner)[0]
    ledgers = Ledger(), Ledger()
    for ledger, each in zip(ledgers, (learner, plain), strict=True):
        ledger.weigh(each)
    learned = sum(p.numel() * 4 for p in plain.net.parameters() if p.requires_grad)
    assert ledgers[0].mean_bytes - ledgers[1].mean_bytes == learned


@pytest.mark.parametrize(
    "wrong",
    [
        {"decay": 1.5, "born": [0, 0]},
        {"decay": "0.9", "born": [0, 0]},
        {"decay": 0.0, "born": [0, 0]},
        {"decay": 0.9, "born": [0]},
        {"decay": 0.9, "born": [0, 9]},
        {"decay": 0.9, "born": [0, -1]},
        {"decay": 0.9, "born": None},
        {"decay": 0.9},
        0.9,
    ],
)
def test_a_file_whose_average_cannot_be_is_refused(wrong: Any, tmp_path: Path) -> None:
    learner = taught(steps=1)
    tensors, manifest = checkpoint.unpack(learner.serialized())
    (tmp_path / "file").write_bytes(checkpoint.pack(tensors, {**manifest, "average": wrong}))
    with pytest.raises(CheckpointError):
        Learner.load(tmp_path / "file", encoder=encoder())


def test_a_file_with_an_average_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    tensors, manifest = checkpoint.unpack(taught(steps=1).serialized())
    tensors["average/encoder.module.0.weight"][0] = torch.nan
    (tmp_path / "file").write_bytes(checkpoint.pack(tensors, manifest))
    with pytest.raises(CheckpointError, match="finite"):
        Learner.load(tmp_path / "file", encoder=encoder())


def test_a_durable_learner_recovers_it_and_its_folder_knows_it(tmp_path: Path) -> None:
    reference = Learner(mlp((4,), width=8), ERACE(), memory=20, average=0.9)
    learner = holdfast.open(tmp_path / "it", mlp((4,), width=8), ERACE(), memory=20, average=0.9)
    for step in range(10):
        for each in (learner, reference):
            each.observe(*batch(step))
    del learner  # not closed
    with pytest.raises(CheckpointError, match="average"):
        holdfast.open(tmp_path / "it", average=0.8)
    with holdfast.open(tmp_path / "it", average=0.9) as again:
        assert again.state_hash() == reference.state_hash()


def test_every_answer_in_another_thread_is_the_averages_at_one_step() -> None:
    learner, reference = taught(steps=1), taught(steps=1)
    right = {reference.predict_proba(X).tobytes()}
    for step in range(1, 60):
        observe(reference, step)
        right.add(reference.predict_proba(X).tobytes())
    heard: set[bytes] = set()
    with repeating(lambda: heard.add(learner.predict_proba(X).tobytes()), threads=2):
        for step in range(1, 60):
            observe(learner, step)
    assert heard <= right and len(heard) > 3
    assert learner.state_hash() == reference.state_hash()


def test_a_forgotten_class_leaves_the_average_too() -> None:
    learner = taught()
    learner.forget("class 1")
    row = learner.classes.index("class 0")
    assert learner.average is not None
    mine, its = learner.average.net.head.weight, learner.net.head.weight
    forgotten = next(iter(learner.labels.forgotten))
    assert torch.equal(mine[forgotten], its[forgotten]) and not torch.equal(mine[row], its[row])
    assert "class 1" not in learner.predict(X)


def test_a_copied_learner_has_an_average_of_its_own() -> None:
    learner = taught()
    twin, answers = copy.deepcopy(learner), learner.predict_proba(X)
    observe(learner, 20)
    assert np.array_equal(twin.predict_proba(X), answers)
    observe(twin, 20)
    assert twin.state_hash() == learner.state_hash()


@pytest.mark.parametrize("wrong", [-0.1, 1, 0.99999, float("nan"), "0.9", True])
def test_impossible_decays(wrong: Any) -> None:
    with pytest.raises(InputError, match="average must be"):
        taught(average=wrong)


def test_what_cannot_be_averaged_says_so() -> None:
    with pytest.raises(InputError, match="GDumb makes the net that answers when asked"):
        taught(GDumb())
    with pytest.raises(InputError, match="float32 or float64"):
        Learner(mlp((4,)).bfloat16(), ERACE(), average=0.9)
    with pytest.raises(InputError, match="average=0 answers without one"):
        Learner(mlp((4,)).bfloat16(), memory=10)  # whose method brings an average
    assert Learner(mlp((4,)).bfloat16(), memory=10, average=0).average is None
