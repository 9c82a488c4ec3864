"""What people who tried to break a durable learner once did, and what must not happen then."""

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast
from holdfast import ERACE, DERPlusPlus, Learner, Reservoir, mlp
from holdfast.durable import log
from holdfast.errors import BatchError, CheckpointError, HoldfastError, InputError
from holdfast.learner import operations
from holdfast.learner.operations import Asked, Observed, Operation, Remembered
from holdfast.storage import checkpoint


def batch(number: int, size: int = 6) -> tuple[Any, list[str]]:
    rng = np.random.default_rng(number)
    return rng.standard_normal((size, 4)).astype(np.float32), [f"class {i % 3}" for i in range(size)]


class Centred(nn.Module):
    """Puts another tensor in the place of its buffer at each step."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 8)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()
        out: Tensor = self.layer(x - self.mean).relu()
        return out


class Decaying(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["lr"] *= 0.9
        return super().step(closure)


class Failing(ERACE):
    def loss(self, net: Any, new: Any, old: Any = None) -> Any:
        found = super().loss(net, new, old)
        return found * torch.nan if (new.x == 7).any() else found


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_buffer_that_is_assigned_is_rolled_back_answered_with_and_saved(average: float, tmp_path: Path) -> None:
    learner, undisturbed = (Learner(Centred(), Failing(), memory=20, average=average) for _ in range(2))
    for number in range(4):
        x, y = batch(number)
        learner.observe(x, y)
        undisturbed.observe(x, y)
        with pytest.raises(HoldfastError):
            learner.observe(np.full_like(x, 7), y)
    assert learner.state_hash() == undisturbed.state_hash()
    learner.save(tmp_path / "file")
    loaded = Learner.load(tmp_path / "file", encoder=Centred(), method=Failing())
    x, _ = batch(9)
    assert np.array_equal(loaded.predict_proba(x), learner.predict_proba(x))


def test_what_an_optimizer_does_to_its_own_settings_is_rolled_back() -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        return Decaying(parameters, lr=0.1)

    class FailingLater(ERACE):
        def to_store(self, net: Any, new: Any) -> Any:
            if (new.x == 7).any():
                raise ValueError("after the step")
            return new

    learner, undisturbed = (Learner(mlp((4,)), FailingLater(), memory=20, optimizer=make) for _ in range(2))
    for number in range(3):
        x, y = batch(number)
        learner.observe(x, y)
        undisturbed.observe(x, y)
        with pytest.raises(ValueError, match="after the step"):
            learner.observe(np.full_like(x, 7), y)
    assert learner.state_hash() == undisturbed.state_hash()


def test_an_average_knows_buffers_that_torch_does_not_save(tmp_path: Path) -> None:
    encoder = mlp((4,))
    encoder.register_buffer("seen", torch.zeros(1), persistent=False)
    learner = Learner(encoder, ERACE(), memory=20, average=0.9)
    learner.observe(*batch(0))
    learner.save(tmp_path / "file")
    again = mlp((4,))
    again.register_buffer("seen", torch.zeros(1), persistent=False)
    assert Learner.load(tmp_path / "file", encoder=again).state_hash() == learner.state_hash()


@pytest.mark.parametrize("name", ["learner", "lock", "log.1"])
def test_nothing_is_saved_over_the_files_of_a_learner(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with holdfast.open(folder, mlp((4,)), ERACE(), memory=20) as learner:
        learner.observe(*batch(0))
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        for write in (learner.save, lambda path: holdfast.export_memory(learner, path)):
            with pytest.raises(InputError, match="write to another place"):
                write(folder / name)
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
        learner.save(folder / "copy")  # a file of one's own
    with pytest.raises(InputError, match="write to another place"):
        Learner(mlp((4,)), ERACE()).save(folder / name)


def test_samples_that_came_before_a_limit_are_erased_and_told_with_it(tmp_path: Path) -> None:
    x, y = batch(0)
    with holdfast.open(tmp_path / "it", mlp((4,)), ERACE(), memory=20) as learner:
        learner.observe(20 * x, y)
        learner.ask(np.full_like(x, 1e19))
    with holdfast.open(tmp_path / "it", clip_samples=10) as learner:
        learner.tell(0, y)
        assert learner.magnitude < 1000
        assert learner.forget_samples(20 * x) == len(x)
        assert learner.forget_samples(np.full_like(x, 1e19)) == len(x)


def test_copies_of_a_learner_that_has_forgotten_a_class_know_so() -> None:
    learner = Learner(mlp((4,)), ERACE(), memory=20)
    learner.observe(*batch(0))
    learner.forget("class 1")
    twin = copy.deepcopy(learner)
    assert twin.classes == learner.classes == ["class 0", "class 2"]
    assert twin.serialized() == learner.serialized()


def test_a_durable_learner_is_not_pickled(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "it", mlp((4,)), ERACE()) as learner, pytest.raises(InputError, match="one learner"):
        pickle.dumps(learner)


@pytest.mark.parametrize("memory", ["10B", Reservoir(nbytes=20)])
def test_a_memory_for_less_than_one_sample_is_refused(memory: Any) -> None:
    learner = Learner(mlp((4,)), ERACE(), memory=memory)
    with pytest.raises(InputError, match="too few for one such sample"):
        learner.observe(*batch(0))


@pytest.mark.parametrize(
    "operation",
    [
        Observed(torch.ones(2, 4, dtype=torch.float64), ["a", "b"], None),
        Observed(torch.ones(2, 4), ["a", float("nan")], None),
        Observed(torch.ones(2, 4), [1, 1.0], None),
        Observed(torch.ones(2, 5), ["a", "b"], None),
        Remembered(torch.full((2, 4), torch.inf), ["a", "b"]),
        Remembered(torch.ones(2, 4), ["a"]),
        Asked(torch.full((2, 4), torch.nan)),
        Asked(torch.ones(0, 4)),
        Asked(torch.ones(2, 4, dtype=torch.int64)),
    ],
)
def test_a_forged_operation_in_a_sound_log_is_refused(operation: Operation, tmp_path: Path) -> None:
    folder = tmp_path / "it"
    with holdfast.open(folder, mlp((4,)), ERACE(), memory=20) as learner:
        learner.observe(*batch(0))
    (file,) = folder.glob("log.*")
    identity = log.identity_of(file)
    assert identity is not None
    entries = log.examined(file.read_bytes(), identity).entries
    file.write_bytes(log.closed(identity, [*entries, operations.to_bytes(operation)]))
    (folder / "lock").unlink()
    with pytest.raises(CheckpointError):
        holdfast.open(folder)
    assert not holdfast.verify(folder, deep=True).ok


class Half(holdfast.Codec):
    name = "half"

    def encode(self, sample: Any) -> bytes:
        content: bytes = sample.astype("float16").tobytes()
        return content

    def decode(self, data: bytes, shape: tuple[int, ...]) -> Any:
        return np.frombuffer(data, "float16").reshape(shape).astype("float32")


def test_a_folder_with_a_codec_of_ones_own_is_verified_and_repaired(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    with holdfast.open(folder, mlp((4,)), ERACE(), memory=Reservoir(20, codec=Half())) as learner:
        for number in range(3):
            learner.observe(*batch(number))
    found = holdfast.verify(folder)
    assert found.ok and any("codec cannot be checked without yours" in note for note in found.notes)
    assert holdfast.verify(folder, deep=True, codec=Half()).ok
    assert holdfast.repair(folder, to_step=2, yes=True).step == 2
    with holdfast.open(folder, memory=Reservoir(20, codec=Half())) as learner:
        assert learner.step == 2


class ReLU(nn.ReLU):
    """Of the same name as torch's."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.silu(x)


def with_another_relu(net: nn.Sequential) -> None:
    net[2] = ReLU()


def with_a_hook_on_gradients(net: nn.Sequential) -> None:
    next(net.parameters()).register_post_accumulate_grad_hook(lambda parameter: None)  # type: ignore[no-untyped-call]


def with_a_call_of_its_own(net: nn.Sequential) -> None:
    vars(net[1])["_call_impl"] = lambda x: x


@pytest.mark.parametrize("change", [with_another_relu, with_a_hook_on_gradients, with_a_call_of_its_own])
def test_a_changed_net_is_not_taken_for_the_plain_one(change: Any, tmp_path: Path) -> None:
    net = mlp((4,), width=4)
    change(net)
    learner = Learner(net, DERPlusPlus(), memory=20)
    learner.save(tmp_path / "file")
    with pytest.raises(CheckpointError, match="encoder"):
        Learner.load(tmp_path / "file")


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not list its locks")
def test_in_use_is_what_is_locked(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    with holdfast.open(folder, mlp((4,)), ERACE()):
        assert holdfast.inspect(folder).pid == os.getpid()
        (folder / "lock").unlink()
        assert holdfast.inspect(folder).pid == os.getpid()
    (folder / "lock").write_text(f"{os.getppid()} {os.uname().nodename}\n")
    assert holdfast.inspect(folder).pid is None


def test_a_question_that_cannot_be_told_can_be_forgotten() -> None:
    learner = Learner(mlp((4,)), ERACE(), memory=20)
    learner.observe(*batch(0))
    x, y = batch(1)
    x[0, 0] = -9999
    ticket = learner.ask(x)
    with pytest.raises(BatchError, match="mend it or leave it out"):
        learner.tell(ticket, y)
    assert learner.forget_samples(x) == 0 and len(learner.pending) == 0


def change_step(tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    values["step"] = 2**63 - 1


def change_asked(tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    values["questions"]["asked"] = 2**63 - 1


def change_offered(tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    tensors["memory/counts"][0] = 2**63 - 5


def change_weights(tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    for name, tensor in tensors.items():
        if name.startswith("net/"):
            tensor.fill_(3e38)


@pytest.mark.parametrize("change", [change_step, change_asked, change_offered, change_weights])
def test_numbers_that_nobody_has_reached_are_refused(change: Any, tmp_path: Path) -> None:
    learner = Learner(mlp((4,)), ERACE(), memory=20)
    learner.observe(*batch(0))
    tensors, values = checkpoint.unpack(learner.serialized())
    change(tensors, values)
    (tmp_path / "file").write_bytes(checkpoint.pack(tensors, values))
    with pytest.raises(CheckpointError):
        Learner.load(tmp_path / "file")


def test_a_huge_empty_file_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(CheckpointError, match="is not a checkpoint or is damaged"):
        Learner.load(tmp_path / "file")


def test_the_names_of_strangers_are_shown_as_text(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "it", mlp((4,)), ERACE()) as learner:
        learner.observe(*batch(0))
    (tmp_path / "it" / "evil\x1b[31m\nok").touch()
    assert all(note.isprintable() for note in holdfast.verify(tmp_path / "it").notes)
