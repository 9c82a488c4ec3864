from dataclasses import dataclass
from typing import Annotated, Literal

from holdfast.arguments import Range
from holdfast.methods.base import Scores
from holdfast.methods.running_statistics import RunningStatistics
from holdfast.nets import Head
from holdfast.nets.statistics import SHRINKAGE, LDAHead


@dataclass(frozen=True, kw_only=True)
class SLDA(RunningStatistics):
    """Streaming linear discriminant analysis: class means, and one covariance within classes, of the features.

    Args:
        head: `lda`.
        replay: nothing is replayed: 0.
        shrinkage: the share of the covariance that is replaced by a multiple of the identity with the same trace.
    """

    head: Literal["lda"] = "lda"  # type: ignore[assignment]
    shrinkage: Annotated[float, Range(above=0, most=1)] = SHRINKAGE

    def scores(self, head: Head) -> Scores:
        assert isinstance(head, LDAHead)
        return head.scores(self.shrinkage)
