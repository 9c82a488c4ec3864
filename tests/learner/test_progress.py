"""How well a learner does, without a test set."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import holdfast
from holdfast import ERACE, GDumb, ICaRL, Learner, mlp
from holdfast.errors import BatchError, CheckpointError, HoldfastError, InputError
from holdfast.learner.progress import Tally
from holdfast.storage import checkpoint

RNG = np.random.default_rng(0)
CENTRES = 3 * RNG.standard_normal((4, 5))


def batch(step: int, classes: int = 4) -> tuple[Any, list[str]]:
    y = np.random.default_rng(step).integers(0, classes, 6)
    noise = np.random.default_rng(1000 + step).standard_normal((6, 5))
    return (CENTRES[y] + noise).astype(np.float32), ["abcd"[i] for i in y]


def learner(**settings: Any) -> Learner:
    return Learner(mlp((5,), width=8), settings.pop("method", ERACE()), memory=20, **settings)


def test_it_counts_the_answers_that_were_given_before_learning() -> None:
    watched = learner(progress=10)
    answers: list[Any] = []
    truth: list[str] = []
    for step in range(30):
        x, y = batch(step, classes=2 if step < 10 else 4)
        answers += watched.predict(x) if step else [None] * 6
        truth += y
        if step % 2:
            watched.observe(x, y)
        else:
            watched.tell(watched.ask(x), y)
    found = watched.progress
    assert found is not None
    right = [answer == label for answer, label in zip(answers, truth, strict=True)]
    assert (found.samples, found.right) == (180, sum(right))
    assert found.accuracy == sum(right) / 180 and found.recent_accuracy == sum(right[-10:]) / 10
    assert [each.label for each in found.classes] == watched.classes
    for each in found.classes:
        places = [i for i, label in enumerate(truth) if label == each.label]
        assert (each.samples, each.right, each.first) == (len(places), sum(right[i] for i in places), places[0])
        assert each.accuracy == each.right / each.samples
    wrong = [(label, answer) for label, answer in zip(truth[-10:], answers[-10:], strict=True) if label != answer]
    assert {(each.label, each.answer): each.count for each in found.confused} == {p: wrong.count(p) for p in wrong}
    assert sum(point.samples for point in found.curve) == 180 == found.curve[-1].end
    assert found.curve[0].accuracy == sum(right[:10]) / 10
    assert found.rate > 0


def test_samples_of_classes_that_were_not_known() -> None:
    watched = learner(progress=10)
    watched.observe(*batch(0, classes=2))
    watched.observe(*batch(1, classes=2))
    assert watched.progress is not None and watched.progress.unknown == 0.5


def test_it_changes_nothing_that_is_learned_and_is_off_unless_asked_for() -> None:
    watched, plain = learner(progress=10), learner()
    for step in range(5):
        watched.observe(*batch(step))
        plain.observe(*batch(step))
    assert np.array_equal(watched.predict_proba(batch(9)[0]), plain.predict_proba(batch(9)[0]))
    assert plain.progress is None and watched.state_hash() != plain.state_hash()


def test_averaged_and_kept_answers_are_those_that_predict_gives() -> None:
    for settings in ({"average": 0.9}, {"method": ICaRL()}):
        watched, hits = learner(progress=10, **settings), 0
        for step in range(8):
            x, y = batch(step)
            hits += sum(a == b for a, b in zip(watched.predict(x), y, strict=True)) if step else 0
            watched.observe(x, y, task=0)
        assert watched.progress is not None and watched.progress.right == hits


def test_it_is_saved_with_the_learner(tmp_path: Path) -> None:
    watched = learner(progress=10)
    for step in range(4):
        watched.observe(*batch(step))
    watched.save(tmp_path / "file")
    loaded = Learner.load(tmp_path / "file")
    assert loaded.state_hash() == watched.state_hash()
    for each in (watched, loaded):
        each.observe(*batch(5))
    assert loaded.progress is not None and watched.progress is not None
    assert loaded.progress.classes == watched.progress.classes and loaded.progress.curve == watched.progress.curve


def test_a_failed_step_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = learner(progress=10)
    watched.observe(*batch(0))
    before, hashed = watched.progress, watched.state_hash()
    with monkeypatch.context() as patch:
        patch.setattr(watched.memory, "add", _fails)
        with pytest.raises(OSError, match="no"):
            watched.observe(*batch(1))
    assert watched.progress == before and watched.state_hash() == hashed
    with pytest.raises(BatchError):
        watched.observe(batch(1)[0], ["a"])
    assert watched.progress == before


def _fails(*given: object) -> None:
    raise OSError("no")


def test_a_forgotten_class_is_in_no_list() -> None:
    watched = learner(progress=100)
    for step in range(6):
        watched.observe(*batch(step))
    watched.forget("b")
    found = watched.progress
    assert found is not None and "b" not in [each.label for each in found.classes]
    assert all("b" not in (each.label, each.answer) for each in found.confused)
    watched.observe(*batch(7))
    assert found.samples == 36


def test_a_durable_learner_recovers_the_same_counts(tmp_path: Path) -> None:
    made: dict[str, Any] = {"encoder": mlp((5,), width=8), "method": ERACE(), "memory": 20}
    watched, plain = holdfast.open(tmp_path / "w", progress=10, **made), learner(progress=10)
    for step in range(5):
        watched.observe(*batch(step))
        plain.observe(*batch(step))
    hashed = watched.state_hash()
    watched._folder.abandon()  # type: ignore[union-attr]  # as if it had been killed
    again = holdfast.open(tmp_path / "w")
    assert again.state_hash() == hashed == plain.state_hash()
    again.close()


def test_an_open_learner_can_begin_and_end_to_be_watched(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "w", mlp((5,), width=8), ERACE(), memory=20) as watched:
        watched.observe(*batch(0))
    with holdfast.open(tmp_path / "w", progress=10) as watched:
        watched.observe(*batch(1))
        watched.observe(*batch(2))
    with holdfast.open(tmp_path / "w", progress=3) as watched:
        assert watched.progress is not None and watched.progress.samples == 12 and len(watched.progress.tally.last) == 3
    with holdfast.open(tmp_path / "w", progress=0) as watched:
        assert watched.progress is None


def test_the_curve_stays_short() -> None:
    tally = Tally.empty(5)
    for _ in range(2000):
        tally = tally.add([0, 1, 2], [0, 1, 0], known=3)
    assert 128 <= len(tally.curve) <= 256 and tally.curve.sum(0).tolist() == [6000, 4000]
    assert set(tally.curve[:-1, 0].tolist()) == {tally.width}


def test_what_cannot_be() -> None:
    for wrong in (-1, 1.5, True, "10", 10**7):
        with pytest.raises(InputError, match="progress must be a whole number"):
            learner(progress=wrong)
    with pytest.raises(InputError, match="GDumb trains a net for its answers"):
        learner(method=GDumb(), progress=10)


@pytest.mark.parametrize("name", ["by_class", "last", "curve"])
def test_forged_counts_are_refused(tmp_path: Path, name: str) -> None:
    watched = learner(progress=10)
    watched.observe(*batch(0))
    tensors, values = checkpoint.unpack(watched.serialized())
    whole = tensors[f"progress/{name}"]
    for forged in (whole[:, :1], whole - 2, whole.float(), whole.repeat(300, 1), whole.flatten()):
        tensors[f"progress/{name}"] = forged.contiguous()
        (tmp_path / "forged").write_bytes(checkpoint.pack(tensors, values))
        with pytest.raises(CheckpointError):
            Learner.load(tmp_path / "forged")
    del tensors[f"progress/{name}"]
    (tmp_path / "forged").write_bytes(checkpoint.pack(tensors, values))
    with pytest.raises(HoldfastError):
        Learner.load(tmp_path / "forged")


def test_the_doors_of_others_have_it() -> None:
    from holdfast import river, sklearn

    x, y = batch(0)
    model = sklearn.OnlineClassifier(progress=10, batch=2).partial_fit(x, y)
    assert model.learner_.progress is not None and model.learner_.progress.samples == 6
    online = river.OnlineClassifier(progress=10, batch=2)
    for sample, label in zip(x, y, strict=True):
        online.learn_one(dict(enumerate(sample.tolist())), label)
    assert online.learner is not None and online.learner.progress is not None
    assert online.learner.progress.samples == 6
    assert online.learner.progress.unknown == model.learner_.progress.unknown


def test_modules_of_ones_own_are_answered_in_evaluation_mode() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    watched = Learner(net, ERACE(), memory=20, progress=10)
    hits = 0
    for step in range(6):
        x, y = batch(step)
        hits += sum(a == b for a, b in zip(watched.predict(x), y, strict=True)) if step else 0
        watched.observe(x, y)
    assert watched.progress is not None and watched.progress.right == hits


def test_it_says_how_well_in_one_line() -> None:
    learner = holdfast.Learner(holdfast.mlp((2,)), "er", memory=10, progress=4)
    assert repr(learner.progress) == "<Progress: no labelled samples yet>"
    for _ in range(2):
        learner.observe(np.zeros((4, 2), np.float32), ["a"] * 4)
    assert repr(learner.progress) == "<Progress: of 8 samples 50.0% answered right, of the last 4 100.0%>"
