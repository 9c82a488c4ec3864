"""Encoders, and heads that grow one class at a time."""

from holdfast.nets.encoders import (
    NETS,
    SMALL_NETS,
    Frozen,
    as_shape,
    built_in,
    default_net,
    mlp,
    raw,
    recipe,
    reliable_recipe,
    slim_resnet18,
    small_cnn,
)
from holdfast.nets.heads import HEADS, CosineHead, Head, LinearHead, ProjectionHead
from holdfast.nets.net import Encoder, Net, changing
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
