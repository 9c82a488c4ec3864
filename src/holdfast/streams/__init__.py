"""Streams: an order over a dataset, cut into batches."""

from holdfast.streams.base import Stream, iid, split
from holdfast.streams.named import STREAMS, Source, named, source

__all__ = ["STREAMS", "Source", "Stream", "iid", "named", "source", "split"]
