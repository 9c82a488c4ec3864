"""The table at the end of a run."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from holdfast.report import classes
from holdfast.report.groups import UNKNOWN_NET, by_setting, by_title, net_of, of_methods
from holdfast.report.live import clock
from holdfast.report.statistics import mean_and_error, show
from holdfast.report.terminal import printable
from holdfast.runs.baselines import Baselines, Setting, setting_of
from holdfast.runs.spec import RunSpec
from holdfast.runs.store import Record

if TYPE_CHECKING:
    from holdfast.measure.ledger import Ledger

BELOW = "↓"
IN_WORDS = {
    "majority class": "always answering the most frequent class",
    "class means": "comparing {} samples with the mean of each class",
    "nearest neighbour": "the nearest of as many {} samples as the memory holds",
}
SHORT = {"majority class": "majority", "nearest neighbour": "neighbour"}  # in a narrow column
Floors = Mapping[Setting, Baselines]
Failures = Mapping[str, int]  # runs, by title


def headline(records: Sequence[Record]) -> str:
    seeds = len({record["seed"] for record in records})
    codecs = {record.get("codec") for record in records}
    memory = memory_of(records[0]["memory"], codecs.pop() if len(codecs) == 1 else None)
    nets = {net_of(record) for record in records}
    net = nets if len(nets) == 1 and nets != {UNKNOWN_NET} else []
    updates = {record.get("updates_per_batch", 1) for record in records}
    several = [f"{each} updates a batch" for each in updates if len(updates) == 1 and each > 1]
    return ", ".join([records[0]["stream"], memory, *net, *several, f"{seeds} seed{'s' * (seeds > 1)}"])


def memory_of(memory: int | str, codec: str | None) -> str:
    """How large a memory is, in words."""
    if isinstance(memory, str):
        return f"{memory} of memory" + (f" as {codec}" if codec else "")
    return f"{memory} samples a class in memory" + (f", their bytes as {codec}" if codec else "")


class Summary(NamedTuple):
    """One row per method; where more than methods and seeds differ, one block per setting, with baselines below."""

    title: str | None
    caption: str
    columns: Sequence[str]
    blocks: Mapping[str, Sequence[tuple[str, list[str]]]]  # by what sets them apart: titles and their figures
    notes: Sequence[str]  # what methods have of their own, advice for those below a baseline, and which runs failed


def summarised(
    records: Sequence[Record], floors: Floors = MappingProxyType({}), failed: Failures = MappingProxyType({})
) -> Summary:
    settings = by_setting(records)
    spread = "mean ± standard error" if len({record["seed"] for record in records}) > 1 else "n = 1"
    told = "; †: is told the task" if any("†" in record["title"] for record in records) else ""
    blocks, own = dict[str, list[tuple[str, list[str]]]](), dict[str, None]()
    below: dict[str, dict[str, None]] = {}  # titles by what is said of them
    for setting, group in settings.items():
        floor = floors.get(setting_of(group[0]))
        rows = blocks[", ".join(setting)] = []
        if of_group := of_methods(group):
            own[of_group] = None
        for title, of_method in by_title(group).items():
            best = floor and floor.above(mean_and_error([record["acc"] for record in of_method])[0])
            rows.append((f"{title} {BELOW}" if best else title, _figures(of_method)))
            if floor and best:
                words = IN_WORDS[best].format(_samples([floor]))
                what = f"worth less than {words}: {floor.advice(of_method[0])}"
                below.setdefault(what, {})[title] = None
        if floor:
            rows += [(f"({SHORT.get(name, name)})", [show([accuracy])]) for name, accuracy in floor.accuracies.items()]
    there = [floors[setting] for setting in {setting_of(record) for record in records} if setting in floors]
    if there:
        told += f"; (…): baselines on {_samples(there)} samples, with the same memory"
    if few := [floor for floor in there if floor.asked < floor.of]:
        told += f"; the nearest neighbour of {few[0].asked:,} of {few[0].of:,} test samples"
    lost = [f"{title} ({count} run{'s' * (count > 1)})" for title, count in failed.items()]
    return Summary(
        title=headline(records) if len(settings) == 1 else None,
        caption=f"{spread}; MACs: multiply-adds; MB: parameters and memory{told}",
        columns=("Acc %", "AAA %", "forgetting %", "MACs", "MB", "s"),
        blocks=blocks,
        notes=[
            *own,
            *(f"{BELOW} {_listed(list(titles))} {what}" for what, titles in below.items()),
            *(["failed and not in the table: " + ", ".join(lost)] if lost else []),
        ],
    )


def _samples(floors: Sequence[Baselines]) -> str:
    """What baselines compare."""
    return " or ".join(sorted({"standardised" if floor.standardised else "raw" for floor in floors}))


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last} are" if others else f"{last} is"


def summary(
    records: Sequence[Record], floors: Floors = MappingProxyType({}), failed: Failures = MappingProxyType({})
) -> Table:
    """What `summarised` has, for a terminal."""
    title, caption, columns, blocks, notes = summarised(records, floors, failed)
    said = "\n".join([caption, *notes])
    justify: Literal["left", "center"] = "left" if notes else "center"
    table = Table(title=title, caption=said, caption_justify=justify, box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", overflow="fold", min_width=12)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for setting, rows in blocks.items():
        if setting:
            table.add_section()
            table.add_row(Text(setting, "bold"))
        for name, figures in rows:
            table.add_row(name, *figures, style="dim" if name.startswith("(") else None)
    return table


def by_class(records: Sequence[Record], names: Sequence[str]) -> Table:
    """A row for each class, in the order of the stream, with its accuracy at the end of each method, and what it is
    taken for. `names` are for records that do not have those of classes."""
    methods = classes.of_methods(records, names)
    best = next(each for each in methods if each.title == classes.best(records))
    several = len({record["seed"] for record in records}) > 1
    spread = "mean ± standard error" if several else "n = 1"
    taken = f"; taken for: the most frequent wrong answer of {best.title}" if best.counts is not None else ""
    table = Table(
        title=headline(records),
        caption=f"accuracy at the end in per cent, {spread}{taken}",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("class", overflow="fold")
    for each in methods:
        table.add_column(each.title, justify="right")
    if best.counts is not None:
        table.add_column("taken for", overflow="fold")
    for name, *cells in zip(best.names, *(each.shown for each in methods), best.taken_for, strict=True):
        table.add_row(*map(Text, (name, *cells[: len(table.columns) - 1])))
    return table


def _figures(group: Sequence[Record]) -> list[str]:
    return [
        *(show([record[key] for record in group]) for key in ("acc", "aaa", "forgetting")),
        figure_of_macs(mean_and_error([record["train_macs"] for record in group])[0]),
        f"{mean_and_error([record['memory_bytes'] for record in group])[0] / 1e6:.2f}",
        f"{mean_and_error([record['seconds'] for record in group])[0]:.1f}",
    ]


def listing(records: Sequence[Record]) -> str:
    """One line a run, plain: thousands of them have to come at once."""
    rows = [("id", "method", "stream", "net", "M", "seed", "lr", "Acc %", "AAA %", "s", "finished")]
    for record in records:
        failed = record["status"] == "failed"
        figures = (
            ("failed", "", "") if failed else (show([record["acc"]]), show([record["aaa"]]), f"{record['seconds']:.0f}")
        )
        memory = " ".join(str(record[name]) for name in ("memory", "codec") if record.get(name) is not None)
        what = record["id"][:8], record["title"], record["stream"], net_of(record), memory, record["seed"], record["lr"]
        rows.append((*map(str, what), *figures, record["finished"]))
    cells = [[printable(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            text.ljust(width) if i < 4 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join([*lines, f"{len(records)} runs"])


def costs(spec: RunSpec, ledgers: Mapping[str, "Ledger"], seconds: Mapping[str, float]) -> Table:
    """What runs would compute, by what it is for, and how long one of them would take here."""
    table = Table(
        title=f"{spec.stream}, {memory_of(spec.memory, spec.codec)}, a query every {spec.eval_every} updates",
        caption="multiply-adds; retrieval: forwards that choose or teach; query: getting ready to answer; "
        "time: of one run here, about" + ("; †: is told the task" if any("†" in title for title in ledgers) else ""),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("method", overflow="fold", min_width=12)
    accounts = ("forward", "backward", "retrieval", "query")
    for column in (*accounts, "total", "MB", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    for title, ledger in ledgers.items():
        parts = [figure_of_macs(ledger.macs[account]) for account in accounts]
        size = f"{ledger.mean_bytes / 1e6:.2f}"
        table.add_row(title, *parts, figure_of_macs(ledger.train_macs), size, clock(seconds[title]))
    return table


def figure_of_macs(count: float) -> str:
    return f"{count / 1e12:.2f} T" if count >= 1e12 else f"{count / 1e9:.2f} G"
