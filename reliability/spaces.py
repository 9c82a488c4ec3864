"""Processes with namespaces of their own, as containers have them: mounts, process ids and a host name."""

import ctypes
import multiprocessing
import os
import platform
import socket
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

from reliability.outcome import Skipped

MOUNTS, HOST_NAME, PROCESSES, USERS = 0x20000, 0x4000000, 0x20000000, 0x10000000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18
SECONDS = 120  # after which a process is given up on

Trials = Callable[..., Iterator[str | None]]


def apart(trials: Trials, *args: object) -> Iterator[str | None]:
    """These trials in a process that has its own mounts; skipped where the system does not allow that."""
    ours, theirs = context().Pipe(duplex=False)
    process = context().Process(target=_report, args=(theirs, trials, args), daemon=True)
    process.start()
    theirs.close()
    try:
        if ours.poll(SECONDS):
            yield from ours.recv()
        else:
            yield f"{trials.__name__} took more than {SECONDS} s"
    except EOFError:
        yield f"{trials.__name__} ended its process"
    finally:
        process.kill()
        process.join()
        ours.close()


def context() -> ForkServerContext:
    found = multiprocessing.get_context("forkserver")  # the one that runs have
    found.set_forkserver_preload(["holdfast.runs.worker", "torch._dynamo"])
    return found


def enter(spaces: int, host: str = "") -> None:
    """Leaves the namespaces of this process; a system that does not allow it gives an OSError."""
    if os.geteuid() != 0:
        user, group = os.geteuid(), os.getegid()
        _call("unshare", USERS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _call("unshare", spaces)
    if spaces & MOUNTS:
        mount(None, Path("/"), RECURSIVE | PRIVATE)
    if host:
        socket.sethostname(host)
        vars(platform)["_uname_cache"] = None


def mount(source: Path | None, target: Path, flags: int = 0, kind: str | None = None) -> None:
    text = (None if each is None else os.fsencode(each) for each in (source or kind, target, kind))
    _call("mount", *text, ctypes.c_ulong(flags), None)


def unmount(target: Path) -> None:
    _call("umount", os.fsencode(target))


def _report(messages: Connection, trials: Trials, args: tuple[object, ...]) -> None:
    try:
        enter(MOUNTS)
    except (OSError, AttributeError) as error:
        messages.send([Skipped(f"{trials.__name__}: no mounts of one's own here: {error}")])
        return
    try:
        messages.send(list(trials(*args)))
    except Exception:
        messages.send([traceback.format_exc()])


def _call(name: str, *args: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
