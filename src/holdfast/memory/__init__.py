"""What is kept of the past, and which of it is replayed."""

from holdfast.memory.reservoir import ClassBalanced, Memory, Reservoir, raw_bytes

__all__ = ["ClassBalanced", "Memory", "Reservoir", "raw_bytes"]
