"""Folders of learners that are handled while they are open."""

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from reliability import spaces
from reliability.acts import FATAL, HARMLESS, MOUNTS, Act, tried_elsewhere
from reliability.open_folder import Scenario, opened
from reliability.outcome import counted

MOST = 12  # acts in a row
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
        try:
            flaw = scenario.flaw_at_the_end()
        except Exception as error:
            flaw = f"{type(error).__name__}: {error}"
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
