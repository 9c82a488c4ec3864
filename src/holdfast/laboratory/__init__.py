"""The laboratory from Python: `holdfast.run`, `holdfast.sweep` and `holdfast.paper`. The command line is the same."""

from holdfast.laboratory.front import run, sweep
from holdfast.laboratory.results import Results

__all__ = ["Results", "run", "sweep"]
