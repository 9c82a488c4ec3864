"""Numbers and switches that callers give: numpy's are as welcome as Python's, and what is kept is Python's."""

import math
import numbers
import re
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from holdfast.errors import InputError

LARGEST = 2**63 - 1  # what arrays and stores of runs can hold
FINITE = sys.float_info.max
UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
LONGEST = 30  # digits and unit of a number of bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    least: float = -FINITE
    above: float = -math.inf
    most: float = FINITE

    def __contains__(self, number: float) -> bool:
        return self.least <= number <= self.most and number > self.above

    def __str__(self) -> str:
        low = f" of {self.least:g} or more" if self.least > -FINITE else ""
        low += f" above {self.above:g}" if self.above > -math.inf else ""
        return low + (f" and at most {self.most:g}" if self.most < FINITE else "")


ANY, NOT_NEGATIVE, POSITIVE = Range(), Range(least=0), Range(above=0)
AT_LEAST_ONE = Range(least=1)
UPDATES = Range(least=1, most=1000)  # gradient steps on one batch: with more, it would seem to hang
COUNTED = Range(least=0, most=2**53)  # of what has happened so far: nobody has counted further
LEARNING_RATES = Range(above=0, most=1000)
OWN_LEARNING_RATES = Range(least=0, most=1000)  # of an optimizer of one's own, which may rest
DECAYS = Range(least=0, most=0.9999)  # of averages of weights and of momentum: float32 cannot add up smaller shares


def whole(name: str, value: object, allowed: Range = NOT_NEGATIVE) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name} must be a whole number{allowed}, not {value!r}")
    if (number := int(value)) not in allowed:
        raise InputError(f"{name} must be a whole number{allowed}, not {_said(value)}")
    if abs(number) > LARGEST:
        raise InputError(f"{name} must be a whole number{allowed} and below 2**63")
    return number


def switch(name: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, not {_said(value)}")
    return bool(value)


def real(name: str, value: object, allowed: Range = ANY) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} must be a number{allowed}, not {value!r}")
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    if number not in allowed or (isinstance(number, int) and abs(number) > FINITE):
        raise InputError(f"{name} must be a finite number{allowed}, not {_said(value)}")
    return float(number) if abs(number) > LARGEST else number  # larger integers cannot be multiplied with a tensor


def _said(value: object) -> str:
    """Python does not write integers of thousands of digits."""
    return "one that large" if isinstance(value, numbers.Integral) and abs(int(value)) > LARGEST else repr(value)


def per_class(text: str) -> int | None:
    """The number in 5/class; None for all other texts."""
    found = re.fullmatch(r"(\d{1,18}) ?/ ?class", text, re.ASCII)
    return None if found is None else int(found[1])


def bytes_of(name: str, text: str) -> int:
    """614kB, 50MB, 1.5GB, 2GiB, 3000B"""
    found = re.fullmatch(rf"(\d+(?:\.\d+)?) ?({'|'.join(UNITS)})", text, re.ASCII)
    if found is None or len(text) > LONGEST:
        raise InputError(f"{name} must be a number of bytes such as 614kB, 50MB or 2GiB, not {text[:LONGEST]!r}")
    return whole(name, round(Fraction(found[1]) * UNITS[found[2]]))


def as_size(number: int) -> str:
    """The shortest text that `bytes_of` takes for this number."""
    unit = max((size, unit) for unit, size in UNITS.items() if "i" not in unit and number % size == 0)[1]
    return f"{number // UNITS[unit]}{unit}"
