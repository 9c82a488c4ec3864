"""The laboratory from Python: `holdfast.run`, `holdfast.sweep` and `holdfast.paper`. The command line is the same."""

from holdfast.laboratory.front import run, sweep
from holdfast.laboratory.reproduce import PaperResults, paper
from holdfast.laboratory.results import Results

__all__ = ["PaperResults", "Results", "paper", "run", "sweep"]
