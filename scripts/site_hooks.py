"""What mkdocs does not do by itself for the site: equations as MathML, links to source files, the changelog."""

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DISPLAYED = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<![\\$\w`])\$([^$\n]+?)\$(?![\w$])")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
TO_SOURCE = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+(?:src|scripts|tests|bench|reliability)/[^)]*|notes|records[^)]*)\)")


def on_files(files: Files, config: Any) -> Files:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=changelog))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = TO_SOURCE.sub(lambda found: f"{found[1]} (`{found[2].replace('../', '')}`)", markdown)
    pieces = CODE.split(markdown)
    pieces[::2] = [_with_equations(text) for text in pieces[::2]]
    return "".join(pieces)


def _with_equations(text: str) -> str:
    text = DISPLAYED.sub(lambda found: f'<div class="equation">{convert(found[1], display="block")}</div>', text)
    return INLINE.sub(lambda found: convert(found[1]), text)
