"""Everything Holdfast raises on purpose.

    HoldfastError
    ├── InputError        an argument is wrong; also a ValueError
    │   ├── BatchError    a batch given to the learner
    │   ├── KeyReused     the key of one batch given to another
    │   ├── LabelError    a label given to the learner
    │   ├── TicketError   a question that is not open: never asked, told already, or expired
    │   └── UnknownName   a name that does not exist; says which is nearest
    ├── NonFiniteError    a loss or gradient is not a number; nothing was changed; also an ArithmeticError
    ├── NothingLearned    a question to a learner that has seen no class yet
    ├── DataError         a dataset is missing, incomplete or damaged
    ├── InUse             another process is at work on the same thing
    ├── WriteError        a file cannot be written; the one before it is still there; also an OSError
    ├── ServiceError      a service that cannot be reached or does not do what it was asked; its status, if it has one
    ├── StoreError        a file of runs is damaged, something else, or cannot be read or written
    └── CheckpointError   a file of a learner is missing, damaged or does not fit

The command line turns each of them into one line and exit code 2. There is one warning, OtherBits: what goes on here
was begun elsewhere, so that its last bits are those of neither place, or records were made elsewhere.
"""

import difflib
from collections.abc import Iterable

MOST_NAMES = 30


class HoldfastError(Exception):
    """Base class of everything that Holdfast raises on purpose."""


class InputError(HoldfastError, ValueError):
    """An argument is wrong. Nothing was changed."""


class BatchError(InputError):
    """A batch that was given to the learner is wrong: its shape, its type or its values."""


class KeyReused(InputError):
    """The key of one batch was given to another."""


class LabelError(InputError):
    """A label is not valid, or does not fit the others."""


class TicketError(InputError):
    """A question is not open: it was never asked, has been told already, or has expired."""


class UnknownName(InputError):
    """A name does not exist. The message says which is nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = list(known)
        lower = {each.lower(): each for each in known}
        near = [lower[each] for each in difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)]
        hint = f"did you mean {near[0]!r}? " if near else ""
        more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
        super().__init__(f"unknown {kind} {name!r}: {hint}there are {', '.join(known[:MOST_NAMES])}{more}")


class NonFiniteError(HoldfastError, ArithmeticError):
    """A loss, a gradient or an updated weight is not a finite number. The step was taken back."""


class NothingLearned(HoldfastError):
    """A learner that has not seen any class yet was asked a question."""


class DataError(HoldfastError):
    """A dataset is missing, incomplete or damaged."""


class InUse(HoldfastError):
    """Another process is using the same thing.

    Attributes:
        pid: the number of that process, None if it is not known.
    """

    def __init__(self, what: str, pid: int | None, host: str = "") -> None:
        who = "another process" if pid is None else f"process {pid}" + (f" on {host}" if host else "")
        super().__init__(f"{what} is in use by {who}; wait for it or stop it")
        self.pid = pid


class WriteError(HoldfastError, OSError):
    """A file cannot be written. The one before it is still there."""


class ServiceError(HoldfastError):
    """A service cannot be reached, or does not do what it was asked.

    Attributes:
        status: of its answer, None if there was none.
    """

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


class StoreError(HoldfastError):
    """A store of runs is damaged, is something else, or cannot be read or written."""


class CheckpointError(HoldfastError):
    """A file of a learner is missing, damaged, or does not fit what was passed with it."""


class OtherBits(UserWarning):
    """A warning: what continues here was begun elsewhere, or a record was made there; its last bits may differ."""
