"""Samples that are held as bytes: an array of bytes objects, which is a column of a memory like any other."""

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import CheckpointError, InputError
from holdfast.memory.class_index import Array
from holdfast.memory.codecs import Codec, Shape

BYTES_PER_OBJECT = 48  # 33 of its own, up to 15 that the allocator adds


def size(data: bytes) -> int:
    """What a bytes object takes, apart from the place in the array that names it."""
    return len(data) + BYTES_PER_OBJECT


class Encoding:
    """A codec for samples of one shape and type. What it would not make smaller is kept as it is."""

    def __init__(self, codec: Codec, shape: Shape, dtype: np.dtype[Any]) -> None:
        if (instead := codec.takes(shape, dtype)) is not None:
            raise InputError(
                f"memory: {codec.name} keeps {instead}, not samples of shape {shape} and type {dtype}; "
                "leave the codec out to keep them as they are"
            )
        self.codec, self.shape, self.dtype = codec, shape, dtype
        self.raw_size = dtype.itemsize * int(np.prod(shape))
        self._is_tried = False

    def encode(self, sample: Array) -> bytes:
        if sample.shape != self.shape or sample.dtype != self.dtype:
            raise InputError(f"the memory holds samples of shape {self.shape} and type {self.dtype}")
        data = self.codec.encode(sample)
        if type(data) is not bytes:
            raise InputError(f"memory: {self.codec.name} must encode a sample as bytes, not {type(data).__name__}")
        if len(data) >= self.raw_size:
            return sample.tobytes()
        if not self._is_tried:
            if (flaw := self._decoded(data)[1]) is not None:
                raise InputError(f"memory: {self.codec.name} cannot decode what it has encoded: {flaw}")
            self._is_tried = True
        return data

    def decode(self, column: Iterable[bytes], number: int) -> Array:
        """What no codec has made, but somebody has written into a file, is a blank sample."""
        samples = np.empty((number, *self.shape), self.dtype)
        for place, data in enumerate(column):
            samples[place], flaw = self._decoded(data)
            if flaw is not None:
                warnings.warn(f"{self._cannot_decode}, so it counts as blank: {flaw}", RuntimeWarning, stacklevel=2)
        return samples

    def undecodable(self, column: Iterable[bytes]) -> int:
        """How many of them are not what the codec has made."""
        return sum(self._decoded(data)[1] is not None for data in column)

    def check(self, column: Iterable[bytes]) -> None:
        """What a quick look tells of bytes that somebody else may have written."""
        for data in column:
            if len(data) > self.raw_size:
                more = f"it has {len(data)} bytes, more than the {self.raw_size} of any such sample"
                raise CheckpointError(f"{self._cannot_decode}: {more}")
            if len(data) < self.raw_size and (flaw := self.codec.flaw(data, self.shape)) is not None:
                raise CheckpointError(f"{self._cannot_decode}: {flaw}")

    def _decoded(self, data: bytes) -> tuple[Array, str | None]:
        """The sample, and why it is blank if it is."""
        if len(data) == self.raw_size:
            return np.frombuffer(data, self.dtype).reshape(self.shape), None
        try:
            sample = self.codec.decode(data, self.shape)
            if sample.shape == self.shape and sample.dtype == self.dtype:
                return sample, None
            flaw = f"it gives shape {sample.shape} and type {sample.dtype}"
        except MemoryError:
            raise  # which says nothing of the sample
        except Exception as error:
            flaw = f"{type(error).__name__}: {error}"
        return np.zeros(self.shape, self.dtype), flaw

    @property
    def _cannot_decode(self) -> str:
        return f"the memory holds a sample that {self.codec.name} cannot decode"


class EncodedBatch:
    """Incoming samples, encoded when they are asked for: most of them never are."""

    def __init__(self, encoding: Encoding, samples: Array) -> None:
        self._encoding, self._samples = encoding, samples
        self._x = np.empty(len(samples), object)
        self._fingerprint = np.zeros(len(samples), np.int64)

    def __getitem__(self, row: int) -> bytes:
        if self._x[row] is None:
            self._x[row] = self._encoding.encode(self._samples[row])
            self._fingerprint[row] = fingerprint(self._samples[row])
        data: bytes = self._x[row]
        return data

    def columns(self, rows: Array) -> dict[str, Array]:
        """With the values of these rows in their places."""
        for row in rows.tolist():
            self[row]
        return {"x": self._x, "fingerprint": self._fingerprint}


def fingerprint(sample: Array) -> int:
    """By which a sample is found again, as it came: what is decoded may be another, and so may be encoding it anew."""
    content = f"{sample.dtype} {sample.shape}".encode() + sample.tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)


def pack(encoding: Encoding, column: NDArray[np.object_]) -> dict[str, Array]:
    return {
        "encoded": np.frombuffer(bytearray().join(column), np.uint8),
        "lengths": np.array([len(data) for data in column], np.int64),
        "sample": np.empty((0, *encoding.shape), encoding.dtype),
    }


def unpack(codec: Codec, state: Mapping[str, Array]) -> tuple[Encoding, NDArray[np.object_]]:
    lengths, sample = state["lengths"], state["sample"]
    if lengths.ndim != 1 or lengths.dtype != np.int64 or (lengths < 0).any():
        raise CheckpointError("the memory's samples have impossible lengths")
    content = state["encoded"].tobytes()
    if max(lengths, default=0) > len(content) or lengths.sum() != len(content):
        raise CheckpointError("the memory's samples are not as long as they say")
    column = np.empty(len(lengths), object)
    ends = lengths.cumsum()
    for place, (start, end) in enumerate(zip((ends - lengths).tolist(), ends.tolist(), strict=True)):
        column[place] = content[start:end]
    return Encoding(codec, sample.shape[1:], sample.dtype), column
