"""Other tools that show runs while they are under way, each through its own client."""

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import util
from pathlib import Path
from types import TracebackType

from holdfast.errors import InputError, UnknownName
from holdfast.loggers.base import Logger, Tool
from holdfast.loggers.mlflow import MLflow
from holdfast.loggers.tensorboard import TensorBoard
from holdfast.loggers.wandb import WandB
from holdfast.runs.spec import RunSpec
from holdfast.runs.worker import Advanced, Event, Failed, Finished, Started

TOOLS: dict[str, type[Tool]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}
LONGEST_REASON = 500

log = logging.getLogger(__name__)


class Loggers:
    """Where else the runs of a sweep are shown.

    A tool that cannot be reached at first stops the command; one that fails later is left out, the runs go on.
    """

    def __init__(self, names: Sequence[str], out: Path, ids: Mapping[RunSpec, str]) -> None:
        for name in names:
            if name not in TOOLS:
                raise UnknownName("--log", name, TOOLS)
            if util.find_spec(name) is None:
                raise InputError(f"--log {name} needs {name}: pip install 'holdfast[{name}]'")
        self._names, self._out, self._ids = names, out, ids
        self._tools: dict[str, Tool] = {}
        self._open: dict[tuple[str, RunSpec], Logger] = {}

    def __enter__(self) -> "Loggers":
        for name in dict.fromkeys(self._names):
            try:
                self._tools[name] = TOOLS[name](self._out)
            except Exception as error:
                raise InputError(f"--log {name}: {_in_one_line(error)}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        while self._open:
            self._do(*next(iter(self._open)), lambda logger: logger.stop(), last=True)

    def show(self, event: Event) -> None:
        spec = event.spec
        match event:
            case Started():
                self._each(spec, lambda logger: None)
            case Advanced(anytime=anytime):
                self._each(spec, lambda logger: logger.advance(anytime))
            case Finished(record=record):
                self._each(spec, lambda logger: logger.finish(record), last=True)
            case Failed(why=why):
                reason = why.strip().splitlines()[-1][:LONGEST_REASON]
                self._each(spec, lambda logger: logger.fail(reason), last=True)

    def _each(self, spec: RunSpec, act: Callable[[Logger], None], last: bool = False) -> None:
        for name in list(self._tools):
            self._do(name, spec, act, last)

    def _do(self, name: str, spec: RunSpec, act: Callable[[Logger], None], last: bool) -> None:
        try:
            if (name, spec) not in self._open:
                self._open[name, spec] = self._tools[name].start(spec, self._ids[spec])
            act(self._open[name, spec])
        except Exception as error:
            log.warning("--log %s is left out from here on: %s", name, _in_one_line(error))
            del self._tools[name]
            self._open = {key: logger for key, logger in self._open.items() if key[0] != name}
        if last:
            self._open.pop((name, spec), None)


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
