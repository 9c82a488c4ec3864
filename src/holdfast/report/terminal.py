"""Where commands print. Paths, titles and streams are shown as they are: rich's codes mean nothing in them."""

from typing import Any

from rich.console import Console


def printable(text: str) -> str:
    """Imported titles and names of classes may hold anything, also what a terminal takes for a command."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)


def terminal(**options: Any) -> Console:
    return Console(markup=False, emoji=False, **options)
