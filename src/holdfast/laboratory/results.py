"""What runs have measured, as a notebook wants it."""

import importlib.util
import io
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rich.table import Table

from holdfast.errors import InputError, UnknownName
from holdfast.laboratory.execution import NOTHING, Objects
from holdfast.learner import Learner
from holdfast.report import tables
from holdfast.report.compare import Comparison, compare
from holdfast.report.groups import by_setting, by_title
from holdfast.report.html import page_of
from holdfast.report.terminal import terminal
from holdfast.runs.plan import plan
from holdfast.runs.spec import FIELDS, RunSpec
from holdfast.runs.store import Record
from holdfast.runs.sweep import Sweep

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

WIDTH = 100  # of the table as text
MEASURES = ("acc", "aaa", "forgetting", "train_macs", "memory_bytes", "seconds")


class Results(Sequence[Record]):
    """The records of the finished runs, in the order in which they were asked for.

    A record is a dict: the choices that made the run, `acc`, `aaa`, `forgetting`, `train_macs`, `memory_bytes`,
    `seconds`, and its `evaluations` with counts per class. `print` shows the table, and so does a notebook.

    Examples:
        >>> import holdfast
        >>> results = holdfast.run(["er", "er-ace"], "fashion:first=5", seeds=2, net="mlp", progress=False)
        >>> len(results), sorted({record["seed"] for record in results})
        (4, [0, 1])
        >>> results.where(method="er", seed=1)[0]["title"]
        'er'
        >>> results.compare().titles
        ['er', 'er-ace']
    """

    def __init__(self, sweep: Sweep, given: Objects = NOTHING, specs: Sequence[RunSpec] | None = None) -> None:
        self._sweep, self._given = sweep, given
        self._specs = sweep.done() if specs is None else list(specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __getitem__(self, index: Any) -> Any:
        return self.records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    @property
    def stopped(self) -> bool:
        """Whether it was interrupted before all runs were done."""
        return self._sweep.stopped

    @cached_property
    def records(self) -> list[Record]:
        """Whole records, as `holdfast run --json` writes them."""
        return [self._sweep.store.record(self._sweep.ids[spec]) for spec in self._specs]

    @cached_property
    def failed(self) -> dict[str, str]:
        """The runs that failed, and why."""
        record = self._sweep.store.record
        return {
            f"{spec.title} seed {spec.seed}": record(self._sweep.ids[spec])["why"].strip()
            for spec in self._sweep.failed()
        }

    def where(self, **fields: Any) -> "Results":
        """Picks the runs whose records have these values, as in `results.where(memory=20, method="er")`.

        Args:
            fields: names of fields, and their values.

        Returns:
            The results of these runs.

        Raises:
            UnknownName: if records have no such field.
        """
        for name in fields:
            if self.records and name not in self.records[0]:
                raise UnknownName("field", name, self.records[0])
        pairs = zip(self._specs, self.records, strict=True)
        wanted = [spec for spec, record in pairs if all(record[name] == value for name, value in fields.items())]
        return Results(self._sweep, self._given, wanted)

    def table(self) -> Table:
        """Makes the table that `holdfast run` prints: a row for each method, with mean ± standard error over seeds.

        Baselines stand below the methods; one that ends below a baseline is marked with ↓. A note names methods whose
        runs failed.

        Returns:
            A rich table, which `rich.print` shows in a terminal.

        Raises:
            InputError: if no run is done.
        """
        return tables.summary(self._some(), self._sweep.baselines(), self._sweep.failures())

    def by_class(self) -> Table:
        """Makes a table of the classes by name: the final accuracy of each method, and what each class is mistaken for.

        Returns:
            A rich table, which `rich.print` shows in a terminal.

        Raises:
            InputError: if no run is done, or if runs differ in more than method and seed: use `where` first.
        """
        records = self._of_one_setting()
        return tables.by_class(records, self._sweep.sources[records[0]["stream"]].dataset.classes)

    def to_pandas(self, *, evaluations: bool = False) -> "pd.DataFrame":
        """Makes a data frame.

        Args:
            evaluations: whether there is a row for each evaluation of every run, instead of one for each run.

        Returns:
            The data frame.

        Raises:
            InputError: if pandas is not installed.
        """
        if importlib.util.find_spec("pandas") is None:
            raise InputError("a data frame needs pandas: pip install pandas")
        import pandas as pd

        parts = (
            *("evaluations", "probes", "tasks", "task_ends", "environment", "precision", "macs"),
            *("usual", "classes", "confusion", "mistakes"),
        )
        first = dict.fromkeys(("id", "title", *FIELDS))  # then what was measured
        rows = [
            {name: value for name, value in {**first, **record}.items() if name not in parts} for record in self.records
        ]
        if evaluations:
            of_run = ("id", "title", "seed")
            rows = [
                {**{name: record[name] for name in of_run}, **evaluation}
                for record in self.records
                for evaluation in record["evaluations"]
            ]
        return pd.DataFrame(rows)

    def plot(self) -> "Figure":
        """Draws accuracy along the stream, mean ± standard error over seeds; a row for each setting.

        Returns:
            A matplotlib figure.

        Raises:
            InputError: if matplotlib is not installed or no run is done.
        """
        _need_matplotlib()
        from holdfast.report.figures import drawn

        return drawn(self._some())

    def plot_classes(self) -> "Figure":
        """Draws what classes are mistaken for at the end: a confusion matrix for each method, in per cent of a class.

        Returns:
            A matplotlib figure.

        Raises:
            InputError: if matplotlib is not installed, no run is done, runs differ in more than method and seed (use
                `where` first), there are more than 40 classes, or the records are of an earlier version.
        """
        _need_matplotlib()
        from holdfast.report.figures import confusions

        figure = confusions(self._of_one_setting())
        if figure is None:
            raise InputError("a confusion matrix takes 40 classes at most and records that have one: fresh=True")
        return figure

    def plot_mistakes(self) -> "Figure":
        """Draws some test images that the best method misclassifies at the end.

        Returns:
            A matplotlib figure.

        Raises:
            InputError: if matplotlib is not installed, no run is done, runs differ in more than method and seed (use
                `where` first), samples are not images, or there are no mistakes on record.
        """
        _need_matplotlib()
        from holdfast.report.figures import mistakes

        records = self._of_one_setting()
        figure = mistakes(records, self._sweep.sources[records[0]["stream"]].dataset)
        if figure is None:
            raise InputError("there are no images of mistakes: the samples are not images, or nothing was wrong")
        return figure

    def compare(self, measure: str = "acc") -> Comparison:
        """Compares every method with every other, over the seeds that both have.

        Args:
            measure: acc, aaa or forgetting, in per cent, or train_macs, memory_bytes or seconds as they are.

        Returns:
            Mean differences with 95 % confidence intervals, which a notebook shows as a table.

        Raises:
            UnknownName: if there is no such measure.
            InputError: if there is nothing to compare, or if runs differ in more than method and seed: use `where`
                first.
        """
        if measure not in MEASURES:
            raise UnknownName("measure", measure, MEASURES)
        self._of_one_setting()
        scale = 100 if measure in ("acc", "aaa", "forgetting") else 1
        values = {
            title: {r["seed"]: None if r[measure] is None else scale * r[measure] for r in group}
            for title, group in by_title(self.records).items()
        }
        found = compare(values)
        if found is None:
            raise InputError("there is nothing to compare: it takes two methods that share a seed")
        return found

    @property
    def learners(self) -> dict[tuple[str, int], Learner]:
        """The trained learners, by title and seed, if `keep_learners=True` was given.

        Raises InputError if they were not kept.
        """
        return {(spec.title, spec.seed): self._learner(spec) for spec in self._specs}

    def _learner(self, spec: RunSpec) -> Learner:
        try:
            content = self._sweep.store.artifact(self._sweep.ids[spec], "learner")
        except UnknownName:
            raise InputError(f"{spec.title} seed {spec.seed} was not kept: keep_learners=True, fresh=True") from None
        return plan(spec, self._sweep.sources[spec.stream], self._given.nets).restored(content)

    def _of_one_setting(self) -> list[Record]:
        if len(settings := by_setting(self._some())) > 1:
            apart = "; ".join(", ".join(setting) for setting in settings)
            raise InputError(f"these runs have {len(settings)} settings, so choose one with where(...): {apart}")
        return self.records

    def _some(self) -> list[Record]:
        if not self.records:
            why = next(iter(self.failed.values()), "")
            raise InputError("no run is done" + (f"; {len(self.failed)} failed: {why.splitlines()[-1]}" if why else ""))
        return self.records

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"<Results of {len(self)} runs{failed}: {', '.join(by_title(self.records))}>"

    def __str__(self) -> str:
        """The table as plain text."""
        if not self.records:
            return repr(self)
        console = terminal(file=io.StringIO(), width=WIDTH, color_system=None)
        with console.capture() as shown:
            console.print(self.table())
        return shown.get().rstrip()

    def _repr_html_(self) -> str:
        return page_of(self.records, self.failed, self._sweep.baselines())


def _need_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("a picture needs matplotlib: pip install 'holdfast[plots]'")
