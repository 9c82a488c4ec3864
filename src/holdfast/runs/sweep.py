"""Many runs: what is in the store is not repeated, what was begun goes on, what fails does not stop the others."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from holdfast import machine
from holdfast.runs.baselines import Baselines, Setting, baselines, setting_of
from holdfast.runs.plan import Nets, plan
from holdfast.runs.spec import RunSpec, code_hash, command
from holdfast.runs.store import Record, Store
from holdfast.runs.suitability import warnings_of
from holdfast.runs.worker import Died, Event, Failed, Finished, Job, Saved
from holdfast.storage import files
from holdfast.storage.locks import NameLocks
from holdfast.streams import Source, source

MOST_DEATHS = 5  # how often a run's worker may die without a new snapshot in between
Show = Callable[[Event], None]


class Backend(Protocol):
    """Where runs are done. It knows nothing of stores, snapshots or what to do when a worker dies."""

    @property
    def room(self) -> int:
        """How many more runs can be started."""

    def start(self, job: Job) -> None: ...

    def events(self) -> list[Event]:
        """What has happened; waits until something has."""

    def stop(self) -> list[Event]:
        """Ends everything; the last events of the runs under way."""


def begun(store: Store) -> set[str]:
    """The ids of runs that have a snapshot to go on from."""
    folder = snapshots_of(store)
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def snapshots_of(store: Store) -> Path:
    return store.file.with_suffix(".snapshots")


class Sweep:
    """The runs of a command and where they stand."""

    def __init__(
        self,
        specs: Iterable[RunSpec],
        store: Store,
        root: Path,
        *,
        snapshot_every: float = 60,
        keep_learners: bool = False,
        precision: str | None = None,
        sources: Mapping[str, Source] = MappingProxyType({}),
        nets: Nets = MappingProxyType({}),
    ) -> None:
        """`sources` and `nets` are what specs name beside what everybody can read or make."""
        specs = list(specs)
        self.store = store
        streams = {spec.stream for spec in specs}
        self.sources: dict[str, Source] = {text: sources.get(text) or source(text, root) for text in streams}
        plans = [plan(spec, self.sources[spec.stream], nets) for spec in specs]
        by_id = {each.run_id: each.spec for each in reversed(plans)}
        self.ids = {spec: run for run, spec in reversed(by_id.items())}  # the same run written twice is one run
        self.warnings = warnings_of(plans)
        self.stopped = False
        self._precision = precision
        self._job = partial(Job, snapshot_every=snapshot_every, keep_learner=keep_learners, precision=precision)
        self._snapshots = snapshots_of(store)
        self._baselines: dict[Setting, Baselines] = {}

    def done(self) -> list[RunSpec]:
        return self._with("done")

    def failed(self) -> list[RunSpec]:
        return self._with("failed")

    def failures(self) -> Mapping[str, int]:
        """How many runs of each method failed, by title."""
        return Counter(spec.title for spec in self.failed())

    def missing(self) -> list[RunSpec]:
        return self._with(None)

    def rows(self) -> list[Record]:
        """Records without their evaluations, of the runs that are done. The same data may have been made under another
        name; here it has that by which it was asked for."""
        return [{**row, "stream": spec.stream} for spec, row in self._rows().items()]

    def records(self) -> list[Record]:
        return [{**self.store.record(self.ids[spec]), "stream": spec.stream} for spec in self.done()]

    def baselines(self) -> Mapping[Setting, Baselines]:
        """What the simplest answers are worth where these runs were done; computed when first asked for."""
        for setting in dict.fromkeys(map(setting_of, self.done())):
            if setting not in self._baselines:
                self._baselines[setting] = baselines(
                    self.sources[setting.stream], setting.memory, standardise=setting.standardise
                )
        return self._baselines

    def differences(self) -> list[str]:
        """In what records that are there differ from those that would be made here and now."""
        rows = self._rows()
        made = self._made().values()
        asked = None if self._precision in (None, "auto") else self._precision
        counts = {
            "by another version of the code": sum(row["code"] != code_hash(s.method) for s, row in rows.items()),
            "under other conditions (processor, torch, threads)": self.made_elsewhere(),
            f"not in {asked}": sum(each["precision"] not in (None, asked) for each in made) if asked else 0,
        }
        return [f"{count} of them {what}" for what, count in counts.items() if count]

    def made_elsewhere(self) -> int:
        """How many records were not made here alone, under the conditions that are here now."""
        made = self._made().values()
        here = machine.conditions(threads=1) if made else {}  # as runs have it
        return sum(_elsewhere(each, here) for each in made)

    def to_do(self, repeat: Collection[RunSpec] = ()) -> list[RunSpec]:
        """What is missing, and what is to be repeated."""
        asked = {*self.missing(), *repeat}
        return [spec for spec in self.ids if spec in asked]

    def run(self, backend: Backend, show: Show = lambda event: None, repeat: Collection[RunSpec] = ()) -> None:
        """Does what is missing and repeats what is asked for. Ctrl-C stops it; nothing that was done is lost."""
        with NameLocks(self.store.file.with_suffix(".claims")) as locks, self.store.kept_open():
            locks.take({self.ids[spec]: f"{spec.title} seed {spec.seed}" for spec in self.to_do(repeat)})
            try:
                for spec in repeat:  # not before they are locked: another command may be at them
                    self._snapshot(spec).unlink(missing_ok=True)
                self._run_all(self.to_do(repeat), backend, show)
            except KeyboardInterrupt:
                self.stopped = True
            finally:
                last = backend.stop()
                self._note(last)
                for event in last:
                    if isinstance(event, Finished | Failed):
                        show(event)

    def _run_all(self, missing: Sequence[RunSpec], backend: Backend, show: Show) -> None:
        waiting, running, deaths = deque(missing), set[RunSpec](), Counter[RunSpec]()

        def start() -> None:
            while waiting and backend.room > 0:
                spec = waiting.popleft()
                running.add(spec)
                backend.start(self._job(spec, self._saved(spec)))

        start()
        while running:
            happened: list[Event] = []
            for event in backend.events():
                spec = event.spec
                if isinstance(event, Saved):
                    deaths.pop(spec, None)
                if isinstance(event, Finished | Failed | Died):
                    running.discard(spec)
                if isinstance(event, Died):
                    deaths[spec] += 1
                    if deaths[spec] < MOST_DEATHS:
                        waiting.appendleft(spec)
                    else:
                        event = Failed(spec, f"its worker died {MOST_DEATHS} times, at last because {event.why}")  # noqa: PLW2901
                happened.append(event)
            start()  # before records are written, so that nobody waits for the disk
            self._note(happened)
            for event in happened:
                show(event)

    def _note(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Saved):
                files.make_folder(self._snapshots)
                files.write(self._snapshot(event.spec), event.snapshot)
        ended = [event for event in events if isinstance(event, Finished | Failed)]
        if ended:
            with self.store.together():
                for event in ended:
                    self._keep(event)
        for event in ended:
            if isinstance(event, Finished):
                self._snapshot(event.spec).unlink(missing_ok=True)

    def _keep(self, event: Finished | Failed) -> None:
        run, spec = self.ids[event.spec], event.spec
        if isinstance(event, Finished):
            self.store.keep(run, {**event.record, "command": command()}, artifacts=event.artifacts)
        else:
            record = {**spec.as_json(), "title": spec.title, "code": code_hash(spec.method)}
            self.store.keep(run, record, status="failed", why=event.why)

    def _rows(self) -> dict[RunSpec, Record]:
        rows = {row["id"]: row for row in self.store.rows()}
        return {spec: rows[self.ids[spec]] for spec in self.done()}

    def _made(self) -> dict[str, Record]:
        return self.store.made([self.ids[spec] for spec in self.done()])

    def _with(self, status: str | None) -> list[RunSpec]:
        found = self.store.status(self.ids.values())
        return [spec for spec in self.ids if found.get(self.ids[spec]) == status]

    def _snapshot(self, spec: RunSpec) -> Path:
        return self._snapshots / self.ids[spec]

    def _saved(self, spec: RunSpec) -> bytes | None:
        try:
            return self._snapshot(spec).read_bytes()
        except FileNotFoundError:
            return None


def _elsewhere(made: Record, here: dict[str, Any]) -> bool:
    """Runs have one thread, whatever this process has."""
    there = made["environment"]
    return bool(there.get("elsewhere") or machine.differences(here | {"device": there.get("device")}, there))
