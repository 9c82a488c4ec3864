"""BatchNorm where there is nothing to take a variance of."""

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


def put_norms_back(module: nn.Module) -> None:
    """For when `norms_of_one_value` was cut off on its way in or out."""
    for norm in module.modules():
        for number in [number for number, hook in norm._forward_pre_hooks.items() if hook is _choose]:
            del norm._forward_pre_hooks[number]


def _choose(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    norm.training = inputs[0].numel() > inputs[0].shape[1]
