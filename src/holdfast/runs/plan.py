"""A spec with nothing left open: which run it is, and everything it needs to begin."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn

from holdfast import methods
from holdfast.arguments import bytes_of
from holdfast.augment import are_images, crop_and_flip
from holdfast.errors import InputError, UnknownName
from holdfast.learner import Learner, state
from holdfast.learner.parts import check_learns
from holdfast.measure.evaluate import Evaluator, Schedule
from holdfast.measure.precision import Name
from holdfast.measure.probes import PROBES
from holdfast.memory import Memory, codecs, raw_bytes
from holdfast.memory.encoded import Encoding
from holdfast.methods import FineTuning, Method
from holdfast.nets import NETS, SMALL_NETS, named, pretrained
from holdfast.runs import features, identity
from holdfast.runs.spec import RunSpec
from holdfast.runs.suitability import usual_net, usual_updates
from holdfast.storage import checkpoint
from holdfast.streams import Source, Stream

MakeEncoder = Callable[..., nn.Module]  # of the shape of a sample and a `seed`
Nets = Mapping[str, MakeEncoder]


@dataclass(frozen=True)
class Plan:
    spec: RunSpec
    source: Source
    method: Method
    start: Method
    net: str
    schedule: Schedule
    usual: Mapping[str, Any]  # what the method is meant to be used with here, chosen or not
    nets: Nets  # those that the net may be of, beside the built-in ones

    @property
    def run_id(self) -> str:
        net = self.pretrained
        return identity.run_id(self.spec, self.source, self.method, self.net if net is None else net.identity)

    def enter(self, task: int, learner: Learner, stream: Stream) -> None:
        """Makes a learner what it is to be in a task of the stream."""
        learner.method = self.method if task else self.start
        if self.source.options.get("rehearsal") == "balanced":  # of an earlier task as many as there are incoming
            learner.method = dataclasses.replace(learner.method, replay=task * int(self.source.options["batch"]))
            learner.memory.drawn_below = stream.classes_before[task]

    @property
    def pretrained(self) -> named.Name | None:
        return named.parse(self.net) if named.is_pretrained(self.net) else None

    @cached_property
    def encoded(self) -> tuple[Source, nn.Module | None]:
        """What the learner is given and, if these are the features of a frozen encoder, what stands for it."""
        if (net := self.pretrained) is None or net.frozen is not True:
            return self.source, None
        return features.encoded(self.source, net)

    def stream(self) -> Stream:
        return self.encoded[0].stream(self.spec.seed, self.method.iid_batches, self.method.epochs)

    def learner(self, device: str = "cpu") -> Learner:
        spec, dataset = self.spec, self.source.dataset
        return Learner(
            self._encoder().to(device),
            self.method,
            memory=self.memory(),
            **self._optimizer(),
            augment=crop_and_flip if spec.augment else None,
            seed=spec.seed,
            classes=len(dataset.classes),
            average=spec.average,
            updates=spec.updates_per_batch,
            standardise=spec.standardise,
        )

    def restored(self, content: bytes) -> Learner:
        """What such a run has trained, from what it kept of it."""
        parts: dict[str, Any] = {
            "method": self.method if ":" in self.spec.method else None,
            "encoder": self._encoder() if self.net in self.nets else None,
            "optimizer": self._optimizer().get("optimizer"),
            "augment": crop_and_flip if self.spec.augment else None,
        }
        return state.restored(Learner, *checkpoint.unpack(content), **parts)

    def _encoder(self) -> nn.Module:
        if self.pretrained is not None:
            return self.encoded[1] or pretrained.pretrained(self.net)
        return {**NETS, **self.nets}[self.net](self.source.dataset.sample_shape, seed=self.spec.seed)

    def _optimizer(self) -> dict[str, Any]:
        """The learner's own SGD has no momentum."""
        lr, momentum = self.spec.lr, self.spec.momentum
        return {"optimizer": partial(torch.optim.SGD, lr=lr, momentum=momentum)} if momentum else {"lr": lr}

    def memory(self) -> Memory:
        spec, samples, kind = self.spec, self.source.dataset.train_x, self.method.memory_class
        if isinstance(spec.memory, str):
            return kind(nbytes=bytes_of("--memory", spec.memory), codec=spec.codec)
        number = spec.memory * len(self.source.dataset.classes)
        if spec.codec is None:
            return kind(number)
        return kind(nbytes=number * raw_bytes(samples.shape[1:], samples.dtype), codec=spec.codec)

    def evaluator(self, stream: Stream, precision: Name = "float32") -> Evaluator:
        return Evaluator(stream, self.schedule, self.spec.seed, precision)


def plan(spec: RunSpec, source: Source, nets: Nets = MappingProxyType({})) -> Plan:
    """Finds the mistakes in a spec, before anything starts. `nets` are more encoders that it may name."""
    method = methods.make(spec.method, spec.options)
    if method.needs_task_ids and not source.has_tasks:
        raise InputError(f"{spec.method} is told the task, but {spec.stream} has no tasks; give it a stream that has")
    shape = source.dataset.sample_shape
    its_net = usual_net(source) if method.learns_by_gradient else "raw"
    net = spec.net or its_net
    if not named.is_pretrained(net):
        if net not in {**NETS, **nets}:
            raise UnknownName("net", net, [*NETS, *nets, named.FORMS])
        if net in NETS:
            _try(net, shape)
    elif named.parse(net).frozen is True and (spec.augment or spec.codec):
        said = "--augment" if spec.augment else f"--codec {spec.codec}"
        raise InputError(f"{said} is for images, and the memory holds features of {net}; frozen=false keeps images")
    start = methods.make(*methods.parse(spec.start)) if spec.start else method
    usual = {**_usual(source, method, start, net), "net": its_net}
    spec = dataclasses.replace(spec, undecided=frozenset(), **{name: usual[name] for name in spec.undecided})
    for each in (start, method):
        check_learns(each, spec.updates_per_batch, spec.standardise)
    if start is not method and (not source.has_tasks or start.head != method.head):
        raise InputError(f"--start {spec.start}: it takes a stream with tasks, and a method with the same head")
    _check_stored(spec, start, method)
    _check_average(spec, start, method)
    for name in spec.probe:
        if name not in PROBES:
            raise UnknownName("probe", name, PROBES)
    if spec.augment and len(shape) != 3:
        raise InputError(f"--augment crops and flips images; the samples of {spec.stream} have shape {shape}")
    if (codec := codecs.find(spec.codec)) is not None:
        Encoding(codec, shape, source.dataset.train_x.dtype)  # or an error
    schedule = Schedule.parse(spec.eval_every, spec.eval_mode)
    _check_slices(schedule, source)
    return Plan(spec, source, method, start, net, schedule, usual, nets)


def _usual(source: Source, method: Method, start: Method, net: str) -> dict[str, Any]:
    """What the method is meant to be used with, as far as it suits samples and net."""
    usual, samples = method.usual, source.dataset.train_x
    features = named.is_pretrained(net) and named.parse(net).frozen is True
    images = not features and are_images(samples.shape[1:])
    codec = codecs.find(usual.codec if images else None)
    takes = codec is not None and codec.takes(samples.shape[1:], samples.dtype) is None
    return {
        "lr": usual.lr,
        "augment": usual.augment and images and net not in SMALL_NETS,
        "average": usual.average if not any(each.trains_to_answer for each in (start, method)) else 0.0,
        "codec": usual.codec if takes else None,
        "updates_per_batch": usual_updates(source, net) if all(map(_in_one_pass, (start, method))) else 1,
    }


def _in_one_pass(method: Method) -> bool:
    """Takes gradient steps on each batch as it comes, and on none again."""
    return method.learns_by_gradient and not method.trains_to_answer and method.epochs == 1


def _check_slices(schedule: Schedule, source: Source) -> None:
    """Every slice needs a sample of every class, or there is an evaluation of nothing."""
    counts = np.bincount(source.dataset.test_y, minlength=len(source.dataset.classes))
    fewest = int(counts.argmin())
    if schedule.slices > max(1, counts[fewest]):
        name = source.dataset.classes[fewest]
        raise InputError(
            f"--eval rotating:{schedule.slices}: class {name!r} has {counts[fewest]} test samples, too few for so many "
            f"parts; take rotating:{max(1, counts[fewest])} or exact"
        )


def _check_stored(spec: RunSpec, start: Method, method: Method) -> None:
    """One memory serves both methods, so both have to keep the same beside its samples."""
    both = {spec.start: start, spec.method: method}
    storing = {name: each for name, each in both.items() if not isinstance(each, FineTuning)}
    if len({each.stored_extras for each in storing.values()}) > 1:
        said = " and ".join(f"{name} keeps {each.stored_extras or 'nothing'}" for name, each in storing.items())
        raise InputError(f"--start {spec.start}: beside samples in memory {said}; take two that keep the same")


def _check_average(spec: RunSpec, *methods: Method) -> None:
    for method in methods:
        name = type(method).__name__
        if spec.average and not method.learns_by_gradient:
            raise InputError(f"--average {spec.average:g}: {name} answers from averages already")
        if spec.average and method.trains_to_answer:
            raise InputError(f"--average {spec.average:g}: {name} makes the net that answers when asked")
        if not spec.average and method.needs_average:
            raise InputError(f"--average 0: {name} with these options learns from the average of the net")


@cache
def _try(net: str, shape: tuple[int, ...]) -> None:
    """A net that does not take such samples says so."""
    NETS[net](shape)
