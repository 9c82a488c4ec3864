"""Where a scenario is repeated from its beginning again and again, with another fault each time."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reliability.disk import Fault, FaultyDisk, crash

State = Any


@dataclass(frozen=True)
class Storage:
    """What is kept in a folder, as its reader finds it."""

    state: Callable[[Path], State]
    go_on: Callable[[Path, State], bool]  # writes once more; whether that is there and all else as it was

    def flaw(self, folder: Path, allowed: list[State]) -> str | None:
        """What is wrong with what is there, or with writing once more."""
        try:
            with FaultyDisk(folder):  # without a fault: it spares the real disk
                found = self.state(folder)
                if found not in allowed:
                    return "another state than may be there"
                if not self.go_on(folder, found):
                    return "the next write is not there, or something else is not any more"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None


@dataclass(frozen=True)
class Scenario:
    what: str
    storage: Storage
    prepare: Callable[[Path], None]
    steps: Callable[[Path], Iterator[State]]  # each is acknowledged when it yields, the state if only it can know it
    may_lose: int = 0  # acknowledged steps, with the power


@dataclass(frozen=True)
class Play:
    disk: FaultyDisk
    acknowledged: int  # steps
    error: Exception | None  # that ended them


class Stage:
    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.folder = folder
        with FaultyDisk(folder):
            scenario.prepare(folder)
            self._beginning = contents(folder)
            self._states = [scenario.storage.state(folder)]
            self._states += [told or scenario.storage.state(folder) for told in scenario.steps(folder)]
        undisturbed = self.play().disk
        self.operations = undisturbed.operations
        self.crashes = [crash(at) for at in range(1, undisturbed.operations + 1)]
        self.crashes += [crash(at, part=0.5) for at in sorted(undisturbed.writes)]

    def play(self, fault: Fault | None = None) -> Play:
        put_back(self.folder, self._beginning)
        acknowledged = 0
        with FaultyDisk(self.folder, fault) as disk:
            try:
                for _ in self.scenario.steps(self.folder):
                    acknowledged += 1
            except Exception as error:
                if not disk.struck:
                    raise
                return Play(disk, acknowledged, error)
        return Play(disk, acknowledged, None)

    def flaw(self, play: Play, may_be_lost: int = 0) -> str | None:
        before_and_after = self._states[max(0, play.acknowledged - may_be_lost) : play.acknowledged + 2]
        return self.scenario.storage.flaw(self.folder, before_and_after)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def put_back(folder: Path, contents: Mapping[Path, bytes]) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
