"""What a learner is made of beside numbers, as the caller gives it."""

import math
import numbers
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, overload

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from holdfast import methods
from holdfast.arguments import DECAYS, LEARNING_RATES, OWN_LEARNING_RATES, Range, real
from holdfast.augment import Augment, augment_images
from holdfast.errors import InputError, UnknownName
from holdfast.memory import Memory
from holdfast.methods.base import Method
from holdfast.nets import HEADS, NETS, SMALL_NETS, recipe
from holdfast.nets.named import is_pretrained

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

DEFAULT_METHOD = "holdfast"
NOT_FOR_GROWING_HEADS = torch.optim.Adafactor, torch.optim.LBFGS, torch.optim.SparseAdam


@overload
def as_method(given: Method | str) -> Method: ...
@overload
def as_method(given: Method | str | None) -> Method | None: ...
def as_method(given: Method | str | None) -> Method | None:
    """A method may also be named, as on the command line: "er-ace:replay=20". What it is not is left to the check."""
    return methods.make(*methods.parse(given)) if isinstance(given, str) else given


def check_parts(encoder: object, method: object, augment: object, *, optional: bool = False) -> None:
    """`optional`: what is None will come from elsewhere."""
    wanted = {"encoder": (encoder, nn.Module, "an nn.Module"), "method": (method, Method, "a Method such as ERACE()")}
    for name, (part, kind, what) in wanted.items():
        if not isinstance(part, kind) and not (optional and part is None):
            raise InputError(f"{name} must be {what}, not {_described(part)}{_instead(part)}")
    if isinstance(encoder, nn.Module) and any(map(_is_of_inference_mode, (*encoder.parameters(), *encoder.buffers()))):
        raise InputError("the encoder was made inside torch.inference_mode(), so it cannot learn: make it outside")
    if isinstance(method, Method) and method.head not in HEADS:
        raise UnknownName("head", method.head, HEADS)
    if augment is not None and augment != "usual" and not callable(augment):
        what = "a function of a batch and a generator, such as holdfast.augment_images"
        raise InputError(f"augment must be {what}, not {_described(augment)}")


def augment_of(
    given: Augment | Literal["usual"] | None, method: Method, encoder: nn.Module, *, features: bool
) -> Augment | None:
    """`usual` is what suits method and encoder; features of a frozen encoder are not augmented."""
    if given != "usual":
        return given
    small = (recipe(encoder) or {}).get("name") in SMALL_NETS
    return augment_images if method.usual.augment and not features and not small else None


def memory_of(given: int | str | Memory, method: Method, *, features: bool) -> Memory:
    """A budget in bytes holds images encoded if that suits the method; a number of samples holds them as they are."""
    if isinstance(given, Memory):
        return given
    codec = method.usual.codec if isinstance(given, str) and not features else None
    return method.memory_class(given) if codec is None else method.memory_class(given, codec=codec, or_raw=True)


def check_holds_features(augment: object, memory: Memory) -> None:
    """Of learners with a frozen pretrained encoder."""
    instead = "pretrained(..., frozen=False) or Frozen(...) keep the samples themselves"
    if augment is not None:
        raise InputError(f"a frozen encoder's features cannot be augmented: {instead}")
    if memory.codec is not None:
        raise InputError(f"a frozen encoder's features cannot be held as {memory.codec.name}: {instead}")


def check_learns(method: Method, updates: int, standardise: bool) -> None:
    """Whether it makes sense to have it learn several times from a batch, or from standardised samples."""
    if method.learns_by_gradient:
        return
    name = type(method).__name__
    if updates > 1:
        raise InputError(f"{name} takes no gradient steps: run it with one update per batch (--updates 1, updates=1)")
    if standardise:
        raise InputError(
            f"{name} keeps statistics of features, which must not change meanwhile: run it without "
            "standardising (no --standardise; standardise=False)"
        )


def check_clip(clip_samples: object) -> float | None:
    return None if clip_samples is None else real("clip_samples", clip_samples, Range(above=0, most=math.inf))


def check_optimizer(lr: float | None, make: object) -> None:
    """It is an error if there would be an optimizer that ignores the learning rate."""
    if make is None:
        if lr is not None:
            real("lr", lr, LEARNING_RATES)
        return
    if lr is not None:
        raise InputError("lr is for the built-in SGD; with an optimizer of your own, give it to that one")
    if isinstance(make, torch.optim.Optimizer) or not callable(make):
        example = "optimizer=lambda p: torch.optim.Adam(p, lr=1e-3)"
        raise InputError(f"optimizer must be a function of the parameters, as in {example}, not {_described(make)}")


def optimizer_of(
    parameters: list[nn.Parameter], lr: float | None, make: MakeOptimizer | None, method: Method
) -> torch.optim.Optimizer:
    """SGD with the learning rate, or with the one that is usual for the method, unless another is made."""
    check_optimizer(lr, make)
    sgd = partial(torch.optim.SGD, lr=method.usual.lr if lr is None else float(lr))
    optimizer = (make or sgd)(parameters)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer must return a torch.optim.Optimizer, not {_described(optimizer)}")
    if isinstance(optimizer, NOT_FOR_GROWING_HEADS):
        raise InputError(f"{type(optimizer).__name__} cannot train a head that grows; choose another optimizer")
    for group in optimizer.param_groups:
        if isinstance(rate := group.get("lr"), numbers.Real):
            real("lr of the optimizer", rate, OWN_LEARNING_RATES)
    return optimizer


def _instead(given: object) -> str:
    if isinstance(given, type) and issubclass(given, Method):
        return f": write {given.__name__}()"
    if isinstance(given, type) and issubclass(given, nn.Module):
        return f": write {given.__name__}(...)"
    if isinstance(given, Method):
        return ": the encoder comes first, then the method"
    if any(given is make for make in NETS.values()):
        return f": call it with the shape of a sample, as in {getattr(given, '__name__', '')}((3, 32, 32))"
    return _instead_of_name(given) if isinstance(given, str) else ""


def _instead_of_name(given: str) -> str:
    if given in NETS:
        return f": write holdfast.{given.replace('-', '_')}(shape of a sample)"
    return f": write holdfast.pretrained({given!r})" if is_pretrained(given) else ""


def _is_of_inference_mode(tensor: torch.Tensor) -> bool:
    return not is_lazy(tensor) and tensor.is_inference()


def _described(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def check_average(average: object, method: Method) -> float:
    """The decay of an average that answers, 0 for none."""
    decay = method.usual.average if average is None else real("average", average, DECAYS)
    if not decay and method.needs_average:
        needing = f"{type(method).__name__} with these options learns from the average of the net"
        raise InputError(f"{needing}: average must be above 0, such as 0.99")
    if average is None:
        return decay
    if decay and method.trains_to_answer:
        name = type(method).__name__
        raise InputError(f"{name} makes the net that answers when asked: there is nothing to average, average=0")
    if decay and not method.learns_by_gradient:
        raise InputError(f"{type(method).__name__} answers from averages already: average=0")
    return decay
