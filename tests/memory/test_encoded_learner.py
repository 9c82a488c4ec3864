"""What a learner promises, with a memory that holds its samples encoded."""

import copy
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import holdfast
from holdfast import DER, ERACE, ERAML, SCR, ClassBalanced, GDumb, ICaRL, Learner, Method, Reservoir, small_cnn
from holdfast.adapters.portable import new_learner
from holdfast.checks.faults import Injected, fault
from holdfast.errors import BatchError, CheckpointError, InputError, OtherBits
from holdfast.learner.versions import Version
from holdfast.seeds import generator
from holdfast.storage import checkpoint
from tests.memory.test_codecs import Halves, smooth

SHAPE = (3, 16, 16)
METHODS = [ERACE(), ERAML(), DER(), SCR(), ICaRL(), GDumb(rounds=1)]
Images = NDArray[np.uint8]


class Balanced(ERACE):
    memory_class = ClassBalanced


def batch(step: int, n: int = 6) -> tuple[Images, list[str]]:
    rng = generator(0, "images", step)
    labels = rng.integers(0, 2 + step // 10, n)
    images = np.stack([smooth(SHAPE, int(rng.integers(10_000))) for _ in labels])
    images[:, 0] += (40 * labels[:, None, None]).astype(np.uint8)
    return images, [f"class {label}" for label in labels]


def new(method: Method | None = None, codec: Any = "webp:75", nbytes: int = 12_000) -> Learner:
    method = method or ERACE()
    memory = method.memory_class(nbytes=nbytes, codec=codec)
    return Learner(small_cnn(SHAPE, width=4), method, memory=memory, lr=0.01)


def teach(learner: Learner, first: int, steps: int) -> Learner:
    for step in range(first, first + steps):
        learner.observe(*batch(step), task=step // 10)
    return learner


@pytest.fixture(scope="module")
def taught() -> Learner:
    return teach(new(), 0, 15)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_what_is_saved_goes_on_as_if_it_never_was(method: Method, tmp_path: Path) -> None:
    learner = teach(new(method), 0, 12)
    assert len(learner.memory) > 12_000 // np.prod(SHAPE) and learner.memory.nbytes <= 12_000
    learner.save(tmp_path / "file")
    loaded = Learner.load(tmp_path / "file")
    assert loaded.state_hash() == learner.state_hash()
    x, _ = batch(99)
    for each in (learner, loaded):
        teach(each, 12, 4)
    assert loaded.state_hash() == learner.state_hash()
    assert np.array_equal(loaded.predict_proba(x), learner.predict_proba(x))


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["recall", "memory", "a memory write"])
@pytest.mark.parametrize("method", [ERACE(), Balanced()], ids=["reservoir", "class-balanced"])
def test_a_step_that_fails_leaves_nothing_behind(method: Method, stage: str) -> None:
    learner, twin = teach(new(method), 0, 12), teach(new(method), 0, 12)
    before = learner.state_hash()
    for late in (False, True):
        with pytest.raises(Injected), fault(learner, stage, late):
            learner.observe(*batch(12))
        assert learner.state_hash() == before == twin.state_hash()
    for each in (learner, twin):
        teach(each, 12, 3)
    assert learner.state_hash() == twin.state_hash()


def test_samples_that_cannot_be_encoded_are_refused_and_nothing_is_learned() -> None:
    learner = Learner(holdfast.mlp((8,)), ERACE(), memory=Reservoir(nbytes=1000, codec="webp:75"))
    before = learner.state_hash()
    with pytest.raises(InputError, match="webp:75 keeps uint8 images"):
        learner.observe(np.zeros((2, 8), np.float32), ["a", "b"])
    assert learner.state_hash() == before and not learner.classes


def test_the_log_of_a_durable_learner_repeats_to_the_same_bits(tmp_path: Path) -> None:
    def opened(**settings: Any) -> holdfast.DurableLearner:
        return holdfast.open(tmp_path / "home", small_cnn(SHAPE, width=4), ERACE(), **settings)

    learner = opened(memory=Reservoir(nbytes=12_000, codec="webp:75"))
    teach(learner, 0, 13)
    learner.remember(*batch(50))
    bits = learner.state_hash()
    learner._folder.abandon()  # type: ignore[union-attr]  # as kill -9 leaves it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = opened()
    assert again.state_hash() == bits and again.memory.settings["codec"] == "webp:75"
    again.close()
    with pytest.raises(CheckpointError, match="memory does not fit"):
        opened(memory=Reservoir(nbytes=12_000, codec="webp:50"))
    with pytest.raises(CheckpointError, match="memory does not fit"):
        opened(memory=12)


def test_a_log_that_another_libwebp_has_written_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = holdfast.open(tmp_path, small_cnn(SHAPE, width=4), ERACE(), memory=Reservoir(9000, codec="webp:75"))
    teach(learner, 0, 2)
    learner._folder.abandon()  # type: ignore[union-attr]
    monkeypatch.setattr("holdfast.memory.codecs.features.version", lambda name: "0.1")
    with pytest.warns(OtherBits, match=r"codec libwebp 0\.1 here and libwebp .* there"):
        holdfast.open(tmp_path).close()


def test_what_is_forgotten_is_gone(taught: Learner, tmp_path: Path) -> None:
    learner = copy.deepcopy(taught)
    offered = np.concatenate([batch(step)[0] for step in range(15)])
    slot = 3
    sample = offered[learner.memory.arrivals[slot]][None]
    data: bytes = learner.memory._columns["x"][slot]
    assert not np.array_equal(learner.memory.at(np.array([slot])).x.numpy(), sample)  # lossy
    assert learner.forget_samples(sample) == 1
    assert learner.forget_samples(sample) == 0
    held = learner.memory.count(0)
    assert learner.forget("class 0") == held > 0
    learner.save(tmp_path / "file")
    assert data not in (tmp_path / "file").read_bytes()
    teach(learner, 15, 3)


def test_a_memory_is_exported_as_it_is_seen_and_taken_in_by_any_other(taught: Learner, tmp_path: Path) -> None:
    holdfast.export_memory(taught, tmp_path / "memory")
    for codec in ("raw", "png", "webp:75"):
        other = new(codec=codec, nbytes=200_000)
        assert holdfast.import_memory(other, tmp_path / "memory") == len(taught.memory) == len(other.memory)
    exact = new(codec="png", nbytes=200_000)
    holdfast.import_memory(exact, tmp_path / "memory")
    order = np.argsort(taught.memory.arrivals)
    images = [learner.memory.at(slots).x for learner, slots in ((taught, order), (exact, np.arange(len(order))))]
    assert torch.equal(*images)
    holdfast.memory_gallery(taught, tmp_path / "gallery.png")
    assert sum(held.count for held in holdfast.memory_summary(taught)) == len(taught.memory)


def test_answers_from_class_means_are_those_of_one_whole_step() -> None:
    learner, twin = (teach(new(SCR()), 0, 12) for _ in range(2))
    x, _ = batch(99)

    def scores_of(version: Version) -> torch.Tensor:
        shared = version.memory
        teach(learner, 12, 2)
        assert shared.offered == 72 != learner.memory.offered
        return learner.method.predictor(version.net, shared)(torch.from_numpy(x))

    scores = learner.versions.read(scores_of, memory=True)
    assert np.allclose(scores.softmax(1).detach().numpy(), twin.predict_proba(x), atol=1e-6)


class OwnCodec(Halves):
    name = "own"

    def encode(self, sample: NDArray[Any]) -> bytes:
        return sample[:, ::2, ::2].tobytes()

    def decode(self, data: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
        small = np.frombuffer(data, np.uint8).reshape(shape[0], shape[1] // 2, shape[2] // 2)
        return small.repeat(2, 1).repeat(2, 2)


def test_a_codec_of_ones_own_is_passed_again(tmp_path: Path) -> None:
    learner = teach(new(codec=OwnCodec()), 0, 12)
    learner.save(tmp_path / "file")
    assert Learner.load(tmp_path / "file", codec=OwnCodec()).state_hash() == learner.state_hash()
    with pytest.raises(CheckpointError, match="the codec own is not built in: pass it again"):
        Learner.load(tmp_path / "file")
    with pytest.raises(CheckpointError, match="the memory does not fit the checkpoint: png here and own there"):
        Learner.load(tmp_path / "file", codec=holdfast.memory.codecs.PNG())
    own: dict[str, Any] = {"memory": Reservoir(nbytes=9000, codec=OwnCodec())}
    with holdfast.open(tmp_path / "home", small_cnn(SHAPE, width=4), ERACE(), **own) as durable:
        teach(durable, 0, 2)
    with holdfast.open(tmp_path / "home", **own) as again:
        assert again.step == 2
    with pytest.raises(CheckpointError, match="not built in"):
        holdfast.open(tmp_path / "home")


def test_it_travels_with_an_estimator() -> None:
    memory = Reservoir(nbytes=9000, codec=OwnCodec())
    learner = new_learner(SHAPE, method="er-ace", memory=memory, lr=0.01, width=4)
    teach(learner, 0, 3)
    for twin in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert twin.state_hash() == learner.state_hash()


Forge = Callable[[dict[str, Tensor], dict[str, Any]], None]


def changed(name: str, change: Callable[[Tensor], Tensor]) -> Forge:
    def forge(tensors: dict[str, Tensor], manifest: dict[str, Any]) -> None:
        tensors[f"memory/{name}"] = change(tensors[f"memory/{name}"])

    return forge


def said(key: str, value: Any) -> Forge:
    def forge(tensors: dict[str, Tensor], manifest: dict[str, Any]) -> None:
        manifest["memory"][key] = value

    return forge


def swapped(lengths: Tensor) -> Tensor:
    """Samples that end in the middle of others."""
    return lengths.flip(0)


FORGERIES: dict[str, Forge] = {
    "zeros": changed("encoded", torch.zeros_like),
    "noise": changed("encoded", lambda t: torch.randint_like(t, 256)),
    "cut": changed("encoded", lambda t: t[:-1]),
    "longer": changed("encoded", lambda t: torch.cat([t, t])),
    "another type": changed("encoded", lambda t: t.int()),
    "lengths swapped": changed("lengths", swapped),
    "lengths negative": changed("lengths", lambda t: torch.cat([t[:1] + 10**6, t[1:2] - 10**6, t[2:]])),
    "lengths that overflow": changed("lengths", lambda t: torch.cat([t[:1] + 2**62, t[1:2] + 2**62, t[2:]])),
    "one sample": changed("lengths", lambda t: t.sum()[None]),
    "lengths of another type": changed("lengths", lambda t: t.int()),
    "larger images": changed("sample", lambda t: torch.empty(0, 3, 4096, 1365, dtype=t.dtype)),
    "images without end": changed("sample", lambda t: torch.empty(0, 3, 2**30, 2**30, dtype=t.dtype)),
    "vectors": changed("sample", lambda t: torch.empty(0, 8)),
    "no threshold": changed("threshold", lambda t: t[:0]),
    "threshold 0": changed("threshold", torch.zeros_like),
    "threshold 2": changed("threshold", lambda t: t * 0 + 2),
    "threshold NaN": changed("threshold", lambda t: t * torch.nan),
    "fingerprints": changed("column/fingerprint", lambda t: t.float()),
    "fewer fingerprints": changed("column/fingerprint", lambda t: t[1:]),
    "capacity": changed("capacity", lambda t: t + 10**9),
    "a smaller budget": said("nbytes", 500),
    "another codec": said("codec", "png"),
    "a codec that is not": said("codec", "os.system"),
    "a codec of another type": said("codec", {"a": 1}),
    "no codec": said("codec", None),
    "a quality": said("codec", "webp:" + "9" * 5000),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_file_is_a_checkpoint_error(forge: Forge, taught: Learner, tmp_path: Path) -> None:
    """With a checksum that is right."""
    tensors, manifest = checkpoint.unpack(taught.serialized())
    forge(tensors, manifest)
    (tmp_path / "file").write_bytes(checkpoint.pack(tensors, manifest))
    with pytest.raises(CheckpointError):
        Learner.load(tmp_path / "file")


@pytest.mark.parametrize("method", [ERACE(), ICaRL()], ids=["ER-ACE", "iCaRL"])
def test_forged_samples_are_blank_and_the_learner_goes_on(method: Method, tmp_path: Path) -> None:
    """A glance does not tell what is wrong behind the beginning of an image."""
    learner = teach(new(method, "png", 20_000), 0, 6)
    tensors, manifest = checkpoint.unpack(learner.serialized())
    ends = tensors["memory/lengths"].cumsum(0)
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        tensors["memory/encoded"][start + 40 : end] = 0xFF
    (tmp_path / "file").write_bytes(checkpoint.pack(tensors, manifest))
    loaded = Learner.load(tmp_path / "file")
    assert loaded.memory.undecodable == len(loaded.memory) > 0
    with pytest.warns(RuntimeWarning, match="cannot decode, so it counts as blank"):
        held = loaded.memory.at(np.arange(len(loaded.memory)))
    assert not held.x.any()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        teach(loaded, 6, 3).predict(batch(9)[0])
    assert loaded.step == 9 and loaded.memory.undecodable < len(loaded.memory)


def test_wrong_samples_are_still_named_by_the_learner(taught: Learner) -> None:
    with pytest.raises(BatchError, match="this learner takes"):
        taught.observe(np.zeros((1, 3, 8, 8), np.uint8), ["a"])
