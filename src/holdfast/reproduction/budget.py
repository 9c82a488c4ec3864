"""`holdfast paper --plan HOURS`: the missing runs that are most worth so many core-hours, in the order to do them.

First those that give a published number its first run, then those whose verdict is open for want of seeds, then what
claims of the text and figures lack; among equals those that cost least for each number they serve.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from rich import box
from rich.table import Table

from holdfast.report.live import clock
from holdfast.reproduction.in_store import InStore
from holdfast.reproduction.measures import MEASURES
from holdfast.reproduction.setting import Setting
from holdfast.reproduction.table import Cell
from holdfast.runs.identity import kind
from holdfast.runs.spec import RunSpec

BEGUN, FIRST_RUN, OTHER_AUGMENTATION, MORE_SEEDS, CLAIM, FIGURE = range(6)
Rank = tuple[int, int]  # one of the above, and how many seeds are there before it
ORDINALS = ("first", "second", "third")


@dataclass
class Wanted:
    """A missing run, and what it is wanted for."""

    spec: RunSpec
    uses: dict[str, Rank] = field(default_factory=dict)  # by the number or figure that lacks it
    begun: bool = False

    @property
    def rank(self) -> Rank:
        return (BEGUN, 0) if self.begun else min(self.uses.values())

    @property
    def served(self) -> list[str]:
        """What it is most wanted for."""
        most = min(self.uses.values())
        return [use for use, rank in self.uses.items() if rank == most]

    @property
    def why(self) -> str:
        what, before = min(self.uses.values())
        seed = ORDINALS[before] if before < len(ORDINALS) else f"{before + 1}th"
        reasons = {
            FIRST_RUN: "first run of",
            OTHER_AUGMENTATION: "to choose between without and with augmentation:",
            MORE_SEEDS: f"{seed} seed of",
            CLAIM: f"{seed} seed for",
            FIGURE: f"{seed} seed of" if before else "missing in",
        }
        return f"{'was begun; ' * self.begun}{reasons[what]} {_listed(self.served)}"


def missing(
    cells: Mapping[str, Iterable[Cell]], others: Mapping[str, Sequence[Setting]], there: InStore, seeds: int
) -> list[Wanted]:
    """Every run that is missing until all of these have so many seeds; each once, with all probes it is asked for.

    `cells` of published numbers by table; `others` are settings by the figure that shows them, or "claims".
    """
    wanted: dict[Hashable, Wanted] = {}

    def want(setting: Setting, seed: int, use: str, rank: Rank) -> None:
        spec = setting.specs(seed + 1, quick=there.quick, picks=there.picks, whose=there.whose)[seed]
        run = wanted.setdefault((kind(spec), seed), Wanted(spec))
        run.spec = replace(run.spec, probe=tuple(dict.fromkeys((*run.spec.probe, *spec.probe))))
        run.uses[use] = min(rank, run.uses.get(use, rank))

    for table, of_table in cells.items():
        for cell in of_table:
            use = f"{table} {MEASURES[cell.measure][0].removesuffix(' %')}"
            for setting, seed, rank in _lacking(cell, there, seeds):
                want(setting, seed, f"{use} ({cell.row}, {cell.column})", rank)
    for name, settings in others.items():
        for setting in settings:
            for before, seed in _seeds_to_come(there.ids(setting), seeds):
                want(setting, seed, name, (CLAIM if name == "claims" else FIGURE, before))
    return list(wanted.values())


def _lacking(cell: Cell, there: InStore, seeds: int) -> Iterable[tuple[Setting, int, Rank]]:
    """Where the paper has the better of two settings, one run of each comes first, then more of the better one."""
    ids = {setting: there.ids(setting) for setting in cell.settings}
    undecided = not all(ids.values())
    for number, (setting, runs) in enumerate(ids.items()):
        if undecided or set(cell.runs) <= set(runs.values()):
            for before, seed in _seeds_to_come(runs, seeds):
                if before:
                    yield setting, seed, (MORE_SEEDS, before)
                elif number or any(ids.values()):
                    yield setting, seed, (OTHER_AUGMENTATION, 0)
                else:
                    yield setting, seed, (FIRST_RUN, 0)


def _seeds_to_come(there: Mapping[int, str], seeds: int) -> list[tuple[int, int]]:
    """How many runs there will be before it, and the seed."""
    to_come = [seed for seed in range(seeds) if seed not in there]
    return list(enumerate(to_come[: max(0, seeds - len(there))], len(there)))


@dataclass(frozen=True)
class Chosen:
    wanted: Wanted
    seconds: float


def choose(wanted: Iterable[Wanted], hours: float, seconds: Callable[[RunSpec], float]) -> list[Chosen]:
    """As many as fit, rank by rank. Where one of a rank does not fit, nothing of later ranks is taken before it."""
    left, chosen = 3600 * hours, []
    for _, group in groupby(sorted(wanted, key=lambda each: each.rank), key=lambda each: each.rank):
        costs = [Chosen(each, seconds(each.spec)) for each in sorted(group, key=lambda each: each.spec.stream)]
        too_dear = False
        for each in sorted(costs, key=lambda each: each.seconds / len(each.wanted.served)):
            if each.seconds <= left:
                left -= each.seconds
                chosen.append(each)
            else:
                too_dear = True
        if too_dear:
            break
    return chosen


def drawn(chosen: Sequence[Chosen], hours: float) -> Table:
    table = Table(
        title=f"worth {hours:g} core-hours, in this order",
        caption="time: an estimate; sum: with all before it",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for column in ("", "run", "time", "sum"):
        table.add_column(column, justify="left" if column == "run" else "right", no_wrap=column != "run")
    table.add_column("why", ratio=1)
    total = 0.0
    for number, each in enumerate(chosen, 1):
        total += each.seconds
        spec = each.wanted.spec
        memory = f", M = {spec.memory}" if spec.memory else ""
        run = f"{spec.title}{', augmented' * spec.augment}, {spec.stream}{memory}, seed {spec.seed}"
        table.add_row(str(number), run, _hours(each.seconds), _hours(total), each.wanted.why)
    return table


def _hours(seconds: float) -> str:
    return clock(seconds) if seconds >= 3600 else f"0:{clock(seconds).zfill(5)}"


def _listed(uses: Sequence[str]) -> str:
    """T1 AAA, Acc; T6 Acc: what stands in brackets is told by the run itself."""
    by_name: dict[str, dict[str, None]] = {}
    for use in uses:
        name, _, measure = use.partition(" (")[0].partition(" ")
        by_name.setdefault(name, {}).update(dict.fromkeys([measure] if measure else []))
    return "; ".join(" ".join(filter(None, (name, ", ".join(measures)))) for name, measures in by_name.items())
