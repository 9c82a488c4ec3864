"""A learner that lives in a folder."""

from holdfast.durable.durable import DurableLearner, open

__all__ = ["DurableLearner", "open"]
