"""Samples and labels as they come in a request, bounded before they are decoded."""

import base64
import binascii
import io
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from PIL import Image
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from holdfast.images import as_sample
from holdfast.serve import tensors
from holdfast.serve.limits import Limits
from holdfast.serve.refusals import Refused
from holdfast.serve.service import Service

Label = str | int
Array = NDArray[Any]
FORMATS = ("PNG", "JPEG", "WEBP")
LARGEST = 2**53  # integer that every reader of JSON keeps
NPY = b"\x93NUMPY"
FILES = NPY, b"\x89PNG", b"\xff\xd8\xff", b"RIFF"  # what they begin with, whatever they are called


@dataclass(frozen=True, slots=True)
class Given:
    x: Array
    labels: list[Label]
    fields: dict[str, Any] = field(default_factory=dict)  # what else the request says


async def labelled(request: Request, service: Service) -> Given:
    """With a label for each sample."""
    batch = await given(request, service)
    if (samples := len(batch.x)) != (labels := len(batch.labels)):
        how = "label=NAME in a form, ?label=NAME beside a single file, labels in JSON"
        raise Refused(422, f"each sample or file needs one label, {samples} came with {labels}: {how}")
    return batch


async def given(request: Request, service: Service) -> Given:
    """JSON with images, arrays or tensors; a form with files; tensors in binary; or one file as it is."""
    batch = await _given(request, service)
    alone = batch.x.shape == service.shape != ()  # one sample, which is a batch of one
    return replace(batch, x=batch.x[None]) if alone else batch


async def _given(request: Request, service: Service) -> Given:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    body = await request.body()
    if kind == "multipart/form-data":
        files, texts = await _parts(request, service.limits)
        return await run_in_threadpool(_of_form, files, texts, service)
    if kind.startswith("image/") or body.startswith(FILES):
        labels = _in_query(request.scope["query_string"])
        return Given(await run_in_threadpool(_of_files, [body], service), checked_labels(labels, service.limits))
    return await run_in_threadpool(_of_json, body, request.headers.get(tensors.HEADER), service)


def _in_query(query: bytes) -> list[str]:
    try:
        return [
            text
            for name, text in parse_qsl(query.decode("latin-1"), keep_blank_values=True, errors="strict")
            if name == "label"
        ]
    except ValueError:  # or two that are not text would become one
        raise Refused(422, "a label that is a string must be UTF-8") from None


async def _parts(request: Request, limits: Limits) -> tuple[list[bytes], list[tuple[str, str]]]:
    """The files of a form, and its fields."""
    try:
        async with request.form(max_files=limits.samples, max_fields=limits.samples + 10) as form:
            parts = form.multi_items()
            files = [await part.read() for _, part in parts if isinstance(part, UploadFile)]
            return files, [(name, part) for name, part in parts if isinstance(part, str)]
    except (HTTPException, MultiPartException):
        raise Refused(400, f"the form cannot be read, or has more than {limits.samples} files") from None


def checked_labels(labels: object, limits: Limits) -> list[Label]:
    if not isinstance(labels, list):
        raise Refused(422, "labels must be a list of strings and integers")
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise Refused(422, "a label must be a string or an integer")
        if isinstance(label, int) and abs(label) > LARGEST:
            raise Refused(422, "a label that is an integer must be from -2**53 to 2**53")
        if isinstance(label, str) and not _is_text(label, limits.label):
            raise Refused(422, f"a label that is a string must be 1 to {limits.label} characters of text")
    return labels


def shown(label: object) -> Label:
    """As JSON has it: labels that came otherwise, in Python, are shown as text."""
    return label if isinstance(label, str | int) and not isinstance(label, bool) else repr(label)


def decoded(contents: Sequence[bytes], service: Service) -> NDArray[np.uint8]:
    """As samples of the learner. How large all of them are is looked at before one is decoded."""
    shape, limits = service.shape, service.limits
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise Refused(422, f"this learner takes arrays of shape {tuple(shape)}, not pictures")
    pixels, samples = 0, []
    for content in contents:
        with _opened(content, limits) as image:
            pixels += math.prod(image.size)
    with service.pixels.held(pixels):
        for content in contents:
            with _opened(content, limits) as image:
                samples.append(as_sample(image, shape))
    return np.stack(samples)


@contextmanager
def _opened(content: bytes, limits: Limits) -> Iterator[Image.Image]:
    """Not yet decoded."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if math.prod(image.size) > limits.pixels:
                raise Refused(413, f"a picture may have {limits.pixels} pixels, not {image.width} × {image.height}")
            yield image
    except Refused:
        raise
    except Image.DecompressionBombError:
        raise Refused(413, f"a picture may have {limits.pixels} pixels") from None
    except Exception:  # image decoders raise whatever they like
        raise Refused(422, f"a picture cannot be read; it must be whole, and one of {', '.join(FORMATS)}") from None


def npy(content: bytes, limits: Limits) -> Array:
    """Without believing what the header says of its size."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except (ValueError, SyntaxError):
        raise Refused(422, "the .npy file cannot be read") from None
    rest = content[stream.tell() :]
    if dtype.kind not in "fu" or not shape or math.prod(shape) * dtype.itemsize != len(rest):
        raise Refused(422, "a .npy file must hold floats or uint8, as many as its shape says, (samples, ...)")
    _check_count(shape[0], limits)
    flat = np.frombuffer(rest, dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def _of_form(files: list[bytes], texts: list[tuple[str, str]], service: Service) -> Given:
    plain: list[Label] = [text for name, text in texts if name == "label"]
    fields = {name: text for name, text in texts if name not in ("label", "labels")}
    for name, text in texts:
        if name == "labels":
            plain += checked_labels(_json(text.encode()), service.limits)
    return Given(_of_files(files, service), checked_labels(plain, service.limits), fields)


def _of_files(files: list[bytes], service: Service) -> Array:
    _check_count(len(files), service.limits)
    if not files:
        raise Refused(422, "there is no sample: send pictures or a .npy file")
    if files[0][:6] == NPY:
        if len(files) > 1:
            raise Refused(422, "send one .npy file with all samples of the batch")
        return npy(files[0], service.limits)
    return decoded(files, service)


def _of_json(body: bytes, header: str | None, service: Service) -> Given:
    values, rest = tensors.split(body, header)
    labels = checked_labels(values.get("labels", []), service.limits)
    if "inputs" in values:
        found = tensors.inputs(values, rest)
        if "label" in found:
            labels = checked_labels(tensors.as_labels(found.pop("label")), service.limits)
        if len(found) != 1:
            raise Refused(400, "inputs must be one tensor of samples, and may be one of labels named label")
        return Given(of_tensor(next(iter(found.values())), service), labels, values)
    if "images" in values:
        images = values["images"]
        if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
            raise Refused(422, "images must be a list of base64 strings")
        _check_count(len(images), service.limits)
        files = [_base64(image.encode(errors="replace")) for image in images]
        return Given(_of_files(files, service), labels, values)
    if "arrays" in values:
        return Given(of_lists(values["arrays"], service), labels, values)
    raise Refused(422, "samples must come as images, arrays or inputs")


def of_tensor(found: tensors.Found, service: Service) -> Array:
    if found.strings is not None:
        _check_count(len(found.strings), service.limits)
        return _of_files([_base64(text) for text in found.strings] if found.is_text else found.strings, service)
    assert found.array is not None
    _check_count(len(found.array) if found.array.ndim else 0, service.limits)
    return found.array


def of_lists(lists: object, service: Service) -> Array:
    """Numbers as the learner takes them: of pictures uint8, of vectors float."""
    if not isinstance(lists, list):
        raise Refused(422, "arrays must be a list of samples")
    _check_count(len(lists), service.limits)
    try:
        array = np.array(lists)
        if array.dtype.kind not in "iuf":
            raise ValueError
        if not service.takes_floats:
            with np.errstate(invalid="ignore"):
                as_bytes = array.astype(np.uint8)
            if not np.array_equal(as_bytes, array):
                raise Refused(422, "this learner takes whole numbers from 0 to 255")
            return as_bytes
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    except (ValueError, OverflowError, RuntimeWarning):
        raise Refused(422, "arrays must be numbers, and all samples of one shape") from None


def _check_count(count: int, limits: Limits) -> None:
    if count > limits.samples:
        raise Refused(413, f"a batch may have {limits.samples} samples, not {count}")


def _is_text(label: str, longest: int) -> bool:
    try:
        label.encode()
    except UnicodeEncodeError:
        return False
    return 0 < len(label) <= longest and "\0" not in label


def _base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text.partition(b"base64,")[2] if text.startswith(b"data:") else text, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(422, "an image is not base64") from None


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Refused(400, "this is not JSON") from None
