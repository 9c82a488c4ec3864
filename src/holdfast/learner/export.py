"""What answers, as one file for programs without Holdfast: samples as they come in, probabilities out."""

from __future__ import annotations

import copy
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from holdfast import __version__
from holdfast.errors import BatchError, HoldfastError, InputError, NothingLearned
from holdfast.learner.calibration import temperature_of
from holdfast.learner.labels import FORGOTTEN, encode
from holdfast.methods.base import Scores
from holdfast.nets import Encoder, as_shape
from holdfast.storage import files

if TYPE_CHECKING:
    from holdfast.learner import Learner

FORMATS = ".onnx", ".pt2"
ONNX = "onnx", "onnxscript"  # what torch writes it with
OUTPUTS = ["label", "probability"]
ABOUT = "holdfast.json"  # in a .pt2; an ONNX file has metadata for it


class Answering(nn.Module):
    """From samples as they come to the place of the best class and the probability of each."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        frozen = learner.frozen_encoder
        self.frozen = None if frozen is None else Encoder(copy.deepcopy(frozen).cpu())
        self.net = learner.answering_net().frozen().cpu()
        self.clip = learner.clip_samples
        self.known = [index for index, label in enumerate(learner.labels) if label is not FORGOTTEN]
        self.temperature = temperature_of(learner)
        if not self.known:
            raise NothingLearned("the learner knows no class yet; call observe(x, y) first")
        self._scores: Scores = learner.method.predictor(self.net, learner.memory)
        self.eval()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.clip is not None and x.is_floating_point():
            x = x.clamp(-self.clip, self.clip)
        if self.frozen is not None:
            x = self.frozen(x).float()
        probability = (self._scores(x)[:, self.known] / self.temperature).softmax(1).float()
        return probability.argmax(1), probability


def export(learner: Learner, path: Path, shape: object = None) -> None:
    """Writes the file, whole or not at all."""
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: a learner is exported as .onnx or .pt2, not {path.suffix or 'without a suffix'}")
    if path.suffix == ".onnx" and (missing := [name for name in ONNX if find_spec(name) is None]):
        raise InputError(f"ONNX needs {' and '.join(missing)}: pip install 'holdfast[export]'; .pt2 needs nothing more")
    answering, samples, about = learner.at_rest(lambda: _taken(learner, shape))
    with _quiet():
        try:
            program = _traced(answering, samples)
            content = _onnx(program, about) if path.suffix == ".onnx" else _pt2(program, about)
        except Exception as error:  # tracing runs the encoder on symbols: it may fail in any way
            why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            raise InputError(f"torch cannot write the net of this learner as {path.suffix}: {why}") from error
    files.write(path, content)


def _taken(learner: Learner, shape: object) -> tuple[Answering, Tensor, dict[str, Any]]:
    """What answers now, samples to try it with, and what is to be known of it."""
    answering, samples = Answering(learner), _samples(learner, shape)
    try:
        with torch.no_grad():
            answering(samples)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, HoldfastError):
            raise
        why = str(error).partition("\n")[0]
        raise BatchError(f"the encoder does not take samples of shape {tuple(samples.shape[1:])}: {why}") from error
    labels = [learner.labels[index] for index in answering.known]
    about: dict[str, Any] = {"classes": [encode(label) for label in labels], "step": learner.step}
    about |= {"method": repr(learner.method), "holdfast": __version__}
    if learner.calibration is not None:
        about["threshold"] = learner.calibration.threshold
    return answering, samples, about


def _samples(learner: Learner, shape: object) -> Tensor:
    template, frozen = learner.sample_template, learner.frozen_encoder
    assert template is not None  # classes were learned from samples
    if frozen is None:
        if shape is not None and as_shape(shape) != tuple(template.shape[1:]):
            raise InputError(f"shape is {as_shape(shape)}; this learner takes samples of {tuple(template.shape[1:])}")
        return template.new_zeros(2, *template.shape[1:])
    if shape is None and frozen.size is None:
        raise InputError("say the shape of a sample before the encoder, shape=(3, 224, 224): the learner has features")
    found = (3, *frozen.size) if shape is None and frozen.size is not None else as_shape(shape)
    return torch.zeros(2, *found, dtype=torch.uint8 if len(found) == 3 else torch.float32)


def _traced(answering: Answering, samples: Tensor) -> torch.export.ExportedProgram:
    shapes = {"x": {0: torch.export.Dim("samples", min=1)}}
    with torch.no_grad():
        return torch.export.export(answering, (samples,), dynamic_shapes=shapes, strict=False)


def _onnx(program: torch.export.ExportedProgram, about: dict[str, Any]) -> bytes:
    done = torch.onnx.export(program, (), dynamo=True, verbose=False, input_names=["x"], output_names=OUTPUTS)
    assert done is not None
    done.model.metadata_props.update({name: json.dumps(value) for name, value in about.items()})
    proto = done.model_proto
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "samples"
    content: bytes = proto.SerializeToString()
    return content


def _pt2(program: torch.export.ExportedProgram, about: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    torch.export.save(program, content, extra_files={ABOUT: json.dumps(about)})
    return content.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says of itself while it writes, and of the net where it cannot."""
    loggers = [logging.getLogger(name) for name in ("torch.fx", "torch.onnx")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
