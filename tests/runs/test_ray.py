"""The Ray backend on a real cluster of two nodes, bound to loopback only."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # makes Ray stay on loopback, also on Linux
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster as Nodes

from holdfast.commands.main import main
from holdfast.errors import InputError
from holdfast.runs.backends.ray import Cluster
from holdfast.runs.grid import grid
from holdfast.runs.run import run
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Store
from holdfast.runs.sweep import Sweep
from holdfast.runs.worker import Advanced, Event, Started
from tests.pages import DOCS, blocks

pytestmark = pytest.mark.slow

Same = Callable[[dict[str, Any]], dict[str, Any]]
NODE: dict[str, Any] = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 100 << 20}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    cluster = Nodes(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    cluster.add_node(**NODE)
    yield cluster
    cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_records(sweep: Sweep, root: Path, same: Same) -> None:
    """Every run is there once, as a single run on this machine gives it."""
    assert len(sweep.store.rows()) == len(sweep.ids) == len(sweep.done())
    for spec, record in zip(sweep.done(), sweep.records(), strict=True):
        kept = {key: value for key, value in record.items() if key not in ("id", "status", "why", "finished")}
        assert same(kept) == same(run(spec, root))


ONCE = """
import os, signal
from pathlib import Path
from holdfast import ERACE

class DiesOnce(ERACE):
    def loss(self, net, new, old=None):
        died = Path("{folder}/died")
        if old is not None and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(net, new, old)
"""


def test_a_sweep_gives_the_records_of_single_runs(
    nodes: Nodes, npz: str, folder: Path, store: Store, same: Same
) -> None:
    Path("methods").mkdir()
    Path("methods/own.py").write_text(ONCE.format(folder=folder))
    specs = grid(stream=npz, method=["er", "methods/own.py:DiesOnce", "er-aml"], seeds=2)
    sweep = Sweep(specs, store, folder)
    sweep.run(Cluster(sweep.sources, sweep.ids, nodes.address))
    assert (folder / "died").exists(), "a worker was killed"
    check_records(sweep, folder, same)


def test_from_the_command_line(nodes: Nodes, npz: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "--stream", npz, "--method", "er", "--seeds", "2", "--out", "out", "--data", str(folder)]
    assert main([*command, "--backend", "ray", "--address", nodes.address, "--cpus-per-run", "0.5"]) == 0
    assert "2 seeds" in capsys.readouterr().out
    assert len(Store(Path("out/runs.sqlite")).rows()) == 2


def test_the_page_on_it(nodes: Nodes, folder: Path) -> None:
    """On this cluster instead of one that is started for it."""
    (grid,) = blocks(DOCS / "ray.md", "toml")
    (folder / "grid.toml").write_text(grid.text)
    (words,) = [words for block in blocks(DOCS / "ray.md", "sh") if block.is_run for words in block.commands]
    assert main([*words[1:], "--address", nodes.address]) == 0
    rows = Store(Path("holdfast-runs/runs.sqlite")).rows()
    assert sorted(row["method"] for row in rows) == ["er", "er-ace"] and all(row["status"] == "done" for row in rows)


def test_a_node_may_die_in_the_middle(nodes: Nodes, slow: RunSpec, tmp_path: Path, store: Store, same: Same) -> None:
    started: list[RunSpec] = []
    victim = next(iter(nodes.worker_nodes))

    def kill_a_node(event: Event) -> None:
        if isinstance(event, Started):
            started.append(event.spec)
        if isinstance(event, Advanced) and len(started) >= 2 and victim in nodes.worker_nodes:
            nodes.remove_node(victim, allow_graceful=False)

    specs = [replace(slow, seed=seed) for seed in range(3)]
    sweep = Sweep(specs, store, tmp_path, snapshot_every=0.2)
    sweep.run(Cluster(sweep.sources, sweep.ids, nodes.address), kill_a_node)
    assert not nodes.worker_nodes
    assert len(started) > len(specs), "the run on that node was started again"
    check_records(sweep, tmp_path, same)


def test_where_no_cluster_is_one_is_told_at_once() -> None:
    with pytest.raises(InputError, match="no Ray cluster answers"):
        Cluster({}, [], "127.0.0.1:9")
