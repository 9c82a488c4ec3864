"""What its user may do to the folder of a learner while it is open."""

import os
import random
import shutil
import signal
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, closing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest.mock import patch

import holdfast
from holdfast import ERACE, Learner, mlp
from holdfast.durable import DurableLearner
from holdfast.errors import InUse, WriteError
from holdfast.storage import locks
from reliability import durable_learner, spaces
from reliability.outcome import counted

MOST = 12  # acts in a row


@dataclass
class Scenario:
    """A learner that is open, and where its folder has come to since."""

    top: Path
    opened_at: Path
    learner: DurableLearner
    folder: Path | None  # where it is now; None if it is gone
    names: list[Path]  # that have led to it
    strangers: dict[str, object] = field(default_factory=dict)  # files of others in it
    outside: dict[Path, object] = field(default_factory=dict)  # and elsewhere
    mounts: list[Path] = field(default_factory=list)
    observed: int = 0

    def new_name(self, what: str) -> Path:
        """Of a folder above it that does not exist yet."""
        return self.top / f"{what} {len(list(self.top.iterdir()))}"

    def watch(self, folder: Path) -> None:
        """What is there from now on stays as it is."""
        self.outside |= {path: look_of(path) for path in [folder, *folder.rglob("*")]}

    def leads_to_it(self, name: Path) -> bool:
        with suppress(OSError):
            return self.folder is not None and os.path.samefile(name, self.folder)
        return False

    def flaw(self) -> str | None:
        """What is wrong with the lock, with learning once more, or with the files of others."""
        for name in [name for name in self.names if self.leads_to_it(name)][-1:]:
            if not is_refused(name):
                return f"a second one was opened through {name.relative_to(self.top)}"
        before = self.learner.state_hash()
        try:
            self.learner.observe(*durable_learner.batch(self.observed))
            self.observed += 1
            if not self.leads_to_it(self.opened_at):
                return "it learned in a folder that is not there any more"
        except WriteError as error:
            if self.leads_to_it(self.opened_at):
                return f"it did not learn any more: {error}"
            if self.learner.state_hash() != before:
                return "it refused a batch, but changed"
        return self._flaw_of_files()

    def flaw_at_the_end(self) -> str | None:
        try:
            self.learner.close()
            if not self.leads_to_it(self.opened_at):
                return "it was closed as if nothing had happened"
        except WriteError as error:
            if self.leads_to_it(self.opened_at):
                return f"it could not be closed: {error}"
        if (flaw := self._flaw_of_files()) or self.folder is None:
            return flaw
        with closing(opened(self.folder)) as again:
            if again.state_hash() != right_after(self.observed):
                return "opened again, it is another one"
        return self._flaw_of_files()

    def _flaw_of_files(self) -> str | None:
        there = {self.folder / name: look for name, look in self.strangers.items()} if self.folder else {}
        changed = [path for path, look in (there | self.outside).items() if look_of(path) != look]
        return f"a file of others was touched: {changed[0].relative_to(self.top)}" if changed else None


def look_of(path: Path) -> object:
    """What others would see of a file, or of which files are in a folder."""
    try:
        mode = stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        return None
    if stat.S_ISREG(mode):
        return mode, path.read_bytes()
    return mode, sorted(os.listdir(path)) if stat.S_ISDIR(mode) else os.readlink(path) if stat.S_ISLNK(mode) else ""


def opened(folder: Path) -> DurableLearner:
    return holdfast.open(folder, mlp((3,), width=4), ERACE(), memory=5, pending=3, checkpoint_every=3)


def is_refused(folder: Path) -> bool:
    without_waiting = SimpleNamespace(sleep=lambda seconds: None)  # for a holder that may be about to say who it is
    try:
        with patch.object(locks, "time", without_waiting):
            opened(folder).close()
    except InUse:
        return True
    return False


@cache
def right_after(batches: int) -> str:
    """The state of a learner that nobody has disturbed."""
    learner = Learner(mlp((3,), width=4), ERACE(), memory=5, pending=3)
    for number in range(batches):
        learner.observe(*durable_learner.batch(number))
    return learner.state_hash()


def copied(scenario: Scenario) -> None:
    if scenario.folder:
        copy = scenario.new_name("copy")
        with suppress(shutil.Error):  # pipes cannot be copied
            shutil.copytree(scenario.folder, copy, symlinks=True)
        scenario.watch(copy)


def read(scenario: Scenario) -> None:
    for file in scenario.folder.iterdir() if scenario.folder else ():
        if file.is_file():
            file.read_bytes()


def lock_removed(scenario: Scenario) -> None:
    if scenario.folder:
        (scenario.folder / "lock").unlink(missing_ok=True)
        scenario.strangers.pop("lock", None)


def lock_of_another(scenario: Scenario) -> None:
    if scenario.folder:
        (scenario.folder / "lock").write_bytes(b"a file of mine")
        scenario.strangers["lock"] = look_of(scenario.folder / "lock")


def own_file_removed(scenario: Scenario) -> None:
    if scenario.folder:
        file = random.Random(scenario.observed).choice(["learner", "log"])
        for own in scenario.folder.glob("learner" if file == "learner" else "log.?"):
            if own.name not in scenario.strangers:
                own.unlink()


def strangers(scenario: Scenario) -> None:
    if scenario.folder:
        for name in ("log.900", "log.2024", "log.txt", "log.01x", ".learner.keep", ".learner", "learner.bak", "notes"):
            (scenario.folder / name).write_bytes(f"my {name}".encode())
        for name in ("log.901", ".learner.0123456789abcdef", "runs"):
            (scenario.folder / name).mkdir(exist_ok=True)
        for name, make in (("log.902", os.mkfifo), ("log.903", lambda path: path.symlink_to("/dev/zero"))):
            if not os.path.lexists(scenario.folder / name):
                make(scenario.folder / name)
        ours = {"learner", "lock"}
        found = {path.name: look_of(path) for path in scenario.folder.iterdir() if path.name not in ours}
        scenario.strangers |= {name: look for name, look in found.items() if not name[4:].isdigit() or len(name) > 6}


def linked(scenario: Scenario) -> None:
    if scenario.folder:
        name = scenario.new_name("link")
        name.symlink_to(scenario.folder)
        scenario.names.append(name)


def parent_linked(scenario: Scenario) -> None:
    if scenario.folder:
        name = scenario.new_name("link")
        name.symlink_to(scenario.folder.parent)
        scenario.names.append(name / scenario.folder.name)


def files_linked(scenario: Scenario) -> None:
    """A second name for its checkpoint, which stays what it is: it is replaced, not written to."""
    if scenario.folder and (scenario.folder / "learner").exists():
        name = scenario.new_name("checkpoint")
        os.link(scenario.folder / "learner", name)
        scenario.outside[name] = look_of(name)


def directory_changed(scenario: Scenario) -> None:
    """To one that has a learner where the first was opened, seen from there."""
    place = scenario.new_name("place")
    there = place / scenario.opened_at.relative_to(scenario.top)
    opened(there).close()
    scenario.watch(there)
    os.chdir(place)


def forked(scenario: Scenario) -> None:
    """The child is refused, and takes the lock not with it when it ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads are not there in the child, nor needed
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            scenario.learner.observe(*durable_learner.batch(50))
        except WriteError:
            scenario.learner.close()
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise AssertionError("a child that was forked learned, too")


def moved(scenario: Scenario) -> None:
    if scenario.folder:
        name = scenario.new_name("moved")
        scenario.folder.rename(name)
        scenario.names.append(name)
        scenario.folder = name


def moved_and_put_back(scenario: Scenario) -> None:
    if scenario.folder and scenario.folder.parent == scenario.opened_at.parent:
        name = scenario.folder.rename(scenario.new_name("for a moment"))
        name.rename(scenario.folder)


def parent_moved(scenario: Scenario) -> None:
    if scenario.folder and scenario.folder.parent != scenario.top:
        name = scenario.new_name("parent")
        scenario.folder.parent.rename(name)
        scenario.folder = name / scenario.folder.name
        scenario.names.append(scenario.folder)


def removed(scenario: Scenario) -> None:
    if scenario.folder:
        shutil.rmtree(scenario.folder)
        scenario.folder = None


def replaced(scenario: Scenario) -> None:
    """By an empty one or a copy."""
    if scenario.folder and scenario.leads_to_it(scenario.opened_at):
        moved(scenario)
        scenario.opened_at.parent.mkdir(exist_ok=True)
        if scenario.observed % 2:
            scenario.opened_at.mkdir()
        else:
            shutil.copytree(scenario.folder, scenario.opened_at, ignore=lambda *_: {"log.902", "log.903"})
        scenario.watch(scenario.opened_at)


def tried_elsewhere(scenario: Scenario) -> None:
    """By another process."""
    for name in filter(scenario.leads_to_it, scenario.names[:1]):
        process = spaces.context().Process(target=_exit_if_refused, args=(name,))
        process.start()
        process.join()
        if process.exitcode != 0:
            raise AssertionError("another process has opened it")


def _exit_if_refused(folder: Path) -> None:
    os._exit(0 if is_refused(folder) else 1)


def bound(scenario: Scenario) -> None:
    if scenario.folder:
        scenario.names.append(bound_to(scenario.folder, scenario))


def parent_bound(scenario: Scenario) -> None:
    if scenario.folder and scenario.folder.parent != scenario.top:
        scenario.names.append(bound_to(scenario.folder.parent, scenario) / scenario.folder.name)


def bound_to(folder: Path, scenario: Scenario) -> Path:
    name = scenario.new_name("bound")
    name.mkdir()
    spaces.mount(folder, name, spaces.BIND)
    scenario.mounts.append(name)
    return name


def mounted_over(scenario: Scenario) -> None:
    """With something else, in which nothing is written."""
    if scenario.folder and scenario.leads_to_it(scenario.opened_at):
        spaces.mount(None, scenario.folder, kind="tmpfs")
        flaw = None if _refuses(scenario) and not list(scenario.folder.iterdir()) else "it learned under another mount"
        spaces.unmount(scenario.folder)
        if flaw:
            raise AssertionError(flaw)


def _refuses(scenario: Scenario) -> bool:
    try:
        scenario.learner.observe(*durable_learner.batch(50))
    except WriteError:
        return True
    return False


Act = Callable[[Scenario], None]
HARMLESS: list[Act] = [
    *(copied, read, lock_removed, lock_of_another, own_file_removed, strangers, linked, parent_linked),
    *(files_linked, directory_changed, forked, moved_and_put_back, tried_elsewhere),
]
FATAL: list[Act] = [moved, parent_moved, removed, replaced]
MOUNTS: list[Act] = [bound, parent_bound, mounted_over]
WAYS = ("absolute", "relative", "linked")


def begun(top: Path, way: str) -> Scenario:
    durable_files = top / "parent" / "home"
    durable_files.parent.mkdir()
    path = durable_files
    if way == "relative":
        os.chdir(top)
        path = Path("parent/home")
    if way == "linked":
        (top / "link").symlink_to(durable_files.parent)
        path = top / "link" / "home"
    return Scenario(top, top / path, opened(path), durable_files, [durable_files])


def walk(acts: list[Act], way: str) -> Iterator[str | None]:
    """One after the other, each followed by a look at all that has to hold."""
    with TemporaryDirectory() as name, chdir(name):
        scenario = begun(Path(name), way)
        done = way
        for act in acts:
            done += f", {act.__name__}"
            try:
                act(scenario)
                flaw = scenario.flaw()
            except Exception as error:
                flaw = f"{type(error).__name__}: {error}"
            yield f"{done}: {flaw}" if flaw else None
        flaw = scenario.flaw_at_the_end()
        for folder in reversed(scenario.mounts):
            spaces.unmount(folder)
        yield f"{done}, closed: {flaw}" if flaw else None


def walks(number: int, acts: Mapping[str, list[Act]], seed: str) -> Iterator[str | None]:
    """Some acts once, then many at random: harmless ones, and one or two at the end that nothing survives."""
    every = [[act] for act in acts["each"]]
    rng = random.Random(seed)
    for _ in range(number):
        some = rng.choices(acts["harmless"], k=rng.randint(1, MOST))
        every.append([*some, *rng.choices(acts["fatal"], k=rng.randint(0, 2))])
    for count, some in enumerate(every):
        yield from walk(some, WAYS[count % len(WAYS)])


@counted
def folders_handled(effort: int) -> Iterator[str | None]:
    """Whatever is done, the lock holds or the learner refuses, and no file of others is touched."""
    yield from walks(2 * effort**2, {"each": HARMLESS + FATAL, "harmless": HARMLESS, "fatal": FATAL}, f"{effort}")


@counted
def folders_mounted(effort: int) -> Iterator[str | None]:
    """The same with mounts, where they are allowed."""
    harmless = [act for act in HARMLESS if act is not tried_elsewhere] + MOUNTS
    acts = {"each": MOUNTS, "harmless": harmless, "fatal": FATAL}
    yield from spaces.apart(walks, 2 * effort, acts, f"{effort} mounted")
