import math

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast import ERACE, Batch, mlp
from holdfast.nets import CosineHead, Net

TAU = 0.1


def net_with(seen: int, rows: int) -> Net:
    net = Net(mlp((4,), width=6), CosineHead()).double()
    net.head.grow(seen, rows, 6, torch.optim.SGD(net.parameters(), lr=0.1))
    return net


def log_share(net: Net, x: Tensor, label: int, among: list[int]) -> float:
    """log( exp(cos(w_y, f)/τ) / Σ_{c in among} exp(cos(w_c, f)/τ) ), in plain Python floats."""
    f, w = net.features(x[None])[0].tolist(), net.head.weight.tolist()
    cosine = [sum(a * b for a, b in zip(f, row, strict=True)) / math.hypot(*f) / math.hypot(*row) / TAU for row in w]
    return float(cosine[label] - math.log(sum(math.exp(cosine[c]) for c in among)))


@pytest.mark.parametrize(("compete", "rivals"), [("batch", [1, 3]), ("batch+unseen", [1, 3, 5, 6])])
def test_incoming_compete_in_their_batch_and_replayed_among_all_seen(compete: str, rivals: list[int]) -> None:
    net = net_with(seen=5, rows=7)
    rng = np.random.default_rng(0)
    new = Batch(torch.tensor(rng.standard_normal((3, 4))), torch.tensor([3, 1, 3]))
    old = Batch(torch.tensor(rng.standard_normal((4, 4))), torch.tensor([0, 4, 1, 0]))
    expected_new = -sum(log_share(net, x, int(y), rivals) for x, y in zip(new.x, new.y, strict=True)) / 3
    expected_old = -sum(log_share(net, x, int(y), list(range(5))) for x, y in zip(old.x, old.y, strict=True)) / 4
    method = ERACE(compete=compete)  # type: ignore[arg-type]
    assert method.loss(net, new).item() == pytest.approx(expected_new, abs=1e-9)
    assert method.loss(net, new, old).item() == pytest.approx(expected_new + expected_old, abs=1e-9)


def test_old_classes_feel_nothing_of_the_incoming_batch() -> None:
    net = net_with(seen=5, rows=5)
    ERACE().loss(net, Batch(torch.randn(4, 4), torch.tensor([2, 4, 2, 4]))).backward()  # type: ignore[no-untyped-call]
    gradient = net.head.weight.grad
    assert gradient is not None
    assert not gradient[[0, 1, 3]].any()
    assert gradient[[2, 4]].abs().sum(1).gt(0).all()
