"""Everything that the paper shows, by name."""

from holdfast.reproduction.figure import PaperFigure
from holdfast.reproduction.figures import FIGURES
from holdfast.reproduction.picks import Whose
from holdfast.reproduction.table import PaperTable
from holdfast.reproduction.tables import TABLES

ARTIFACTS: dict[str, PaperTable | PaperFigure] = {**TABLES, **FIGURES}


def badges(whose: Whose, *, tuned: bool, miniature: bool) -> list[str]:
    """What sets a table or figure apart from the one that has the paper's own settings."""
    return ["released"] * (whose == "released") + ["tuned"] * tuned + ["miniature"] * miniature
