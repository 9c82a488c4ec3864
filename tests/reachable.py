"""What an object holds, wherever it holds it."""

import gc
from types import FunctionType, ModuleType

import numpy as np
import torch


def bytes_within(thing: object) -> bytes:
    """Of all arrays and tensors that can be reached from it, in old versions too."""
    found, met, todo = [], {id(thing)}, [thing]
    while todo:
        for each in gc.get_referents(todo.pop()):
            if id(each) in met or isinstance(each, type | ModuleType | FunctionType):
                continue
            met.add(id(each))
            todo.append(each)
            if isinstance(each, torch.Tensor):
                found.append(each.detach().contiguous().numpy().tobytes())
            elif isinstance(each, np.ndarray):
                found.append(each.tobytes())
    return b"".join(found)
