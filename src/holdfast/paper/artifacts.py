"""Every table and figure by name."""

from holdfast.paper.figure import PaperFigure
from holdfast.paper.figures import FIGURES
from holdfast.paper.picks import Whose
from holdfast.paper.table import PaperTable
from holdfast.paper.tables import TABLES

ARTIFACTS: dict[str, PaperTable | PaperFigure] = {**TABLES, **FIGURES}


def badges(whose: Whose, *, tuned: bool, miniature: bool) -> list[str]:
    """What sets a table or figure apart from the one that has the paper's own settings."""
    return ["released"] * (whose == "released") + ["tuned"] * tuned + ["miniature"] * miniature
