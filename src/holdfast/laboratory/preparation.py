"""What many runs share is computed before the first of them: the features of frozen encoders."""

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.progress import Progress, TextColumn

from holdfast.nets import named
from holdfast.runs import features
from holdfast.runs.spec import RunSpec
from holdfast.streams import Source


def compute_features(specs: Iterable[RunSpec], sources: Mapping[str, Source], console: Console) -> None:
    """Where they are kept already, nothing is done."""
    frozen = {(spec.stream, spec.net) for spec in specs if spec.net is not None and _is_frozen(spec.net)}
    columns = TextColumn("{task.description}", markup=False), *Progress.get_default_columns()[1:]
    for stream, net in sorted(frozen):
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task(f"features of {stream} by {net}", total=None)

            def show(done: int, of: int) -> None:
                progress.update(bar, completed=done, total=of)  # noqa: B023  called inside this turn only

            features.encoded(sources[stream], named.parse(net), show)


def _is_frozen(net: str) -> bool:
    return named.is_pretrained(net) and named.parse(net).frozen is True
