"""Online continual learning: a learner to deploy and a laboratory to trust.

Names are loaded when first used, so that `import holdfast` and `holdfast --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast import errors

if TYPE_CHECKING:
    from holdfast.augment import augment_images, crop_and_flip
    from holdfast.batch import Batch, Task
    from holdfast.client import Client
    from holdfast.datasets import Dataset, batches, from_arrays, from_dataset
    from holdfast.durable import DurableLearner, open
    from holdfast.durable.adoption import adopt
    from holdfast.durable.backups import backup
    from holdfast.durable.history import kept
    from holdfast.durable.inspection import inspect
    from holdfast.durable.repairs import repair, roll_back
    from holdfast.durable.verification import verify
    from holdfast.errors import (
        BatchError,
        CheckpointError,
        DataError,
        HoldfastError,
        InputError,
        InUse,
        KeyReused,
        LabelError,
        NonFiniteError,
        NothingLearned,
        OtherBits,
        ServiceError,
        StoreError,
        TicketError,
        UnknownName,
        WriteError,
    )
    from holdfast.laboratory import PaperResults, Results, paper, run, sweep
    from holdfast.learner import Learner
    from holdfast.learner.memory_contents import export_memory, import_memory, memory_gallery, memory_summary
    from holdfast.memory import ClassBalanced, Memory, Reservoir
    from holdfast.memory.codecs import Codec
    from holdfast.methods import (
        AGEM,
        DER,
        ER,
        ERACE,
        ERAML,
        IID,
        MIR,
        NCM,
        SCR,
        SLDA,
        SSIL,
        DERPlusPlus,
        DERPlusPlusACE,
        FineTuning,
        GDumb,
        Holdfast,
        ICaRL,
        IIDOffline,
        IIDPlusPlus,
        Method,
        StepContext,
    )
    from holdfast.nets import Frozen, mlp, raw, slim_resnet18, small_cnn
    from holdfast.nets.pretrained import pretrained
    from holdfast.streams import ordered

__version__ = "0.1.0"

__all__ = [
    "AGEM",
    "DER",
    "ER",
    "ERACE",
    "ERAML",
    "IID",
    "MIR",
    "NCM",
    "SCR",
    "SLDA",
    "SSIL",
    "Batch",
    "BatchError",
    "CheckpointError",
    "ClassBalanced",
    "Client",
    "Codec",
    "DERPlusPlus",
    "DERPlusPlusACE",
    "DataError",
    "Dataset",
    "DurableLearner",
    "FineTuning",
    "Frozen",
    "GDumb",
    "Holdfast",
    "HoldfastError",
    "ICaRL",
    "IIDOffline",
    "IIDPlusPlus",
    "InUse",
    "InputError",
    "KeyReused",
    "LabelError",
    "Learner",
    "Memory",
    "Method",
    "NonFiniteError",
    "NothingLearned",
    "OtherBits",
    "PaperResults",
    "Reservoir",
    "Results",
    "ServiceError",
    "StepContext",
    "StoreError",
    "Task",
    "TicketError",
    "UnknownName",
    "WriteError",
    "adopt",
    "augment_images",
    "backup",
    "batches",
    "crop_and_flip",
    "errors",
    "export_memory",
    "from_arrays",
    "from_dataset",
    "import_memory",
    "inspect",
    "kept",
    "memory_gallery",
    "memory_summary",
    "mlp",
    "open",
    "ordered",
    "paper",
    "pretrained",
    "raw",
    "repair",
    "roll_back",
    "run",
    "slim_resnet18",
    "small_cnn",
    "sweep",
    "verify",
]

_MODULES = {
    "datasets": ("Dataset", "batches", "from_arrays", "from_dataset"),
    "laboratory": ("PaperResults", "Results", "paper", "run", "sweep"),
    "streams": ("ordered",),
    "augment": ("augment_images", "crop_and_flip"),
    "durable.adoption": ("adopt",),
    "durable.backups": ("backup",),
    "batch": ("Batch", "Task"),
    "client": ("Client",),
    "memory.codecs": ("Codec",),
    "learner.memory_contents": ("memory_summary", "export_memory", "memory_gallery", "import_memory"),
    "durable": ("DurableLearner", "open"),
    "errors": (
        "BatchError",
        "CheckpointError",
        "DataError",
        "HoldfastError",
        "InUse",
        "InputError",
        "KeyReused",
        "LabelError",
        "NonFiniteError",
        "NothingLearned",
        "OtherBits",
        "ServiceError",
        "StoreError",
        "TicketError",
        "UnknownName",
        "WriteError",
    ),
    "durable.history": ("kept",),
    "durable.inspection": ("inspect",),
    "learner": ("Learner",),
    "memory": ("ClassBalanced", "Memory", "Reservoir"),
    "nets": ("Frozen", "mlp", "raw", "slim_resnet18", "small_cnn"),
    "nets.pretrained": ("pretrained",),
    "durable.repairs": ("repair", "roll_back"),
    "durable.verification": ("verify",),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "methods")
    return getattr(import_module(f"holdfast.{module}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
