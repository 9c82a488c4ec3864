from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from holdfast.batch import Batch
from holdfast.errors import InputError
from holdfast.memory import Memory, Reservoir
from holdfast.methods.options import Count, plain_options
from holdfast.nets import Net

Extra = Mapping[str, Tensor]
Scores = Callable[[Tensor], Tensor]
DECLARED = {"predictor": "answers_from_memory", "answering_net": "trains_to_answer"}  # by whoever defines the former


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a method works with: the learner's parts at one step, and randomness for that step alone.

    Args:
        net: the net that learns.
        memory: the memory.
        rng: all randomness comes from it.
        lr: the learning rate.
        view: puts a batch on the net's device and augments it, in a way that depends on the name given.
        average: the moving average of the net, if there is one.
    """

    net: Net
    memory: Memory
    rng: np.random.Generator
    lr: float
    view: Callable[[str, Batch], Batch]
    average: Net | None = None


@dataclass(frozen=True, slots=True)
class Usual:
    """What a method is meant to be used with; whoever says otherwise has it otherwise."""

    lr: float = 0.1
    augment: bool = False  # images, with random crops and flips
    average: float = 0.0
    codec: str | None = None  # of images in memory


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """How to learn from an incoming batch and the past: a frozen set of hyper-parameters. Only `loss` is required.

    In each step the learner recalls samples from memory, takes one gradient step on the loss, and offers the incoming
    batch to the memory.

    Args:
        head: `linear`, or `cosine`: logits are cosines divided by 0.1.
        replay: how many samples are replayed in each step.

    Examples:
        >>> from dataclasses import dataclass
        >>> from holdfast.losses import cross_entropy
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Gentle(Method):
        ...     share: float = 0.5
        ...
        ...     def loss(self, net, new, old=None):
        ...         loss = cross_entropy(net(new.x), new.y)
        ...         return loss if old is None else loss + self.share * cross_entropy(net(old.x), old.y)
        >>> Gentle(share=0.1).replay
        10
    """

    learns_by_gradient: ClassVar[bool] = True  # otherwise the encoder stays as it is
    usual: ClassVar[Usual] = Usual()
    needs_task_ids: ClassVar[bool] = False
    iid_batches: ClassVar[int] = 0  # above 0: the stream is shuffled, with so many of its batches a step
    memory_class: ClassVar[type[Memory]] = Reservoir
    stored_extras: ClassVar[str] = ""  # what it keeps beside each sample, if anything
    trains_to_answer: ClassVar[bool] = False  # whether `answering_net` makes a net of its own

    head: Literal["linear", "cosine"] = "linear"
    replay: Count = 10

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        own = {name for each in cls.__mro__ if each is not Method and issubclass(each, Method) for name in vars(each)}
        for function, declaration in DECLARED.items():
            if function in own and declaration not in own:
                raise InputError(f"{cls.__name__} has a {function} of its own, so it has to declare {declaration}")

    def __post_init__(self) -> None:
        for option, value in plain_options(self).items():
            object.__setattr__(self, option, value)

    @property
    def needs_unseen_classes(self) -> bool:
        """Whether it uses classes still to come, which takes a head sized in advance."""
        return False

    @property
    def spare_rows(self) -> int:
        """How many rows the head has beyond those of the seen classes. The next new class takes the first of them."""
        return 0

    @property
    def answers_from_memory(self) -> bool:
        """Whether its predictor is made from the memory, too."""
        return False

    def augmented_share(self, memory: Memory) -> float:
        """The share of the samples that is augmented, where there is an augmentation.

        Args:
            memory: the memory.

        Returns:
            The probability of each sample, incoming or replayed, to be augmented before the net sees it.
        """
        return 1.0

    @property
    def needs_teacher(self) -> bool:
        """Whether `new.task.teacher` holds the net as it was when the task began."""
        return False

    @property
    def needs_average(self) -> bool:
        """Whether it learns from the moving average of the net, so that there has to be one."""
        return False

    @property
    def anytime(self) -> bool:
        """Whether it answers at any moment, rather than only when the stream has ended."""
        return True

    @property
    def epochs(self) -> int:
        """How often a shuffled stream is passed through."""
        return 1

    @abstractmethod
    def loss(self, net: Net, new: Batch, old: Batch | None = None) -> Tensor | tuple[Tensor, Extra]:
        """Computes the loss of one step.

        Args:
            net: `net(x)` are logits over the classes seen, `net.features(x)` the features below the head.
            new: the incoming batch.
            old: the replayed batch; everything that `recall` returns is passed by name.

        Returns:
            The loss or, to keep something beside each incoming sample, the loss and tensors by name.
        """

    def recall(self, net: Net, new: Batch, memory: Memory, rng: np.random.Generator) -> Mapping[str, Batch]:
        """Chooses what is replayed.

        With task ids, only samples of classes from earlier tasks are replayed, so nothing during the first task.

        Args:
            net: the net that learns.
            new: the incoming batch.
            memory: the memory.
            rng: all randomness comes from it.

        Returns:
            Batches by the name under which `loss` takes them.
        """
        old = memory.sample(self.replay, rng, below=None if new.task is None else new.task.start)
        return {} if old is None else {"old": old}

    def learn(self, new: Batch, at: StepContext) -> tuple[Tensor, Extra]:
        """Leaves the gradient of one step in the net's parameters.

        Args:
            new: the incoming batch.
            at: the learner's parts at this step.

        Returns:
            The loss, and what is kept beside `new`.

        Raises:
            InputError: if `loss` does not return a tensor.
        """
        recalled = self.recall(at.net, new, at.memory, at.rng)
        outcome = self.loss(at.net, **{name: at.view(name, b) for name, b in [("new", new), *recalled.items()]})
        loss, extra = outcome if isinstance(outcome, tuple) else (outcome, {})
        if not isinstance(loss, Tensor):
            raise InputError(f"{type(self).__name__}.loss must return a tensor, not {loss!r}")
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return loss, extra

    def to_store(self, net: Net, new: Batch) -> Batch | None:
        """Chooses what is offered to the memory after the step.

        Args:
            net: the net that learns.
            new: the incoming batch.

        Returns:
            A batch, or None for nothing.
        """
        return new

    def answering_net(self, at: StepContext) -> Net:
        """Makes the net that answers questions: the one that learns, unless a method trains another from the memory.

        Args:
            at: the learner's parts at this step.

        Returns:
            The net.
        """
        return at.net

    def predictor(self, net: Net, memory: Memory) -> Scores:
        """Makes the function that scores samples, once for each state of the learner.

        Args:
            net: the net that answers.
            memory: the memory.

        Returns:
            A function from samples to a score for each class seen.
        """
        return net
