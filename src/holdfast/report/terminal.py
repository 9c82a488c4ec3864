"""Where commands print. Paths, titles and streams are shown as they are: rich's codes mean nothing in them."""

from typing import Any

from rich.console import Console


def terminal(**options: Any) -> Console:
    return Console(markup=False, emoji=False, **options)
