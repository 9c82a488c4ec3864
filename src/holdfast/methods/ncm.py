from dataclasses import dataclass
from typing import Literal

from holdfast.methods.base import Scores
from holdfast.methods.running_statistics import RunningStatistics
from holdfast.nets import Head
from holdfast.nets.statistics import MeansHead


@dataclass(frozen=True, kw_only=True)
class NCM(RunningStatistics):
    """Answers the class whose mean is nearest. The means of the features are all it learns; the encoder stays as it is.

    Args:
        head: `means`.
        replay: nothing is replayed: 0.
    """

    head: Literal["means"] = "means"  # type: ignore[assignment]

    def scores(self, head: Head) -> Scores:
        assert isinstance(head, MeansHead)
        return head.scores()
