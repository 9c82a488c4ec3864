"""What is kept of the past, and which of it is replayed."""

from holdfast.memory.base import Memory
from holdfast.memory.class_balanced import ClassBalanced
from holdfast.memory.columns import raw_bytes
from holdfast.memory.reservoir import Reservoir

__all__ = ["ClassBalanced", "Memory", "Reservoir", "raw_bytes"]
