"""Pictures. A method has one colour everywhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.report.tables import by_title
from holdfast.runs.records import Record

COLOURS = {
    "er": "#7f7f7f",
    "er-ace": "#d1495b",
    "er-aml": "#2e6f95",
    "fine-tuning": "#b5a642",
    "iid": "#3a9d5d",
    "iid++": "#1f6f43",
}
OTHER_COLOURS = ["#8e5ea2", "#e08e45", "#17a2b8", "#5d4037", "#c2185b", "#607d8b"]
STYLES = ["-", "--", ":", "-."]


def anytime(records: Sequence[Record], path: Path) -> None:
    """Anytime accuracy along the stream, mean ± standard error over seeds, tasks shaded."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    _shade_tasks(axes, max(records, key=lambda record: len(record["task_ends"]))["task_ends"])
    used: dict[str, int] = {}
    for title, group in by_title(records).items():
        steps = [e["step"] for e in group[0]["evaluations"]]
        curves = np.array([[100 * e["aa"] for e in record["evaluations"]] for record in group])
        mean = curves.mean(0)
        method = group[0]["method"]
        colour = COLOURS.get(method) or OTHER_COLOURS[len(used) % len(OTHER_COLOURS)]
        style = STYLES[used.get(method, 0) % len(STYLES)]
        used[method] = used.get(method, 0) + 1
        axes.plot(steps, mean, style, color=colour, label=f"{title}  {mean[-1]:.1f}", linewidth=1.6)
        if len(curves) > 1:
            error = curves.std(0, ddof=1) / np.sqrt(len(curves))
            axes.fill_between(steps, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="updates", ylabel="accuracy on the tasks seen so far, %", ylim=(0, 100), xlim=(0, None))
    axes.margins(x=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(title="final accuracy, %", frameon=False, loc="lower left", fontsize=9, title_fontsize=9)
    first = records[0]
    seeds = len({record["seed"] for record in records})
    axes.set_title(f"{first['stream']}, {first['memory']} samples a class in memory, {seeds} seeds", fontsize=10)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def _shade_tasks(axes: Any, ends: Sequence[int]) -> None:
    for task, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if task % 2 == 1:
            axes.axvspan(start, end, color="0.94", linewidth=0, zorder=0)
