"""Online continual learning: a learner to deploy and a laboratory to trust.

Names are loaded when first used, so that `import holdfast` and `holdfast --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.augment import crop_and_flip
    from holdfast.batch import Batch
    from holdfast.errors import HoldfastError
    from holdfast.learner import Learner
    from holdfast.memory import Reservoir
    from holdfast.methods import ER, ERACE, ERAML, IID, FineTuning, IIDPlusPlus, Method
    from holdfast.nets import mlp, slim_resnet18, small_cnn

__version__ = "0.1.0"

__all__ = [
    "ER",
    "ERACE",
    "ERAML",
    "IID",
    "Batch",
    "FineTuning",
    "HoldfastError",
    "IIDPlusPlus",
    "Learner",
    "Method",
    "Reservoir",
    "crop_and_flip",
    "mlp",
    "slim_resnet18",
    "small_cnn",
]

_HOMES = {"crop_and_flip": "augment", "Batch": "batch", "HoldfastError": "errors", "Learner": "learner"}
_HOMES |= {"Reservoir": "memory", "mlp": "nets", "slim_resnet18": "nets", "small_cnn": "nets"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    return getattr(import_module(f"holdfast.{_HOMES.get(name, 'methods')}"), name)
