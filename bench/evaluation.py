"""The fast evaluation path against `net.eval()` in torch's default layout, 128 images at a time."""

import copy

import torch

from bench.ratio import Ratio, ratio, seconds
from holdfast import slim_resnet18
from holdfast.measure.inference import BATCH, FastNet, cpu_has_bf16
from holdfast.nets import LinearHead, Net

IMAGES = 128


def bench() -> list[Ratio]:
    live = Net(slim_resnet18(), LinearHead())
    live.head.grow(10, 10, 160, torch.optim.SGD(live.parameters(), lr=0.1))
    plain = copy.deepcopy(live.encoder.module).to(memory_format=torch.contiguous_format).eval()  # type: ignore[call-overload]
    fast = FastNet(live).refresh()
    x = torch.randint(0, 256, (IMAGES, 3, 32, 32), dtype=torch.uint8)
    scaled = x.float() / 127.5 - 1
    with torch.inference_mode():
        times = seconds(
            {
                "plain": lambda: live.head(plain(scaled)),
                "fast": lambda: [fast(x[start : start + BATCH]) for start in range(0, IMAGES, BATCH)],
            },
            rounds=10,
        )
    kind = "bf16" if cpu_has_bf16() else "float32: this CPU has no bf16"
    return [Ratio(f"fast evaluation path / plain ({kind})", ratio(times, "plain", "fast"), 3.0, True)]
