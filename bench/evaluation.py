"""The fast evaluation path against `net.eval()` in torch's default layout, 128 images at a time."""

import copy

import torch

from bench.ratio import Ratio, ratio, seconds
from holdfast import slim_resnet18
from holdfast.measure.inference import BATCH, FastNet, suitable
from holdfast.nets import LinearHead, Net

IMAGES = 128


def bench() -> list[Ratio]:
    live = Net(slim_resnet18(), LinearHead())
    live.head.grow(10, 10, 160, torch.optim.SGD(live.parameters(), lr=0.1))
    plain = copy.deepcopy(live.encoder.module).to(memory_format=torch.contiguous_format).eval()  # type: ignore[call-overload]
    x = torch.randint(0, 256, (IMAGES, 3, 32, 32), dtype=torch.uint8)
    precision = suitable(live.eval(), x)
    fast = FastNet(live, precision.name).refresh()
    scaled = x.float() / 127.5 - 1
    with torch.inference_mode():
        times = seconds(
            {
                "plain": lambda: live.head(plain(scaled)),
                "fast": lambda: [fast(x[start : start + BATCH]) for start in range(0, IMAGES, BATCH)],
            },
            rounds=10,
        )
    name = f"fast evaluation path / plain ({precision.name}: {precision.why})"
    return [Ratio(name, ratio(times, "plain", "fast"), 3.0 if precision.name == "bf16" else 1.0, True)]
