"""What a store has of the paper's settings."""

from collections.abc import Callable, Iterable

from holdfast.reproduction.picks import Picks, Whose
from holdfast.reproduction.setting import Setting
from holdfast.runs.identity import RecordIndex
from holdfast.runs.store import Record


class InStore:
    """The records of a setting with whatever seeds there are, one a seed."""

    def __init__(
        self,
        load: Callable[[str], Record],
        rows: Iterable[Record] = (),
        *,
        quick: bool = False,
        picks: Picks | None = None,
        whose: Whose = "text",
    ) -> None:
        self.quick = quick
        self.picks: Picks = picks or {}
        self.whose: Whose = whose
        self._load = load
        self._rows = RecordIndex(rows)

    def add(self, row: Record) -> None:
        self._rows.add(row)

    def ids(self, setting: Setting) -> dict[int, str]:
        """By seed."""
        (spec,) = setting.specs(1, quick=self.quick, picks=self.picks, whose=self.whose)
        return {seed: row["id"] for seed, row in self._rows.of(spec).items()}

    def __call__(self, setting: Setting) -> list[Record]:
        return [self._load(run) for run in self.ids(setting).values()]
