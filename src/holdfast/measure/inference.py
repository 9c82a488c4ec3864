"""A faster copy of a net for questions only: BatchNorm folded into convolutions, bf16 where it was found to work."""

import copy
from collections import Counter

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from holdfast.measure import precision
from holdfast.measure.precision import Precision
from holdfast.nets import Encoder, Net

BATCH = 64  # fastest on one core: larger batches fall out of the cache


class FastNet:
    """`net` answers as `live` did at the last `refresh`. Nothing here can touch `live`."""

    def __init__(self, live: Net, precision: precision.Name = "float32") -> None:
        self.live = live
        self._folded = _foldable(live.encoder.module)
        encoder = copy.deepcopy(live.encoder.module)
        for conv_name, bn_name in self._folded:
            conv = encoder.get_submodule(conv_name)
            assert isinstance(conv, nn.Conv2d)
            conv.bias = nn.Parameter(torch.zeros(conv.out_channels, device=conv.weight.device))
            _replace(encoder, bn_name, nn.Identity())
        if precision == "bf16":
            encoder = encoder.bfloat16()
        self.net = Net(encoder, copy.deepcopy(live.head)).eval().requires_grad_(False)

    @torch.no_grad()
    def refresh(self) -> Net:
        live, fast = self.live.encoder.module, self.net.encoder.module
        skip = {f"{name}.{part}" for pair in self._folded for name in pair for part in ("weight", "bias")}
        source, target = _tensors(live), _tensors(fast)
        for name in target.keys() - skip:
            target[name].copy_(source[name])
        for conv_name, bn_name in self._folded:
            conv, bn = live.get_submodule(conv_name), live.get_submodule(bn_name)
            assert isinstance(conv, nn.Conv2d) and isinstance(bn, nn.BatchNorm2d)
            assert bn.running_mean is not None and bn.running_var is not None
            weight, bias = fuse_conv_bn_weights(
                conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
            )
            target[f"{conv_name}.weight"].copy_(weight)
            target[f"{conv_name}.bias"].copy_(bias)
        for parameter, current in zip(self.net.head.parameters(), self.live.head.parameters(), strict=True):
            parameter.data = current.detach().clone()
        for buffer, statistic in zip(self.net.head.buffers(), self.live.head.buffers(), strict=True):
            buffer.data = statistic.clone()
        self.net.head.seen = self.live.head.seen
        self.net.encoder.standardise = copy.deepcopy(self.live.encoder.standardise)
        return self.net


def can_be_faster(net: Net, precision: precision.Name) -> bool:
    """Whether there is anything that a copy would do otherwise than the net itself."""
    return precision != "float32" or _has_batch_norm(net.encoder.module)


def suitable(live: Net, samples: Tensor, choice: str | None = None, *, anew: bool = False) -> Precision:
    """The precision for copies of this net, asked about such samples; with `anew` it is tried again."""

    def build(name: precision.Name) -> Encoder:
        return FastNet(live, name).refresh().encoder

    return precision.choose(precision.asked(choice), live.encoder, build, samples[:BATCH], anew=anew)


def _has_batch_norm(encoder: nn.Module) -> bool:
    return any(type(module) is nn.BatchNorm2d for module in encoder.modules())


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))


def _foldable(encoder: nn.Module) -> list[tuple[str, str]]:
    """(convolution, BatchNorm) pairs where one feeds the other and nobody else uses either or their parameters.

    None if the encoder cannot be traced.
    """
    if not _has_batch_norm(encoder):
        return []
    try:
        graph = fx.symbolic_trace(copy.deepcopy(encoder)).graph
    except Exception:  # tracing runs the user's code on symbols: it may fail in any way
        return []
    calls = Counter(str(node.target) for node in graph.nodes if node.op == "call_module")
    read_directly = {str(node.target).rpartition(".")[0] for node in graph.nodes if node.op == "get_attr"}
    owners = Counter(id(parameter) for _, parameter in encoder.named_parameters(remove_duplicate=False))

    def foldable(node: fx.Node, kind: type[nn.Module]) -> bool:
        if node.op != "call_module" or calls[str(node.target)] > 1 or str(node.target) in read_directly:
            return False
        module = encoder.get_submodule(str(node.target))
        own = module.__dict__["_parameters"]
        return type(module) is kind and "weight" in own and all(owners[id(p)] <= 1 for p in own.values())

    pairs = []
    for node in graph.nodes:
        before = node.args[0] if node.args else None
        if not isinstance(before, fx.Node) or len(before.users) > 1:
            continue
        if foldable(before, nn.Conv2d) and foldable(node, nn.BatchNorm2d):
            bn = encoder.get_submodule(str(node.target))
            if isinstance(bn, nn.BatchNorm2d) and bn.running_mean is not None:
                pairs.append((str(before.target), str(node.target)))
    return pairs


def _replace(root: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(root.get_submodule(parent), child, module)
