"""BatchNorm and batches of one sample."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast import (
    AGEM,
    ER,
    ERACE,
    ERAML,
    MIR,
    SCR,
    SSIL,
    DERPlusPlus,
    FineTuning,
    GDumb,
    ICaRL,
    IIDPlusPlus,
    Learner,
    Method,
    small_cnn,
)
from holdfast.errors import BatchError
from holdfast.nets import Encoder

X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
IMAGES = np.random.default_rng(0).integers(0, 256, (4, 1, 8, 8), np.uint8)
METHODS = [
    ER(),
    ERACE(),
    ERAML(),
    DERPlusPlus(),
    MIR(),
    ICaRL(),
    SSIL(distil="incoming+rehearsal"),
    GDumb(rounds=2, batch=1),
    AGEM(),
    SCR(),
    FineTuning(),
    IIDPlusPlus(),
]


def own() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_every_method_learns_from_one_sample_at_a_time(method: Method) -> None:
    for encoder, samples in ((own(), X), (small_cnn((1, 8, 8), width=4), IMAGES)):
        learner = Learner(encoder, method, memory=1)
        for i in range(4):
            learner.observe(samples[i : i + 1], ["ab"[i % 2]], task=i // 2)
        assert learner.step == 4 and np.isfinite(learner.predict_proba(samples)).all()


def test_a_single_value_is_normalised_by_the_running_statistics() -> None:
    module = own()
    Encoder(module).train()(torch.from_numpy(X))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    single = Encoder(module).train()(torch.from_numpy(X[:1]))
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert module[1].training and not module[1]._forward_pre_hooks
    assert torch.equal(single, module.eval()(torch.from_numpy(X[:1])))


def test_where_one_sample_has_several_values_nothing_changes() -> None:
    one, other = (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten()) for _ in range(2))
    other.load_state_dict(one.state_dict())
    x = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(0)).to(memory_format=torch.channels_last)
    assert torch.equal(Encoder(one).train()(x), other.train()(x))
    assert all(torch.equal(one.state_dict()[name], value) for name, value in other.state_dict().items())


def test_a_norm_that_is_asleep_stays_asleep() -> None:
    module = own()
    encoder = Encoder(module).train()
    module[1].eval()
    encoder(torch.from_numpy(X[:1]))
    assert not module[1].training


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.get_buffer("mean"), self.get_buffer("var")
        return nn.functional.batch_norm(self.linear(x), mean, var, training=self.training)


def test_a_norm_that_cannot_do_with_one_value_is_a_batch_error_and_nothing_changes() -> None:
    learner = Learner(Functional(), ER(), memory=0)
    learner.observe(X, list("abab"))
    before = learner.state_hash()
    with pytest.raises(BatchError, match="cannot learn from one sample alone: Expected more than 1 value"):
        learner.observe(X[:1], ["a"])
    assert learner.state_hash() == before
