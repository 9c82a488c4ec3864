"""Markdown pages: their code blocks, which are executed unless their title says that they are not, and their links."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r'^```(\w*)(?: title="(.*?)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


@dataclass(frozen=True)
class Block:
    kind: str
    title: str
    text: str

    @property
    def is_run(self) -> bool:
        return not self.title.startswith("Not run by the tests")

    @property
    def commands(self) -> list[list[str]]:
        """The words of each line of shell, without comments."""
        lines = (shlex.split(line, comments=True) for line in self.text.replace("\\\n", " ").splitlines())
        return [words for words in lines if words]


def blocks(page: Path, *kinds: str) -> list[Block]:
    found = [Block(*match) for match in BLOCK.findall(page.read_text(encoding="utf-8"))]
    return [block for block in found if not kinds or block.kind in kinds]


def broken_links(page: Path) -> list[str]:
    """Links to files that are not there, and to headings that their page does not have."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("https:", "http:")):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    return broken


def _anchors(page: Path) -> set[str]:
    """As Markdown renderers make them of headings."""
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
