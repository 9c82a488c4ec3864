"""What its user may do to the folder of a learner while it is open."""

import os
import shutil
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from holdfast.durable import log
from holdfast.errors import WriteError
from reliability import durable_learner, spaces
from reliability.open_folder import Scenario, is_refused, look_of, opened


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
    """Its checkpoint or its log, in turn."""
    if scenario.folder:
        logs = [file for file in scenario.folder.glob("log.*") if log.identity_of(file) is not None]
        for file in logs if scenario.observed % 2 else [scenario.folder / "learner"]:
            file.unlink(missing_ok=True)


def strangers(scenario: Scenario) -> None:
    if scenario.folder:
        for name, make in STRANGERS.items():
            if not os.path.lexists(scenario.folder / name):
                make(scenario.folder / name)
            scenario.strangers[name] = look_of(scenario.folder / name)


def text(path: Path) -> None:
    path.write_text(f"my {path.name}")


def link(path: Path) -> None:
    path.symlink_to("/dev/zero")


STRANGERS: dict[str, Callable[[Path], None]] = {
    **dict.fromkeys(("log.900", "log.2024", "log.txt", "log.01x", ".learner.keep", ".learner", "notes"), text),
    **dict.fromkeys(("log.901", ".learner.0123456789abcdef", "runs"), Path.mkdir),
    "log.902": os.mkfifo,
    "log.903": link,
}


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
