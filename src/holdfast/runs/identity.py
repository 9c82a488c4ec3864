"""Which runs are the same.

With the data at hand, runs are the same if their ids are. Records are found without the data: by what was asked for.
"""

import dataclasses
import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from holdfast import datasets, methods
from holdfast.errors import HoldfastError
from holdfast.methods import Method
from holdfast.methods.options import written
from holdfast.nets import default_net
from holdfast.runs.spec import CHOICES, RunSpec, from_record
from holdfast.runs.store import Record
from holdfast.streams import Source
from holdfast.streams.named import TASKS, parse

USUAL = {"order": "split", "batch": 10.0, "distinct": 2.0, "share": 100.0, "rehearsal": "steady"}
OTHERS = [name for name in CHOICES if name not in ("stream", "method", "start", "net", "seed", "probe")]


def run_id(spec: RunSpec, source: Source, method: Method, net: str) -> str:
    """The same however the spec is written and wherever the data lie.

    What is at its default, or as it was before there was an option, does not count, so an option that is added later
    leaves old runs what they are.
    """
    canonical = {
        **_not_usual(spec, without=("method", "options", "stream", "net", "undecided")),
        "method": methods.identity(spec.method),
        "options": _not_usual(method),
        "stream": source.options,
        "data": source.fingerprint,
        "net": net,
    }
    return hashlib.sha256(json.dumps(canonical, sort_keys=True).encode()).hexdigest()[:16]


def _not_usual(settings: Any, without: tuple[str, ...] = ()) -> Mapping[str, Any]:
    said = written(settings)
    for field in dataclasses.fields(settings):
        is_usual = "before" not in field.metadata and said[field.name] == field.default
        if is_usual or field.name in without:
            del said[field.name]
    return said


class RecordIndex:
    """Records by what was asked for."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records: dict[Hashable, list[Record]] = {}
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        what = kind_of(record)
        if what is not None:
            self._records.setdefault(what, []).append(record)

    def of(self, spec: RunSpec) -> dict[int, Record]:
        """By seed, whatever the spec's is. Those with more probes are as good, but come last: probes change nothing."""
        able = [record for record in self._records.get(kind(spec), []) if set(spec.probe) <= set(record["probe"])]
        return {record["seed"]: record for record in sorted(able, key=lambda r: (r["seed"], -len(r["probe"])))}

    def run(self, spec: RunSpec) -> Record | None:
        return self.of(spec).get(spec.seed)


def kind_of(record: Record) -> Hashable | None:
    """None for records of what this version does not know."""
    try:
        return kind(from_record(record))
    except HoldfastError:
        return None


def kind(spec: RunSpec) -> Hashable:
    """Everything but seed and probes, the same however it is written."""
    stream = parse(spec.stream)
    usual = USUAL | {"tasks": float(TASKS.get(stream.kind, 0))}
    options = {(key, _value(text)) for key, text in stream.options.items()}
    return (
        (stream.kind, stream.path, frozenset(options - set(usual.items()))),
        _method(spec.method, spec.options),
        _method(*methods.parse(spec.start)) if spec.start else None,
        spec.net or _usual_net(spec.method, stream.kind),
        tuple(getattr(spec, name) for name in OTHERS),
    )


def work(spec: RunSpec) -> Hashable:
    """Runs of the same work take the same time."""
    affecting = [name for name, choice in CHOICES.items() if choice.affects]
    return (frozenset(spec.options.items()), *(getattr(spec, name) for name in affecting))


def _method(name: str, options: Mapping[str, str]) -> Hashable:
    """With its defaults filled in; a file of the user's is not executed for this."""
    return (name, frozenset(options.items())) if methods.file_of(name) else methods.make(name, options)


def _usual_net(method: str, stream: str) -> str | None:
    """A file of the user's is not executed for this."""
    if methods.file_of(method) is None and not methods.find(method).learns_by_gradient:
        return "raw"
    return _default_nets().get(stream)


@cache
def _default_nets() -> dict[str, str]:
    return {row.name: default_net(row.sample_shape) for row in datasets.listing(Path())}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
