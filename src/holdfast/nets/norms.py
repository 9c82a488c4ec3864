"""BatchNorm where its statistics are not to be those of the batch, or cannot be."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from holdfast.errors import BatchError

BATCH_NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm


@contextmanager
def norms_of_one_value(module: nn.Module) -> Iterator[None]:
    """Inside, a BatchNorm that gets a single value of each channel goes by its running statistics, instead of failing.

    That happens only to a batch of one sample. A BatchNorm that gets more values trains as ever.
    """
    training = [part for part in module.modules() if isinstance(part, BATCH_NORMS) and part.training]
    hooks = [norm.register_forward_pre_hook(_choose) for norm in training]
    try:
        yield
    except ValueError as error:  # of a normalisation that is not one of torch's modules
        raise BatchError(f"the encoder cannot learn from one sample alone: {error}") from error
    finally:
        for norm, hook in zip(training, hooks, strict=True):
            hook.remove()
            norm.training = True


@contextmanager
def running_statistics_kept(module: nn.Module) -> Iterator[None]:
    """Inside, BatchNorms normalise as ever, but what they have gathered for answers stays as it is."""
    try:
        for norm in module.modules():
            if isinstance(norm, BATCH_NORMS):
                vars(norm).setdefault("usual_momentum", norm.momentum)
                norm.momentum = 0.0
        yield
    finally:
        put_norms_back(module)


def put_norms_back(module: nn.Module) -> None:
    """For when one of these was cut off on its way in or out."""
    for norm in module.modules():
        if "usual_momentum" in vars(norm):
            norm.momentum = vars(norm)["usual_momentum"]
            del norm.usual_momentum
        for number in [number for number, hook in norm._forward_pre_hooks.items() if hook is _choose]:
            del norm._forward_pre_hooks[number]


def _choose(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    norm.training = inputs[0].numel() > inputs[0].shape[1]
