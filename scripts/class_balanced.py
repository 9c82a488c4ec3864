"""ER-ACE whose memory is class-balanced instead of a uniform sample of the stream:

    holdfast run --stream cifar10 --memory 20 --method er-ace --method scripts/class_balanced.py:ClassBalancedERACE

docs/results/beyond.md compares them.
"""

from dataclasses import dataclass
from typing import ClassVar

from holdfast import ERACE
from holdfast.memory import ClassBalanced, Memory


@dataclass(frozen=True, kw_only=True)
class ClassBalancedERACE(ERACE):
    memory_class: ClassVar[type[Memory]] = ClassBalanced
