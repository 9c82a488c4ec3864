"""Streams: an order over a dataset, cut into batches."""

from holdfast.streams.base import Stream, as_given, iid, limited, split
from holdfast.streams.blurry import blurry
from holdfast.streams.named import STREAMS, Source, named, ordered, source

__all__ = ["STREAMS", "Source", "Stream", "as_given", "blurry", "iid", "limited", "named", "ordered", "source", "split"]
