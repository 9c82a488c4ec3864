"""docs/results made anew from its records: a page for each table and figure, with the notes that stand beside them.

    python scripts/results_pages.py [FOLDER]

FOLDER has records.json.xz and notes; without it, docs/results. A note is Markdown with numbers that are looked up in
the records, so that none can be out of date:

    {{acc er:head=cosine}}                   final accuracy, M = 20 on CIFAR-10 with the authors' picks
    {{acc er memory=50 lr=0.01}}             other settings: memory, lr, augment, dataset, stream, start
    {{acc er:head=cosine minus er}}          the difference over the seeds that both have
    {{acc er:head=cosine against er}}        the same with its 95 % confidence interval
    {{acc holdfast codec=raw memory=5}}      any choice of a run, and what is usual for the method
    {{acc er vs 24.6 1.2}}                   beside a mean and its standard error
    {{drift@3-5 er probe=drift}}             of the first task's samples, 3 to 5 updates after the first switch
    {{acc er memory=7 or –}}                 – if there are no runs
    {{needs er-aml memory=50}}               nothing, but there have to be runs
    {{lacks er-aml memory=50}}               nothing, but there must be none yet

A paragraph, list item or row of a table of which a number has no runs is left out.
"""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from holdfast import methods
from holdfast.report import frontier
from holdfast.report.statistics import Paired, agreement, paired, with_seeds
from holdfast.reproduction import claims, coverage, curves
from holdfast.reproduction.artifacts import ARTIFACTS
from holdfast.reproduction.figure import PaperFigure
from holdfast.reproduction.in_store import InStore
from holdfast.reproduction.measures import MEASURES, PUBLISHED_AS
from holdfast.reproduction.setting import Setting
from holdfast.reproduction.table import Cell, PaperTable, as_markdown
from holdfast.reproduction.text_claims import CLAIMS
from holdfast.runs.exported import read
from holdfast.runs.grid import grid
from holdfast.runs.identity import RecordIndex
from holdfast.runs.spec import BY_METHOD, CHOICES, RunSpec
from holdfast.runs.store import Record

RECORDS = "records.json.xz"
DOTS_PER_INCH = 150
MADE_ELSEWHERE = ("--out", "--jobs")  # options of commands that change nothing in what they find
ABOUT, AGREES, DIFFERS = "About", "What agrees", "What differs, and why"
OWN_PAGES = {  # that are notes and nothing else
    "beyond": "Beyond the paper: holdfast, and what each part of it gives",
    "er-aml": "ER-AML: two ways of fetching, negatives, forgetting",
    "authors-search": "Beside the authors' own search",
    "never-seen": "Classes that were never seen",
    "five-kinds": "Baselines and methods on five kinds of data",
    "commands": "The commands that made the runs",
}


FRONTIER = "beyond"  # the page with the picture of accuracy against cost
MEMORIES = 0, 5, 20, 100  # of its methods
SEEDS = 4  # 0 to 3: some runs beside the tables have others than the first three


class NoRuns(Exception):
    """What a note speaks of has none, or some where it says that there are none."""


class Records:
    """All records, by setting and by what notes ask for."""

    def __init__(self, file: Path) -> None:
        self.all = {record["id"]: record for record in read(file)}
        done = [record for record in self.all.values() if record["status"] == "done"]
        self.found = InStore(self.all.__getitem__, done)
        self._alike = RecordIndex(done)

    def filled(self, note: str) -> str:
        """A note with its numbers, without what has none."""
        kept = []
        for block in re.split(r"\n\n+|\n(?=- |\| )", note.strip()):
            try:
                text = re.sub(r"\{\{(.*?)\}\}", lambda found: self._number(found[1]), block)
            except NoRuns:
                continue
            kept.append(text)
        between = ["\n" if a[:2] == b[:2] and a[:2] in ("- ", "| ") else "\n\n" for a, b in pairwise(kept)]
        return "".join(part for pair in zip_longest(kept, between, fillvalue="") for part in pair)

    def _number(self, request: str) -> str:
        request, _, otherwise = request.partition(" or ")
        try:
            return self._looked_up(request)
        except NoRuns:
            if otherwise:
                return otherwise
            raise

    def _looked_up(self, request: str) -> str:
        measure, *words = request.split()
        asked, _, rival = " ".join(words).partition(" against ")
        asked, _, baseline = asked.partition(" minus ")
        asked, _, beside = asked.partition(" vs ")
        values = self._values(measure, asked)
        if measure == "lacks" and not values:
            return ""
        if measure == "lacks":
            raise NoRuns(request)
        if rival:
            return _with_interval(paired(values, self._values(measure, rival)), request)
        if baseline:
            others = self._values(measure, baseline)
            values = {seed: value - others[seed] for seed, value in values.items() if seed in others}
        if not values:
            raise NoRuns(request)
        if measure == "needs":
            return ""
        digits = 3 if measure.startswith("drift") else 1
        if beside:
            mean, error = map(float, beside.split())
            return agreement(list(values.values()), mean, error, digits)
        return with_seeds(list(values.values()), digits)

    def _values(self, measure: str, asked: str) -> dict[int, float]:
        records = self._alike.of(_spec(asked))
        if measure in ("needs", "lacks"):
            return dict.fromkeys(records, 0.0)
        compute = _drift_in(measure) if measure.startswith("drift@") else MEASURES[measure][1]
        values = {seed: compute(record) for seed, record in records.items()}
        return {seed: value for seed, value in values.items() if value is not None}


def _spec(asked: str) -> RunSpec:
    method, *others = asked.split()
    given = dict(word.split("=", 1) for word in others)
    of_a_run = {CHOICES[name].name for name in BY_METHOD} - {"augment"}
    if method.partition(":")[0] == "holdfast" or of_a_run & set(given):
        choices = {"stream": "cifar10", "memory": 20, "eval": "rotating:100", "seeds": 1}
        choices |= {name: _value(text) for name, text in given.items()}
        (spec,) = grid(method=method, **choices)
        usual = asdict(methods.find(spec.method).usual)
        return replace(spec, **{name: usual[name] for name in spec.undecided & set(usual)})
    augment, memory = given.get("augment") == "true", int(given.get("memory", 20))
    names = {name: given[name] for name in ("dataset", "stream", "start", "probe") if name in given}
    (spec,) = Setting(method=method, memory=memory, augment=augment, **names).specs(1)
    return spec


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _with_interval(found: Paired | None, request: str) -> str:
    if found is None:
        raise NoRuns(request)
    interval = "" if found.low is None else f" [{found.low:+.1f}, {found.high:+.1f}]"
    return f"{found.difference:+.1f}{interval} ({found.n})"


def _drift_in(measure: str) -> Callable[[Record], float | None]:
    first, last = map(int, measure.removeprefix("drift@").split("-"))

    def of(record: Record) -> float | None:
        near = [v for step, v in zip(*curves.of_first_task(record, "drift"), strict=True) if first <= step <= last]
        return sum(near) / len(near) if near else None

    return of


def sections(note: str) -> dict[str, str]:
    """By heading; what stands before the first is about the whole."""
    about, *others = re.split(r"^## (.*)\n", note, flags=re.MULTILINE)
    return {ABOUT: about, **dict(zip(others[::2], others[1::2], strict=True))}


def table_page(table: PaperTable, records: Records, note: Mapping[str, str]) -> list[str]:
    cells = list(table.cells(records.found))
    page = [f"`{table.place}` in the paper. Ours: mean ± standard error (seeds).", note[ABOUT], *table.notes]
    missing = []
    for column, shown, rows in table.parts(cells):
        there = [(title, of_row) for title, of_row in rows if any(cell.values for cell in of_row)]
        lacking = [title for title, of_row in rows if not any(cell.values for cell in of_row)]
        if there:
            page += [f"## {column.title}", as_markdown(shown, there)]
        if lacking:
            missing.append(f"- {column.title}: {'; '.join(lacking) if there else 'all'}")
    judged = _each_once(cell for cell in cells if _is_judged(cell))
    agreeing = [cell for cell in judged if " within " in cell.verdict]
    differing = [cell for cell in judged if " beyond " in cell.verdict]
    open_ = [cell for cell in judged if cell not in agreeing and cell not in differing]
    page += [f"## {AGREES}", _listed("Within two standard errors of the published values:", agreeing), note[AGREES]]
    page += [f"## {DIFFERS}", _differences(differing), note[DIFFERS]]
    if open_:
        page += ["## Open", _listed("One seed, or no published standard error to judge by:", open_)]
    if missing:
        page += ["## Without a run so far", "\n".join(missing)]
    return page


def _is_judged(cell: Cell) -> bool:
    return bool(cell.values and cell.paper) and (cell.measure in coverage.JUDGED or cell.measure in PUBLISHED_AS)


def _each_once(cells: Iterable[Cell]) -> list[Cell]:
    """The print repeats methods without memory for every size of it."""
    found: dict[object, Cell] = {}
    for cell in cells:
        key = (cell.measure, cell.settings)
        found[key] = replace(cell, column="every M") if key in found else cell
    return list(found.values())


def _listed(head: str, cells: Iterable[Cell]) -> str:
    """- M = 20: ER (AAA, Acc); ER-ACE (Acc)"""
    found: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        found.setdefault(cell.column, {}).setdefault(cell.row, []).append(MEASURES[cell.measure][0].replace(" %", ""))
    if not found:
        return "No value is known to lie within two standard errors so far."
    columns = []
    for column, rows in found.items():
        named = [f"{row} ({', '.join(measures)})" for row, measures in rows.items()]
        columns.append(f"- {column}: {'; '.join(named)}")
    return "\n".join([head, "", *columns])


def _differences(cells: Sequence[Cell]) -> str:
    lines = []
    for cell in cells:
        name = MEASURES[cell.measure][0].replace(" %", "")
        lines.append(f"- {cell.column}, {cell.row}: {name} {cell.ours}, published {cell.theirs}, {cell.verdict}")
    return "\n".join(lines) or "No value is known to lie beyond two standard errors so far."


def figure_page(figure: PaperFigure, note: Mapping[str, str]) -> list[str]:
    page = [f"![{figure.title}]({figure.name}.png)", f"`{figure.place}` in the paper.", note[ABOUT]]
    for heading in (AGREES, DIFFERS):
        page += [f"## {heading}", note[heading]] if note[heading] else []
    return page


def commands(name: str, runs: Iterable[str], records: Records) -> list[str]:
    """What renders a page, and what made its runs."""
    made = [records.all[run] for run in sorted(set(runs), key=list(records.all).index)]
    typed = dict.fromkeys(_typed(record["command"]) for record in made if _is_kept(record["command"]))
    untold = sum(not _is_kept(record["command"]) for record in made)
    lines = [f"holdfast paper {name} --out results --render --seeds {SEEDS}", *typed]
    first = f" {untold} of the runs were made by the first [commands](commands.md)." if untold else ""
    said = "The first line renders what is here; the others made the runs." if typed else "This renders what is here."
    return ["## Commands", "```sh\n" + "\n".join(lines) + "\n```", said + first]


def _is_kept(command: str | None) -> bool:
    """The grids of sweeps are not kept."""
    return command is not None and not command.startswith("holdfast sweep")


def _typed(command: str) -> str:
    words = iter(shlex.split(command))
    kept = [word for word in words if word not in MADE_ELSEWHERE or next(words) is None]
    return shlex.join(kept)


def runs_of(name: str, records: Records) -> list[str]:
    return [run for setting in ARTIFACTS[name].settings() for run in records.found.ids(setting).values()]


def pages(folder: Path, records: Records) -> Iterator[tuple[str, str]]:
    """The file and the text of every page but the first."""
    for name, artifact in ARTIFACTS.items():
        if runs := runs_of(name, records):
            note = {ABOUT: "", AGREES: "", DIFFERS: ""}
            file = folder / "notes" / f"{name}.md"
            if file.exists():
                note |= {heading: records.filled(text) for heading, text in sections(file.read_text()).items()}
            body = (
                table_page(artifact, records, note) if isinstance(artifact, PaperTable) else figure_page(artifact, note)
            )
            yield name, _joined([f"# {name}: {artifact.title}", *body, *commands(name, runs, records)])
    for name, title in OWN_PAGES.items():
        yield name, _joined([f"# {title}", records.filled((folder / "notes" / f"{name}.md").read_text())])


def first_page(folder: Path, records: Records) -> str:
    file = folder / RECORDS
    lines = coverage.by_table(coverage.published_cells(records.found))
    agreed = [record["fast_path_agreement"] for record in records.all.values()]
    there = {name: len(set(runs_of(name, records))) for name in ARTIFACTS}
    index = [
        f"- [{name}]({name}.md): {ARTIFACTS[name].title} ({runs} run{'s' * (runs > 1)})"
        for name, runs in there.items()
        if runs
    ]
    without = [name for name, runs in there.items() if not runs]
    facts = (
        f"{len(records.all)} records are in [{RECORDS}]({RECORDS}) ({file.stat().st_size / 1e6:.1f} MB), with every "
        f"evaluation's counts per class. The fast evaluation path gave the plain net's answer on "
        f"{100 * min(agreed):.1f} % of the test images tried or more, and on all of them in "
        f"{sum(each == 1 for each in agreed)} of the runs."
    )
    return _joined(
        [
            "# Results",
            "What our runs say about the paper's tables, figures and claims.",
            "## How much of the paper has runs",
            str(lines[-1][1]).capitalize() + ".",
            coverage.markdown(lines),
            "## Claims of the text",
            records.filled((folder / "notes" / "claims.md").read_text()),
            claims.markdown(claims.judge(CLAIMS, records.found)),
            "## Tables and figures",
            "\n".join(index),
            f"Without any run so far: {', '.join(without)}." if without else "",
            "## More",
            "\n".join(f"- [{title}]({name}.md)" for name, title in OWN_PAGES.items()),
            "## How this is made",
            records.filled((folder / "notes" / "README.md").read_text()),
            facts,
        ]
    )


def as_they_are(records: Records) -> list[frontier.Point]:
    """Methods without options on Split CIFAR-10, with and without augmentation, each at its best learning rate."""
    done = [record for record in records.all.values() if record["status"] == "done" and not record["start"]]
    usual = [record for record in done if record["title"].rstrip("†") == record["method"]]
    chosen = [record for record in usual if record["stream"] == "cifar10" and record["memory"] in MEMORIES]
    points = frontier.points([record for record in chosen if record["method"] in methods.METHODS])
    by_accuracy = sorted(points, key=lambda point: point.accuracy)
    return list({(point.variant, point.memory): point for point in by_accuracy}.values())


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def write(folder: Path, to: Path, *, pictures: bool = True) -> None:
    records = Records(folder / RECORDS)
    texts = {"README": first_page(folder, records), **dict(pages(folder, records))}
    for stale in [*to.glob("*.md"), *(to.glob("*.png") if pictures else ())]:
        if stale.stem not in texts:
            stale.unlink()
    for name, text in texts.items():
        (to / f"{name}.md").write_text(text)
        artifact = ARTIFACTS.get(name)
        if pictures and isinstance(artifact, PaperFigure):
            artifact.write(records.found, to / f"{name}.png", dpi=DOTS_PER_INCH)
    if pictures:
        frontier.picture(as_they_are(records), "Split CIFAR-10: accuracy for what it costs", to / f"{FRONTIER}.png")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "results"
    write(folder, folder)


if __name__ == "__main__":
    main()
