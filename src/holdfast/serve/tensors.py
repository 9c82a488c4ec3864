"""Tensors of the Open Inference Protocol v2, as JSON and in binary."""

import json
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.serve.refusals import Refused

HEADER = "inference-header-content-length"
TYPES = {"UINT8": "u1", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "INT64": "<i8", "INT32": "<i4"}
MOST_DIMENSIONS = 8

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """Numbers, or strings of bytes."""

    array: NDArray[Any] | None = None
    strings: list[bytes] | None = None
    is_text: bool = False  # as strings in JSON are: of pictures, base64


def split(body: bytes, header: str | None) -> tuple[Values, bytes]:
    """The JSON of a request, and the tensors behind it."""
    length = len(body)
    if header is not None:
        if not (header.isascii() and header.isdecimal()) or len(header) > 10 or int(header) > len(body):
            raise Refused(400, f"{HEADER} must be the length of the JSON that the body begins with")
        length = int(header)
    try:
        values = json.loads(body[:length])
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(values, dict):
        raise Refused(400, "the body must be a JSON object")
    return values, body[length:]


def inputs(values: Values, rest: bytes) -> dict[str, Found]:
    """By name."""
    given = values.get("inputs")
    if not isinstance(given, list) or not 0 < len(given) <= 8 or not all(isinstance(each, dict) for each in given):
        raise Refused(400, "inputs must be a list of 1 to 8 tensors")
    found: dict[str, Found] = {}
    for each in given:
        name, shape, kind = each.get("name"), each.get("shape"), each.get("datatype")
        if not isinstance(name, str) or name in found:
            raise Refused(400, "every tensor needs a name of its own")
        if not _is_shape(shape) or not isinstance(kind, str):
            raise Refused(400, "every tensor needs a shape of whole numbers and a datatype")
        parameters = each.get("parameters") or {}
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if size is not None:
            if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(rest):
                raise Refused(400, "binary_data_size is not the size of what follows the JSON")
            content, rest = rest[:size], rest[size:]
            found[name] = _binary(content, shape, kind)
        else:
            found[name] = _plain(each.get("data"), shape, kind)
    if rest:
        raise Refused(400, "more follows the JSON than binary_data_size says")
    return found


def as_labels(found: Found) -> list[Any]:
    if found.array is not None:
        if found.array.dtype.kind != "i":
            raise Refused(422, "labels must be BYTES or integers")
        listed: list[Any] = found.array.ravel().tolist()
        return listed
    assert found.strings is not None
    try:
        return [text.decode() for text in found.strings]
    except UnicodeDecodeError:
        raise Refused(422, "labels must be UTF-8") from None


def outputs(
    arrays: dict[str, NDArray[Any] | list[str]], wanted: object, binary: bool
) -> tuple[list[Values], list[bytes]]:
    """Their JSON, and what follows it. `wanted`: the outputs that the request names, or all."""
    chosen = _chosen(arrays, wanted, binary)
    described, contents = [], []
    for name, in_binary in chosen.items():
        array = arrays[name]
        kind, content, shape = _as_output(array)
        each: Values = {"name": name, "shape": shape, "datatype": kind}
        if in_binary:
            each["parameters"] = {"binary_data_size": len(content)}
            contents.append(content)
        else:
            each["data"] = array if isinstance(array, list) else array.ravel().tolist()
        described.append(each)
    return described, contents


def _as_output(array: NDArray[Any] | list[str]) -> tuple[str, bytes, list[int]]:
    """Datatype, content and shape."""
    if isinstance(array, list):
        return "BYTES", _packed(array), [len(array)]
    if array.dtype == np.bool_:
        return "BOOL", array.tobytes(), list(array.shape)
    return "FP32", array.astype("<f4").tobytes(), list(array.shape)


def _chosen(arrays: Iterable[str], wanted: object, binary: bool) -> dict[str, bool]:
    if wanted is None:
        return dict.fromkeys(arrays, binary)
    if not isinstance(wanted, list) or not all(isinstance(each, dict) for each in wanted):
        raise Refused(400, "outputs must be a list of objects with a name")
    chosen = {}
    for each in wanted:
        if (name := each.get("name")) not in list(arrays):
            raise Refused(400, f"there are the outputs {', '.join(arrays)}")
        parameters = each.get("parameters")
        chosen[name] = bool(parameters.get("binary_data", binary)) if isinstance(parameters, dict) else binary
    return chosen


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, list)
        and 0 < len(shape) <= MOST_DIMENSIONS
        and all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**31 for size in shape)
    )


def _binary(content: bytes, shape: Sequence[int], kind: str) -> Found:
    if kind == "BYTES":
        return Found(strings=_checked(_unpacked(content), shape))
    dtype = _dtype(kind)
    if math.prod(shape) * dtype.itemsize != len(content):
        raise Refused(400, "a tensor does not have as many bytes as its shape and datatype say")
    return Found(np.frombuffer(content, dtype).reshape(shape))


def _plain(data: object, shape: Sequence[int], kind: str) -> Found:
    if not isinstance(data, list):
        raise Refused(400, "a tensor needs data, or binary_data_size")
    if kind == "BYTES":
        if not all(isinstance(text, str) for text in data):
            raise Refused(400, "a tensor of BYTES has strings as data")
        return Found(strings=_checked([text.encode(errors="surrogatepass") for text in data], shape), is_text=True)
    dtype = _dtype(kind)
    try:
        array = np.array(data)
        if array.dtype.kind not in "iuf" or array.size != math.prod(shape):
            raise ValueError
        with np.errstate(over="ignore", invalid="ignore"):
            typed = array.astype(dtype)
        if dtype.kind in "iu" and not np.array_equal(typed, array):
            raise ValueError
    except (ValueError, OverflowError, RuntimeWarning):
        raise Refused(400, "data must be as many numbers as the shape says, which the datatype can hold") from None
    return Found(typed.reshape(shape))


def _dtype(kind: str) -> np.dtype[Any]:
    if kind not in TYPES:
        raise Refused(400, f"a datatype must be one of {', '.join(TYPES)} or BYTES")
    return np.dtype(TYPES[kind])


def _checked(strings: list[bytes], shape: Sequence[int]) -> list[bytes]:
    if len(strings) != math.prod(shape):
        raise Refused(400, "a tensor does not have as many strings as its shape says")
    return strings


def _packed(strings: Iterable[str]) -> bytes:
    encoded = [text.encode() for text in strings]
    return b"".join(struct.pack("<I", len(text)) + text for text in encoded)


def _unpacked(content: bytes) -> list[bytes]:
    strings, place = [], 0
    while place < len(content):
        (length,) = struct.unpack("<I", content[place : place + 4].ljust(4, b"\xff"))
        if place + 4 + length > len(content):
            raise Refused(400, "a tensor of BYTES has a string that is longer than the tensor")
        strings.append(content[place + 4 : place + 4 + length])
        place += 4 + length
    return strings
