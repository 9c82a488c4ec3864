"""The learner, and what it is made of."""

from holdfast.learner.learner import Learner

__all__ = ["Learner"]
