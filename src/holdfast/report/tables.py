"""The table at the end of a run."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

from holdfast.measure.ledger import Ledger
from holdfast.report.statistics import mean_and_error, show
from holdfast.runs.records import Record
from holdfast.runs.spec import RunSpec


def by_title(records: Sequence[Record]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["title"], []).append(record)
    return groups


def headline(records: Sequence[Record]) -> str:
    seeds = len({record["seed"] for record in records})
    stream, memory = records[0]["stream"], records[0]["memory"]
    return f"{stream}, {memory} samples a class in memory, {seeds} seed{'s' * (seeds > 1)}"


def summary(records: Sequence[Record]) -> Table:
    spread = "mean ± standard error" if len({record["seed"] for record in records}) > 1 else "n = 1"
    told = "; †: is told the task" if any("†" in record["title"] for record in records) else ""
    table = Table(
        title=headline(records),
        caption=f"{spread}; MACs: multiply-adds; MB: parameters and memory{told}",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("method", overflow="fold", min_width=12)
    for column in ("Acc %", "AAA %", "forgetting %", "MACs", "MB", "s"):
        table.add_column(column, justify="right", no_wrap=True)
    for title, group in by_title(records).items():
        table.add_row(
            title,
            *(show([record[key] for record in group]) for key in ("acc", "aaa", "forgetting")),
            _macs(mean_and_error([record["train_macs"] for record in group])[0]),
            f"{mean_and_error([record['memory_bytes'] for record in group])[0] / 1e6:.2f}",
            f"{mean_and_error([record['seconds'] for record in group])[0]:.1f}",
        )
    return table


def costs(spec: RunSpec, ledgers: Mapping[str, Ledger]) -> Table:
    """What runs would compute, by what it is for."""
    table = Table(
        title=f"{spec.stream}, {spec.memory} samples a class in memory, a query every {spec.eval_every} updates",
        caption="multiply-adds; retrieval: forwards that choose or teach; query: getting ready to answer"
        + ("; †: is told the task" if any("†" in title for title in ledgers) else ""),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("method", overflow="fold", min_width=12)
    accounts = ("forward", "backward", "retrieval", "query")
    for column in (*accounts, "total", "MB"):
        table.add_column(column, justify="right", no_wrap=True)
    for title, ledger in ledgers.items():
        parts = [_macs(ledger.macs[account]) for account in accounts]
        table.add_row(title, *parts, _macs(ledger.train_macs), f"{ledger.mean_bytes / 1e6:.2f}")
    return table


def _macs(count: float) -> str:
    return f"{count / 1e12:.2f} T" if count >= 1e12 else f"{count / 1e9:.2f} G"
