"""What a run costs: measured multiply-adds and bytes.

Every call of an encoder or a head is seen by a hook, which looks up what a call with that input shape costs. The cost
is measured once per shape, with torch's flop counter on a copy of the module. Products inside a loss are not seen
(under 0.01 % on the reduced ResNet-18, SupCon on the smallest net 1.3 %).
"""

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.flop_counter import FlopCounterMode

from holdfast.learner import Learner
from holdfast.nets import Encoder, Head, recipe
from holdfast.nets.statistics import Moments

MEASURED: dict[tuple[object, ...], dict[Any, tuple[int, int]]] = {}  # for all runs of this process
ACCOUNTS = ("forward", "backward", "retrieval", "query", "evaluation")


class Ledger:
    """Multiply-adds by account: forward and backward (training), retrieval (forwards of a step that nothing is
    learned from), query (what answering costs beside forwarding the questions), evaluation."""

    def __init__(self) -> None:
        self.macs: Counter[str] = Counter(dict.fromkeys(ACCOUNTS, 0))
        self._weighed = {"times": 0, "bytes": 0}
        self._cost: WeakKeyDictionary[nn.Module, dict[Any, tuple[int, int]]] = WeakKeyDictionary()
        self._account: str | None = None

    @property
    def train_macs(self) -> int:
        return sum(self.macs[account] for account in ("forward", "backward", "retrieval", "query"))

    @property
    def mean_bytes(self) -> float:
        return self._weighed["bytes"] / max(1, self._weighed["times"])

    def state(self) -> dict[str, dict[str, int]]:
        return {"macs": dict(self.macs), "weighed": self._weighed}

    def restore(self, state: dict[str, dict[str, int]]) -> None:
        self.macs = Counter(state["macs"])
        self._weighed = dict(state["weighed"])

    def weigh(self, learner: Learner) -> None:
        """Notes the bytes of parameters, of the net, its average and its teacher, and of memory as they are now."""
        teacher = learner.task.teacher if learner.task else None
        parameters = {p for net in (*learner.nets, teacher) if net is not None for p in net.parameters()}
        statistics = {b for net in learner.nets for b in net.head.buffers()}
        held = sum(t.numel() * t.element_size() for t in parameters | statistics)
        self._weighed["bytes"] += held + learner.memory.nbytes
        self._weighed["times"] += 1

    @contextmanager
    def watch(self, account: str) -> Iterator[None]:
        """Books every forward of any net inside the block; in the account "training" by what it is for."""
        hook = register_module_forward_hook(self._book)
        self._account = account
        try:
            yield
        finally:
            self._account = None
            hook.remove()

    def _book(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        if self._account is None or not isinstance(module, Encoder | Head | Moments):
            return
        account, self._account = self._account, None  # what is forwarded for measuring is not the learner's
        forward, backward = self._cost_of(module, inputs)
        self._account = account
        learning = torch.is_grad_enabled()
        if account == "training":
            self.macs["forward" if learning else "retrieval"] += forward
            self.macs["backward"] += backward * learning
        else:
            self.macs[account] += forward + backward * learning

    def _cost_of(self, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[int, int]:
        x, *rest = inputs
        size = (module.seen, len(module.weight)) if isinstance(module, Head) else ()
        learning = any(parameter.requires_grad for parameter in module.parameters())  # a call may stand in other ones
        others = (tuple(each.shape) if isinstance(each, Tensor) else each for each in rest)
        key = (tuple(x.shape), x.dtype, x.requires_grad, learning, size, *others)
        if module not in self._cost:
            kind = _kind(module)
            self._cost[module] = {} if kind is None else MEASURED.setdefault(kind, {})
        costs = self._cost[module]
        if key not in costs:
            costs[key] = measure(getattr(module, "stands_for", module), x, *rest)
        return costs[key]


def _kind(module: nn.Module) -> tuple[object, ...] | None:
    """Modules of the same kind cost the same. Those of the user's are each a kind of their own: None."""
    learning = tuple(parameter.requires_grad for parameter in module.parameters())
    if isinstance(module, Head):
        return type(module), learning, *(tuple(parameter.shape) for parameter in module.parameters())
    made = recipe(module.module) if isinstance(module, Encoder) else None
    return (made["name"], *made["shape"], made["width"], learning) if made else None


def measure(module: nn.Module, x: Tensor, *rest: Any) -> tuple[int, int]:
    """Multiply-adds of one forward and of its backward, by running both on a copy."""
    with torch.inference_mode(False), torch.enable_grad(), FlopCounterMode(display=False) as counter:
        clone = copy.deepcopy(module)  # in here: a copy made in inference mode would have no backward
        sample_template = torch.zeros(x.shape, dtype=x.dtype, device=x.device, requires_grad=x.requires_grad)
        output = clone(sample_template, *rest)
        forward = counter.get_total_flops()
        if isinstance(output, Tensor) and output.requires_grad:
            torch.autograd.backward(output.sum())
        both = counter.get_total_flops()
    return forward // 2, (both - forward) // 2
