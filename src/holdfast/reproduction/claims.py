"""Claims of the paper's text, each judged by our runs: what a claim says, and how its verdict is found.

A claim is about differences or ratios of numbers that runs with the same seed give. Its verdict rests on their mean and
95 % confidence interval over the seeds that all of these have.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.report.statistics import mean_and_error, student_t
from holdfast.reproduction.setting import RecordsOf, Setting
from holdfast.reproduction.table import Cell, PaperTable

HOLDS, DOES_NOT, OPEN = "holds", "does not hold", "not enough runs"
NO_RUNS = "no runs"
LEGEND = "ours: mean over shared seeds (n; 95 % confidence interval); then the same of the published tables; verdict"
WIDTHS: list[tuple[int, JustifyMethod]] = [(25, "left"), (28, "right"), (7, "right"), (15, "left")]
BySeed = Mapping[int, float]
Compute = Callable[..., dict[int, float]]  # of the numbers of some cells, by seed


@dataclass(frozen=True)
class At:
    """A cell of a table."""

    table: PaperTable
    row: str
    column: str
    measure: str = "acc"


@dataclass(frozen=True)
class Interval:
    """A mean over n seeds with its 95 % confidence interval; None for one seed."""

    n: int
    mean: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Interval":
        mean, error = mean_and_error(values)
        if error is None:
            return cls(1, mean, None, None)
        reach = error * student_t(len(values) - 1)
        return cls(len(values), mean, mean - reach, mean + reach)


Rule = Callable[[Interval], str]


def positive(found: Interval) -> str:
    """It is above 0."""
    if found.low is None or found.high is None or found.low <= 0 <= found.high:
        return OPEN
    return HOLDS if found.low > 0 else DOES_NOT


def at_least(claimed: float) -> Rule:
    """It is above 0, and as much as that is possible."""

    def judge(found: Interval) -> str:
        if found.low is None or found.high is None:
            return OPEN
        return DOES_NOT if found.high < claimed else HOLDS if found.low > 0 else OPEN

    return judge


def at_most(margin: float) -> Rule:
    """It is 0 or less, or so little above that it may be left out."""

    def judge(found: Interval) -> str:
        if found.low is None or found.high is None:
            return OPEN
        return DOES_NOT if found.low > 0 else HOLDS if found.high <= margin else OPEN

    return judge


def exactly_nothing(found: Interval) -> str:
    """Costs are the same for every seed."""
    return HOLDS if abs(found.mean) < 0.1 else DOES_NOT


def exactly_positive(found: Interval) -> str:
    return HOLDS if found.mean > 0 else DOES_NOT


def difference(ours: BySeed, others: BySeed) -> dict[int, float]:
    return {seed: value - others[seed] for seed, value in ours.items() if seed in others}


def relative(ours: BySeed, others: BySeed) -> dict[int, float]:
    """In per cent."""
    return {seed: 100 * (value / others[seed] - 1) for seed, value in ours.items() if others.get(seed)}


def lead(ours: BySeed, *others: BySeed) -> dict[int, float]:
    """Over the one of the others with the best mean."""
    return difference(ours, max(others, key=_mean))


def relative_lead(one: BySeed, another: BySeed, others: BySeed) -> dict[int, float]:
    """Of the better of two, in per cent."""
    return relative(max(one, another, key=_mean), others)


def opposite(values: BySeed) -> dict[int, float]:
    return {seed: -value for seed, value in values.items()}


def difference_of(compute: Compute) -> Compute:
    """Of what two halves of the cells give."""

    def of_both(*cells: BySeed) -> dict[int, float]:
        half = len(cells) // 2
        return difference(compute(*cells[:half]), compute(*cells[half:]))

    return of_both


@dataclass(frozen=True)
class Part:
    """What is computed of some cells; with several groups of cells, the mean over these."""

    where: str
    compute: Compute
    groups: Sequence[Sequence[At]]


@dataclass(frozen=True)
class Claim:
    text: str
    place: str
    unit: str
    rule: Rule
    parts: Sequence[Part]
    digits: int = 1


@dataclass(frozen=True)
class Finding:
    """What our runs say of a part of a claim, and what the paper's own tables give."""

    where: str
    ours: Interval | None
    published: float | None
    verdict: str
    runs: list[str] = field(default_factory=list)
    extent: str = ""  # how many of its settings have runs, if not all


@dataclass(frozen=True)
class Judged:
    claim: Claim
    findings: Sequence[Finding]

    @property
    def verdict(self) -> str:
        verdicts = {finding.verdict for finding in self.findings}
        return DOES_NOT if DOES_NOT in verdicts else HOLDS if verdicts == {HOLDS} else OPEN


def judge(claims: Iterable[Claim], found: RecordsOf) -> list[Judged]:
    return [Judged(claim, [_find(claim, part, found) for part in claim.parts]) for claim in claims]


def settings(claims: Iterable[Claim]) -> list[Setting]:
    """Of all runs that they rest on."""
    cells = [at for claim in claims for part in claim.parts for group in part.groups for at in group]
    nothing: RecordsOf = lambda setting: []  # noqa: E731
    return list(dict.fromkeys(s for at in cells for s in _cell(at, nothing).settings))


def _find(claim: Claim, part: Part, found: RecordsOf) -> Finding:
    seeds: dict[str, int] = {}

    def noting_seeds(setting: Setting) -> list[dict[str, object]]:
        records = found(setting)
        seeds.update({record["id"]: record["seed"] for record in records})
        return records

    groups = [[_cell(at, noting_seeds) for at in group] for group in part.groups]
    theirs = [_published(part, group) for group in groups]
    known = [number for number in theirs if number is not None]
    published = sum(known) / len(known) if known and len(known) == len(theirs) else None
    complete = [group for group in groups if all(cell.values for cell in group)]
    by_seed = [part.compute(*({seeds[r]: v for r, v in zip(c.runs, c.values, strict=True)} for c in group))
               for group in complete]  # fmt: skip
    shared = set.intersection(*map(set, by_seed)) if by_seed else set()
    if not shared:
        return Finding(part.where, None, published, OPEN)
    ours = Interval.of([sum(group[seed] for group in by_seed) / len(by_seed) for seed in sorted(shared)])
    runs = sorted({run for group in complete for cell in group for run in cell.runs if seeds[run] in shared})
    if len(complete) < len(groups):
        extent = f", {len(complete)} of {len(groups)} settings"
        return Finding(part.where, ours, published, OPEN, runs, extent)
    return Finding(part.where, ours, published, claim.rule(ours), runs)


def _cell(at: At, found: RecordsOf) -> Cell:
    return at.table.cell(found, at.row, at.column, at.measure)


def _published(part: Part, group: Sequence[Cell]) -> float | None:
    means = [cell.paper.mean for cell in group if cell.paper and cell.paper.mean is not None]
    return part.compute(*({0: mean} for mean in means))[0] if len(means) == len(group) else None


def _mean(values: BySeed) -> float:
    return sum(values.values()) / len(values) if values else float("-inf")


def drawn(judged: Sequence[Judged]) -> Group:
    """Each claim with where it stands, and below it a line for each of its settings."""
    parts: list[RenderableType] = []
    for each in judged:
        parts.append(Text(f"{each.claim.text}", "bold").append(f"  [{each.claim.place}]", "dim not bold"))
        table = Table.grid(padding=(0, 1, 0, 0))
        for width, justify in WIDTHS:
            table.add_column(width=width, justify=justify)
        for finding in each.findings:
            figures = [finding.where, ours(finding, each.claim), theirs(finding, each.claim)]
            table.add_row(*map(Text, figures), Text(finding.verdict, _style(finding)))
        parts += [table, Text()]
    return Group(*parts, Text(LEGEND, "dim"))


def ours(finding: Finding, claim: Claim) -> str:
    """+12.3 points (n = 3; +4.5 to +20.1)"""
    if finding.ours is None:
        return NO_RUNS
    digits, found = claim.digits, finding.ours
    number = f"{found.mean:+.{digits}f} {claim.unit}".rstrip()
    interval = f"; {found.low:+.{digits}f} to {found.high:+.{digits}f}" if found.low != found.high else ""
    return f"{number} (n = {found.n}{interval}){finding.extent}"


def theirs(finding: Finding, claim: Claim) -> str:
    return "–" if finding.published is None else f"{finding.published:+.{claim.digits}f}"


def markdown(judged: Sequence[Judged]) -> str:
    """A row a claim; what has no runs is named last."""
    lines = ["| claim | where in the text | ours (n; 95 % interval) | published | verdict |", "|---|---|---|---|---|"]
    for each in judged:
        run = [finding for finding in each.findings if finding.ours]
        missing = [finding.where for finding in each.findings if not finding.ours]
        one = len(each.findings) == 1
        found = [f"{'' if one else f'{f.where}: '}{ours(f, each.claim)}{_beside(f, each)}" for f in run]
        numbers = [f"{'' if one else f'{f.where}: '}{theirs(f, each.claim)}" for f in run if f.published is not None]
        none = [f"no runs: {'; '.join(missing)}" if run else NO_RUNS] if missing else []
        cells = [each.claim.text, each.claim.place, "<br>".join([*found, *none]), "<br>".join(numbers) or "–"]
        lines.append(f"| {' | '.join(cells)} | **{each.verdict}** |")
    return "\n".join(lines)


def _beside(finding: Finding, each: Judged) -> str:
    """Where parts of a claim have different verdicts, each has its own."""
    return f", {finding.verdict}" if len({f.verdict for f in each.findings if f.ours}) > 1 else ""


def as_json(judged: Sequence[Judged]) -> bytes:
    content = [
        {
            **{name: getattr(each.claim, name) for name in ("text", "place", "unit")},
            "verdict": each.verdict,
            "parts": [{**vars(f), "ours": vars(f.ours) if f.ours else None} for f in each.findings],
        }
        for each in judged
    ]
    return json.dumps(content, indent=1).encode()


def _style(finding: Finding) -> str:
    return {HOLDS: "green", DOES_NOT: "red"}.get(finding.verdict, "dim")
