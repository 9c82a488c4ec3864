"""What mkdocs does not do by itself: equations as MathML, links to source files, the changelog, no network."""

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DISPLAYED = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<![\\$\w`])\$([^$\n]+?)\$(?![\w$])")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
TO_SOURCE = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+(?:src|scripts|tests|bench|reliability)/[^)]*|notes|records[^)]*)\)")
FROM_A_NETWORK = "https://unpkg.com/iframe-worker/shim"
TAKES_HOURS = "Not run by the tests, which only check that it is understood: it takes minutes to hours"


def on_files(files: Files, config: Any) -> Files:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=changelog))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    if page.file.src_uri.startswith(("methods/", "results/")):
        markdown = markdown.replace("```sh\n", f'```sh title="{TAKES_HOURS}"\n')
    markdown = TO_SOURCE.sub(lambda found: f"{found[1]} (`{found[2].replace('../', '')}`)", markdown)
    pieces = CODE.split(markdown)
    pieces[::2] = [_with_equations(text) for text in pieces[::2]]
    return "".join(pieces)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """The search of pages on disk takes a script that the theme would get from a network."""
    return output.replace(FROM_A_NETWORK, "../" * page.url.count("/") + "iframe-worker.js")


def _with_equations(text: str) -> str:
    text = DISPLAYED.sub(lambda found: f'<div class="equation">{convert(found[1], display="block")}</div>', text)
    # in a span, because Markdown takes a line that begins with <math> for a paragraph of its own
    return INLINE.sub(lambda found: f"<span>{convert(found[1])}</span>", text)
