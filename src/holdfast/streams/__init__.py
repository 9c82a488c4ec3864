"""Streams: an order over a dataset, cut into batches."""

from holdfast.streams.base import Stream, iid, split
from holdfast.streams.named import STREAMS, named

__all__ = ["STREAMS", "Stream", "iid", "named", "split"]
