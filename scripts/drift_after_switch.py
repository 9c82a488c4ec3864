"""How far samples of the first task move in an update, soon after the first switch: runs with `--probe drift`.

    python scripts/drift_after_switch.py STORE [STREAM]

The mean over updates of each range, then mean ± standard error over seeds.
"""

import sys
from collections import defaultdict
from pathlib import Path

from holdfast.report.statistics import with_seeds
from holdfast.reproduction.curves import of_first_task
from holdfast.runs.store import Store

RANGES = ((1, 1), (2, 2), (3, 5), (6, 15), (16, 50))


def main() -> None:
    store, stream = Store(Path(sys.argv[1]) / "runs.sqlite"), sys.argv[2] if len(sys.argv) > 2 else "cifar10"
    runs = defaultdict(list)
    for row in store.rows({"status": "done"}):
        if "drift" in row["probe"] and row["stream"] == stream:
            start = f", first task by {row['start']}" if row["start"] else ""
            runs[row["title"] + start].append(of_first_task(store.record(row["id"]), "drift"))
    print(f"{'updates after the switch':40} " + " ".join(f"{f'{a} to {b}' if b > a else a:>15}" for a, b in RANGES))
    for title, curves in sorted(runs.items()):
        cells = []
        for first, last in RANGES:
            near = [[v for step, v in zip(*curve, strict=True) if first <= step <= last] for curve in curves]
            cells.append(with_seeds([sum(values) / len(values) for values in near], digits=3))
        print(f"{title:40} " + " ".join(f"{cell:>15}" for cell in cells))


if __name__ == "__main__":
    main()
