"""A learner behind `holdfast serve`, with the learner's own method names."""

import io
import json
import random
import time
import uuid
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageOps

from holdfast import images
from holdfast.errors import BatchError, InputError, LabelError, NothingLearned, ServiceError, TicketError

try:
    import httpx
except ImportError:
    raise ServiceError("holdfast.Client needs one more package: pip install 'holdfast[client]'") from None

Samples = ArrayLike | Sequence[bytes | str | Path | Image.Image]
Labels = Sequence[Hashable] | NDArray[Any]
Label = str | int
HEADER = "Inference-Header-Content-Length"
LONGEST_PAUSE = 5.0  # seconds between two tries
PICTURES = bytes, str, Path, Image.Image
NOT_THERE: dict[str, type[InputError]] = {
    "/v1/tell": TicketError,
    "/v1/forget": LabelError,
    "/v1/roll-back": InputError,
}


@dataclass(frozen=True, slots=True)
class Question:
    """Stands for the samples of one question until their labels are told. Its number will do as well."""

    number: int
    answers: list[Label | None]
    step: int


class Client:
    """Asks and teaches a learner served by `holdfast serve`.

    Samples are an array, or a list of pictures: paths or contents of PNG, JPEG or WebP files, or images of Pillow.
    Mistakes in what is sent raise what the learner would raise, `InputError` or `NothingLearned`; anything else that
    goes wrong is a `ServiceError`.

    Args:
        address: where the service is.
        token: one from the file that the service was started with.
        name: of the model, as its `--name`; by default, that of the one it has.
        timeout: how many seconds an answer may take.
        retries: how often a request that gets no answer, or is told to try again later, is sent again, after pauses
            of 0.1 to 5 seconds: where connections are refused, 9 times take about 16 seconds, which a killed service
            needs to be back. What it changes is still changed only once.
        verify: whether certificates are checked, or an `ssl.SSLContext` by which they are.

    Raises:
        ServiceError: if httpx is not installed.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        name: str | None = None,
        timeout: float = 30.0,
        retries: int = 9,
        verify: Any = True,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout, verify=verify)
        self._name, self._retries = name, retries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def observe(self, x: Samples, y: Labels, *, key: str | None = None) -> int:
        """Learns one batch, which is safe on the service's disk when this returns.

        Args:
            x: samples: an array, or a list of pictures.
            y: one label per sample, strings or integers.
            key: a name for the batch: given twice, it is learned once. Without one, it gets a name of its own.

        Returns:
            How many batches have been learned so far.

        Raises:
            InputError: if what was sent is wrong.
            ServiceError: if the service cannot be reached or cannot do it.
        """
        return self._learned("/v1/learn", key, **_tensor(x, labels=_plain(y)))

    @overload
    def predict(self, x: Samples, *, unknown: Literal[False] = False) -> list[Label]: ...
    @overload
    def predict(self, x: Samples, *, unknown: bool) -> list[Label | None]: ...
    def predict(self, x: Samples, *, unknown: bool = False) -> Sequence[Label | None]:
        """Predicts the most probable label of each sample.

        Args:
            x: samples: an array, or a list of pictures.
            unknown: whether the answer is None where the probability is below the threshold of `calibrate`.

        Returns:
            One label per sample.

        Raises:
            NothingLearned: if no class has been seen yet.
            InputError: if what was sent is wrong.
            ServiceError: if the service cannot be reached or cannot do it.
        """
        if unknown:
            return self._sure_answers(x)
        classes, found = self._answers(x)
        return [classes[best] for best in found["probability"].argmax(1).tolist()]

    def predict_proba(self, x: Samples) -> NDArray[np.float32]:
        """Predicts the probability of each class.

        Args:
            x: samples: an array, or a list of pictures.

        Returns:
            One row per sample, with one column for each of `classes`.

        Raises:
            NothingLearned: if no class has been seen yet.
            InputError: if what was sent is wrong.
            ServiceError: if the service cannot be reached or cannot do it.
        """
        return self._answers(x)[1]["probability"]

    def calibrate(self, x: Samples, y: Labels, *, accept: float = 0.95) -> dict[str, Any]:
        """Fits probabilities to how often answers are right, and finds a threshold below which to answer "unknown".

        Args:
            x: labelled samples that it has not learned from; they may include unknown classes.
            y: one label per sample.
            accept: the share of samples of known classes that should get an answer.

        Returns:
            What `Learner.calibrate` found: temperature, threshold and the trade-off of other thresholds.

        Raises:
            NothingLearned: if no class has been seen yet.
            InputError: if what was sent is wrong.
            ServiceError: if the service cannot be reached or cannot do it.
        """
        sent = _tensor(x, labels=_plain(y))
        found: dict[str, Any] = self._json("POST", "/v1/calibrate", params={"accept": accept}, **sent)
        return found

    def similarity(self, x: Samples) -> NDArray[np.float32]:
        """Computes how similar each sample is to the class it is most similar to.

        Args:
            x: samples: an array, or a list of pictures.

        Returns:
            One cosine per sample, from -1 to 1.

        Raises:
            NothingLearned: if no class has been seen yet.
            InputError: if what was sent is wrong.
            ServiceError: if the service cannot be reached or cannot do it.
        """
        _, found = self._answers(x)
        if "similarity" not in found:
            raise InputError("only answers of a cosine head tell how similar a class is")
        return found["similarity"]

    def ask(self, x: Samples) -> Question:
        """Answers now, and keeps the samples until their labels are known.

        Args:
            x: samples: an array, or a list of pictures.

        Returns:
            A question with a `number`, for `tell`, the `answers`, and the `step` at which they were computed.

        Raises:
            InputError: if what was sent is wrong.
            ServiceError: if the service cannot be reached or cannot do it.
        """
        asked = self._json("POST", "/v1/ask", **_tensor(x))
        return Question(asked["ticket"], [answer["label"] for answer in asked["answers"]], asked["step"])

    def tell(self, ticket: Question | int, y: Labels, *, key: str | None = None) -> int:
        """Learns the samples of a question, whose labels have come, and closes it.

        Args:
            ticket: what `ask` returned, or its number.
            y: one label per sample.
            key: as for `observe`.

        Returns:
            How many batches have been learned so far.

        Raises:
            TicketError: if the question is not open.
            InputError: if what was sent is wrong.
            ServiceError: if the service cannot be reached or cannot do it.
        """
        number = ticket.number if isinstance(ticket, Question) else ticket
        return self._learned("/v1/tell", key, json={"ticket": number, "labels": _plain(y)})

    def forget(self, label: Hashable) -> int:
        """Erases a class: its samples, its row of the head and its name.

        Args:
            label: the class.

        Returns:
            How many samples of it the memory held.

        Raises:
            LabelError: if there is no such class.
            ServiceError: if the service cannot be reached or cannot do it.
        """
        (plain,) = _plain([label])
        forgotten: int = self._json("POST", "/v1/forget", json={"label": plain})["samples"]
        return forgotten

    def forget_samples(self, x: Samples) -> int:
        """Erases samples from the memory and the open questions.

        Args:
            x: the samples; whatever equals one of them is erased.

        Returns:
            How many samples the memory held.

        Raises:
            InputError: if what was sent is wrong.
            ServiceError: if the service cannot be reached or cannot do it.
        """
        forgotten: int = self._json("POST", "/v1/forget-samples", **_tensor(x))["samples"]
        return forgotten

    @property
    def classes(self) -> list[Label]:
        """In the order of their first appearance."""
        return [each["label"] for each in self._json("GET", "/v1/classes")]

    @property
    def step(self) -> int:
        """How many batches have been learned."""
        step: int = self.state["step"]
        return step

    @property
    def state(self) -> dict[str, Any]:
        """Step, classes, memory, shape of samples, queue, kept checkpoints."""
        found: dict[str, Any] = self._json("GET", "/v1/state")
        return found

    @property
    def progress(self) -> dict[str, Any]:
        """How well labelled samples were predicted before they were learned."""
        found: dict[str, Any] = self._json("GET", "/v1/progress")
        return found

    def memory_summary(self) -> list[dict[str, Any]]:
        """Says what the memory holds.

        Returns:
            One entry for each class that is held, the largest first.

        Raises:
            ServiceError: if the service cannot be reached or cannot do it.
        """
        found: list[dict[str, Any]] = self._json("GET", "/v1/memory")
        return found

    def memory_gallery(self, path: str | Path) -> None:
        """Writes a picture of what the memory holds.

        Args:
            path: of a PNG file, which gets a row for each class.

        Raises:
            ServiceError: if the service cannot be reached or cannot do it.
        """
        Path(path).write_bytes(self._sent("GET", "/v1/memory/gallery").content)

    def save(self, path: str | Path) -> None:
        """Writes the learner into a file that `holdfast.Learner.load` reads.

        Args:
            path: the file.

        Raises:
            ServiceError: if the service cannot be reached or cannot do it.
        """
        Path(path).write_bytes(self._sent("GET", "/v1/checkpoint").content)

    def checkpoint(self) -> int:
        """Writes a checkpoint on the service's disk, to go back to.

        Returns:
            Its step.

        Raises:
            ServiceError: if the service cannot be reached or cannot do it.
        """
        step: int = self._json("POST", "/v1/checkpoints")["step"]
        return step

    def kept(self) -> list[str]:
        """Lists the checkpoints that the learner can go back to.

        Returns:
            Their names, the latest first: the step, or "20.2" for a second state with 20 steps.

        Raises:
            ServiceError: if the service cannot be reached or cannot do it.
        """
        return [each["name"] for each in self._json("GET", "/v1/checkpoints")]

    def roll_back(self, step: int | str) -> int:
        """Takes the learner back to a kept checkpoint. What was learned since is undone, and kept as one, too.

        Args:
            step: the step of a kept checkpoint or, if several are of this step, the name of one; `kept` lists them.

        Returns:
            The step.

        Raises:
            InputError: if it is not kept, or several of this step are.
            ServiceError: if the service cannot be reached or cannot do it.
        """
        now: int = self._json("POST", "/v1/roll-back", json={"step": step})["step"]
        return now

    def _learned(self, path: str, key: str | None, *, headers: dict[str, str] | None = None, **body: Any) -> int:
        if key is not None and not (
            isinstance(key, str) and key.isascii() and key.isprintable() and key.strip() == key != ""
        ):
            raise InputError("key must be printable ASCII characters, without spaces around them")
        headers = {**(headers or {}), "Idempotency-Key": uuid.uuid4().hex if key is None else key}
        learned: int = self._json("POST", path, repeatable=True, headers=headers, **body)["step"]
        return learned

    def _sure_answers(self, x: Samples) -> list[Label | None]:
        answers = self._json("POST", "/v1/predict", repeatable=True, **_tensor(x))["answers"]
        if any(each["label"] is None for each in answers):
            raise NothingLearned("the learner knows no class yet; call observe(x, y) first")
        if any(each["unknown"] is None for each in answers):
            raise InputError("unknown=True needs a threshold: calibrate(x, y) finds one on labelled fresh samples")
        return [None if each["unknown"] else each["label"] for each in answers]

    def _answers(self, x: Samples) -> tuple[list[Label], dict[str, NDArray[np.float32]]]:
        """The classes, and what is told of each sample as numbers."""
        sent = _tensor(x, parameters={"binary_data_output": True})
        if self._name is None:
            self._name = self.state["name"]
        response = self._sent("POST", f"/v2/models/{self._name}/infer", repeatable=True, **sent)
        length = int(response.headers[HEADER])
        head, rest = json.loads(response.content[:length]), response.content[length:]
        found = {}
        for output in head["outputs"]:
            size = output["parameters"]["binary_data_size"]
            if output["datatype"] == "FP32":
                found[output["name"]] = np.frombuffer(rest[:size], "<f4").reshape(output["shape"])
            rest = rest[size:]
        return head["parameters"]["classes"], found

    def _json(self, method: str, path: str, *, repeatable: bool = False, **body: Any) -> Any:
        return self._sent(method, path, repeatable=repeatable, **body).json()

    def _sent(self, method: str, path: str, *, repeatable: bool = False, **body: Any) -> httpx.Response:
        """`repeatable`: it may be sent again although it may have arrived."""
        repeatable = repeatable or method == "GET"
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                response = self._http.request(method, path, **body)
            except httpx.TransportError as error:
                arrived = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                if last or isinstance(error, httpx.UnsupportedProtocol) or (arrived and not repeatable):
                    why = str(error) or type(error).__name__
                    raise ServiceError(f"{self._http.base_url} does not answer: {why}") from error
                _pause(attempt)
                continue
            if response.status_code in (429, 503) and "retry-after" in response.headers and not last:
                _pause(attempt, response.headers["retry-after"])
                continue
            if response.is_success:
                return response
            raise _error(response, path)
        raise AssertionError("the last attempt returns or raises")


def _pause(attempt: int, wanted: str = "") -> None:
    """Longer each time, and not all at once with others."""
    usual = min(LONGEST_PAUSE, 0.1 * 2**attempt)
    time.sleep(random.uniform(0.5, 1) * (min(LONGEST_PAUSE, float(wanted)) if wanted.isdecimal() else usual))


def _error(response: httpx.Response, path: str) -> Exception:
    try:
        why = str(response.json()["error"])
    except (ValueError, LookupError, TypeError):
        why = f"{response.status_code} {response.reason_phrase}"
    if response.status_code in (400, 413, 422):
        return InputError(why)
    if response.status_code == 404 and path in NOT_THERE:
        return NOT_THERE[path](why)
    if response.status_code == 409 and (path.endswith("/infer") or path == "/v1/calibrate"):
        return NothingLearned(why)
    return ServiceError(why, response.status_code)


def _tensor(x: Samples, **more: Any) -> dict[str, Any]:
    """A request with the samples in binary behind its JSON."""
    listed: list[Any] = list(x) if isinstance(x, Sequence) and not isinstance(x, str | bytes) else []
    if listed and all(isinstance(each, PICTURES) for each in listed):
        files = [_file(each) for each in listed]
        content = b"".join(len(file).to_bytes(4, "little") + file for file in files)
        described: dict[str, Any] = {"name": "x", "shape": [len(files)], "datatype": "BYTES"}
    else:
        array = _array(x)
        if array.dtype.kind not in "biuf" or not array.ndim:
            raise BatchError("x must be an array of numbers, or a list of pictures: files, their contents or images")
        kind = ("UINT8", "u1") if array.dtype == np.uint8 else ("FP32", "<f4")
        content = np.ascontiguousarray(array, kind[1]).tobytes()
        described = {"name": "x", "shape": list(array.shape), "datatype": kind[0]}
    described["parameters"] = {"binary_data_size": len(content)}
    head = json.dumps({"inputs": [described], **more}).encode()
    return {"content": head + content, "headers": {HEADER: str(len(head))}}


def _file(picture: bytes | str | Path | Image.Image) -> bytes:
    """Its content."""
    if isinstance(picture, bytes):
        return picture
    content = io.BytesIO()
    try:
        if not isinstance(picture, Image.Image):
            return Path(picture).read_bytes()
        images.rgb(ImageOps.exif_transpose(picture)).save(content, "PNG", compress_level=1)
    except FileNotFoundError:
        raise BatchError(f"x: there is no image file {picture}") from None
    except Exception as error:  # image decoders raise whatever they like
        what = "an image" if isinstance(picture, Image.Image) else picture
        raise BatchError(f"x: {what} cannot be read: {_line(error)}") from None
    return content.getvalue()


def _array(x: Any) -> NDArray[Any]:
    try:
        return np.asarray(x)
    except (ValueError, TypeError, RuntimeError) as error:
        raise BatchError(f"x is not an array: {_line(error)}") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _plain(y: Labels) -> list[Label]:
    """Strings and integers, as JSON has them."""
    if isinstance(y, str | bytes):
        raise LabelError(f"y must be a sequence of labels, not {type(y).__name__}; the label of one sample is [label]")
    plain: list[Any] = [label.item() if isinstance(label, np.generic) else label for label in y]
    for label in plain:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise InputError(f"over HTTP a label is a string or an integer, not {label!r}")
    return plain
