"""Encoders, and heads that grow one class at a time."""

from holdfast.nets.net import (
    HEADS,
    NETS,
    CosineHead,
    Encoder,
    Frozen,
    Head,
    LinearHead,
    Net,
    ProjectionHead,
    as_shape,
    built_in,
    default_net,
    mlp,
    recipe,
    slim_resnet18,
    small_cnn,
)

__all__ = [
    "HEADS",
    "NETS",
    "CosineHead",
    "Encoder",
    "Frozen",
    "Head",
    "LinearHead",
    "Net",
    "ProjectionHead",
    "as_shape",
    "built_in",
    "default_net",
    "mlp",
    "recipe",
    "slim_resnet18",
    "small_cnn",
]
