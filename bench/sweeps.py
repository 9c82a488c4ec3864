"""Many runs: how well they share two cores, what machinery and snapshots cost, how fast thousands are listed."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.ratio import Ratio, ratio, seconds
from holdfast.runs.backends.local import Local
from holdfast.runs.backends.ray import Cluster
from holdfast.runs.grid import grid
from holdfast.runs.plan import plan
from holdfast.runs.run import Run
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from holdfast.runs.sweep import Backend, Sweep
from holdfast.storage import files
from holdfast.streams import source

UPDATES = 300
ROUNDS = 5
MANY = 10_000
SECONDS_BETWEEN_SNAPSHOTS = 60


def bench() -> Iterator[Ratio]:
    with TemporaryDirectory() as name:
        yield from _side_by_side(Path(name))
        yield _snapshots(Path(name))
        yield from _thousands(Path(name))


def _side_by_side(folder: Path) -> list[Ratio]:
    """In turns with bare loops, which tell how much two processes of this machine disturb each other anyway."""
    specs = grid(stream=_images(folder), method="er-ace", memory=20, eval="rotating:30", seeds=2)
    inside: dict[str, list[float]] = {"local": [], "Ray": []}  # what the runs themselves took: no cluster is started
    times = seconds(
        {
            "one by one": lambda: _sweep(folder, specs, lambda sweep: Local(folder, 1)),
            "side by side": lambda: inside["local"].append(_sweep(folder, specs, lambda sweep: Local(folder, 2))),
            "on Ray": lambda: inside["Ray"].append(
                _sweep(folder, specs, lambda sweep: Cluster(sweep.sources, sweep.ids, jobs=2))
            ),
            "bare one by one": lambda: _bare_loops(2, at_a_time=1),
            "bare side by side": lambda: _bare_loops(2, at_a_time=2),
        },
        rounds=ROUNDS,
        warm_up=1,
    )
    ours, bare = (
        ratio(times, "one by one", "side by side") / 2,
        ratio(times, "bare one by one", "bare side by side") / 2,
    )
    return [
        Ratio("two runs one by one / side by side, a core each", ours, 0.95, at_least=True),
        Ratio("the same, as a share of what bare loops reach", ours / bare, 0.95, at_least=True),
        Ratio("a run on a local process / on Ray", ratio(inside, "local", "Ray"), 0.95, at_least=True),
    ]


def _bare_loops(count: int, at_a_time: int) -> None:
    command = [sys.executable, "-m", "bench.update", str(UPDATES)]
    for _ in range(count // at_a_time):
        for loop in [subprocess.Popen(command) for _ in range(at_a_time)]:
            assert loop.wait() == 0


def _snapshots(folder: Path) -> Ratio:
    spec = RunSpec(stream=_images(folder), method="er-ace", memory=100)
    run = Run(plan(spec, source(spec.stream, folder)))
    for _ in range(110):
        run.advance()
    start = time.perf_counter()
    files.write(folder / "snapshot", run.snapshot())
    return Ratio("snapshots, share of a run's time", (time.perf_counter() - start) / SECONDS_BETWEEN_SNAPSHOTS, 0.01)


def _thousands(folder: Path) -> list[Ratio]:
    store = Store(folder / "many" / "runs.sqlite")
    start = time.perf_counter()
    store.open()
    Sweep(grid(stream=_tiny(folder), method="fine-tuning", memory=0, seeds=MANY), store, folder).run(Local(folder, 2))
    scheduling = time.perf_counter() - start
    start = time.perf_counter()
    command = [sys.executable, "-m", "holdfast", "runs", "list", "--out", str(folder / "many")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    listing = time.perf_counter() - start
    assert lines[-1] == f"{MANY} runs"
    return [
        Ratio(f"{MANY:,} runs of one update, seconds", scheduling, 60),
        Ratio(f"holdfast runs list of {MANY:,}, seconds", listing, 1),
    ]


def _tiny(folder: Path) -> str:
    rng, y = np.random.default_rng(0), np.repeat([0, 1], 10)
    x = rng.standard_normal((20, 4)).astype(np.float32)
    np.savez(folder / "tiny.npz", train_x=x, train_y=y, test_x=x, test_y=y)
    return f"arrays:{folder / 'tiny.npz'}:tasks=1,batch=20"


def _images(folder: Path) -> str:
    file = folder / "images.npz"
    if not file.exists():
        rng, y = np.random.default_rng(0), np.repeat(np.arange(10), UPDATES)
        x = rng.integers(0, 256, (10 * UPDATES, 3, 32, 32), np.uint8)
        np.savez(file, train_x=x, train_y=y, test_x=x[::10], test_y=y[::10])
    return f"arrays:{file}"


def _sweep(folder: Path, specs: list[RunSpec], backend: Callable[[Sweep], Backend]) -> float:
    """The seconds that the runs say they took."""
    with TemporaryDirectory(dir=folder) as out:
        store = Store(Path(out) / "runs.sqlite")
        store.open()
        sweep = Sweep(specs, store, folder)
        sweep.run(backend(sweep))
        assert len(sweep.done()) == len(specs)
        return sum(float(store.record(row["id"])["seconds"]) for row in store.rows())
