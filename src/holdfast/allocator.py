"""How the process gets and frees memory."""

import contextlib
import ctypes
from functools import cache


@cache
def keep_freed_memory() -> None:
    """glibc returns large freed blocks to the system, and every step faults them in again: a tenth of its time."""
    trim_threshold, mmap_threshold = -1, -3
    with contextlib.suppress(OSError, AttributeError):  # other C libraries have no mallopt
        libc = ctypes.CDLL(None)
        for option in (trim_threshold, mmap_threshold):
            libc.mallopt(option, 1 << 30)
