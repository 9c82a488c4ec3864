"""A net: an encoder that is fed with scaled samples, and a head."""

import copy
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from holdfast.errors import BatchError, HoldfastError, InputError
from holdfast.nets.encoders import recipe
from holdfast.nets.heads import Head
from holdfast.nets.norms import norms_of_one_value
from holdfast.nets.standardise import Standardise


class Encoder(nn.Module):
    """A module that makes features, fed with scaled samples: uint8 becomes [-1, 1]; images run in channels-last.

    With `standardise`, samples then get mean 0 and variance 1, by what has been learned so far.
    """

    def __init__(self, module: nn.Module, *, standardise: bool = False) -> None:
        super().__init__()
        if any(is_lazy(tensor) or tensor.is_meta for tensor in (*module.parameters(), *module.buffers())):
            raise InputError("the encoder has no weights yet: call it once on a sample, or load them")
        self.module = module
        self.standardise = Standardise() if standardise else None

    def scaled(self, x: Tensor) -> Tensor:
        weight = next(self.parameters(), None)
        layout = torch.channels_last if x.ndim == 4 else torch.contiguous_format
        scaled = x.to(torch.float32 if weight is None else weight.dtype, memory_format=layout)
        return scaled.div_(127.5).sub_(1) if x.dtype == torch.uint8 else scaled

    def forward(self, x: Tensor) -> Tensor:
        scaled = self.scaled(x)
        if self.standardise is not None:
            scaled = self.standardise(scaled)
        with norms_of_one_value(self.module) if self.training and len(x) == 1 else nullcontext():
            features = self.module(scaled)
        if not isinstance(features, Tensor):
            raise InputError(f"the encoder must return a tensor of features, not a {type(features).__name__}")
        return features.flatten(1)


def changing(part: nn.Module) -> list[Tensor]:
    """The tensors that learning changes."""
    return [*(p for p in part.parameters() if p.requires_grad), *part.buffers()]


class Net(nn.Module):
    """An encoder and a head."""

    encoder: Encoder
    head: Head

    def __init__(self, encoder: nn.Module, head: Head) -> None:
        super().__init__()
        self.encoder = encoder if isinstance(encoder, Encoder) else Encoder(encoder)
        self.head = head

    @property
    def seen(self) -> int:
        """How many classes have appeared."""
        return self.head.seen

    @property
    def rows(self) -> int:
        """How many classes the head has room for: `seen`, or more if it was sized in advance."""
        return len(self.head.weight)

    @torch.no_grad()
    def width(self, sample: Tensor) -> int:
        """How many features the encoder makes of such a sample; a BatchError if it cannot."""
        what = f"samples of shape {tuple(sample.shape[1:])} and type {sample.dtype}"
        try:
            features = self.encoder(sample)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            if isinstance(error, HoldfastError):
                raise
            why = self._expected(sample) or f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise BatchError(f"the encoder does not take {what}: {why}") from error
        if len(features) != 1 or not features.shape[1] or not features.is_floating_point():
            raise BatchError(f"the encoder makes {tuple(features.shape)} of one of {what}, not a row of real features")
        return int(features.shape[1])

    def _expected(self, sample: Tensor) -> str:
        """What would be right, if that is known."""
        *others, last = shape = tuple(sample.shape[1:])
        made = recipe(self.encoder.module)
        wanted = f"it was made for {tuple(made['shape'])}" if made else ""
        if len(shape) == 3 and last in (1, 3, 4) and others[0] != last:
            return f"{wanted or 'channels come first'}; x.transpose(0, 3, 1, 2) puts the channels first"
        if len(shape) == 2 and made and len(made["shape"]) == 3:
            return f"{wanted}; x[:, None] gives grey images their channel"
        return wanted if made and shape != tuple(made["shape"]) else ""

    def features(self, x: Tensor) -> Tensor:
        return self.encoder(x).to(self.head.weight.dtype)  # type: ignore[no-any-return]

    def forward(self, x: Tensor, unseen: bool = False) -> Tensor:
        return self.head(self.features(x), unseen)  # type: ignore[no-any-return]

    def twin(self) -> "Net":
        """A copy in evaluation mode. What does not learn is shared, not copied."""
        shared = {id(p): p for p in self.parameters() if not p.requires_grad}
        try:
            return copy.deepcopy(self, shared).eval()
        except Exception as error:
            raise InputError(f"the encoder cannot be copied, which answering while learning needs: {error}") from error

    def frozen(self) -> "Net":
        """A copy that answers as this net does now, and learns nothing."""
        return copy.deepcopy(self).eval().requires_grad_(False)
