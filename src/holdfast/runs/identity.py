"""Which records are of which runs, told by what was asked for. Ids tell it, too, but take the datasets to be there."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path

from holdfast import datasets, methods
from holdfast.errors import HoldfastError
from holdfast.nets import default_net
from holdfast.runs.schema import LATER
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Record
from holdfast.streams.named import TASKS, parse

USUAL = {"order": "split", "batch": 10.0, "distinct": 2.0, "share": 100.0, "rehearsal": "steady"}


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
    named = [field.name for field in fields(RunSpec) if field.name != "probe"]
    try:
        return kind(RunSpec(**{name: record[name] for name in named if name in record or name not in LATER}))
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
        spec.net or _default_nets().get(stream.kind),
        (spec.memory, spec.codec, spec.lr, spec.momentum, spec.augment, spec.average, spec.eval_every, spec.eval_mode),
    )


def _method(name: str, options: Mapping[str, str]) -> Hashable:
    """With its defaults filled in; a file of the user's is not executed for this."""
    return (name, frozenset(options.items())) if methods.file_of(name) else methods.make(name, options)


@cache
def _default_nets() -> dict[str, str]:
    return {row.name: default_net(row.sample_shape) for row in datasets.listing(Path())}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
