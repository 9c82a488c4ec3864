"""Encoders, and heads that grow one class at a time."""

from holdfast.nets.net import (
    HEADS,
    NETS,
    SMALL_NETS,
    CosineHead,
    Encoder,
    Frozen,
    Head,
    LinearHead,
    Net,
    ProjectionHead,
    as_shape,
    built_in,
    changing,
    default_net,
    mlp,
    raw,
    recipe,
    reliable_recipe,
    slim_resnet18,
    small_cnn,
)
from holdfast.nets.pretrained import PretrainedEncoder
from holdfast.nets.standardise import Standardise
from holdfast.nets.statistics import LDAHead, MeansHead

__all__ = [
    "HEADS",
    "NETS",
    "SMALL_NETS",
    "CosineHead",
    "Encoder",
    "Frozen",
    "Head",
    "LinearHead",
    "Net",
    "PretrainedEncoder",
    "ProjectionHead",
    "Standardise",
    "as_shape",
    "built_in",
    "changing",
    "default_net",
    "mlp",
    "raw",
    "recipe",
    "reliable_recipe",
    "slim_resnet18",
    "small_cnn",
]

HEADS |= {"means": MeansHead, "lda": LDAHead}
