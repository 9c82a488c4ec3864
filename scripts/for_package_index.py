"""Before a release is built: the README works without the files beside it, and the package says where the project is.

python scripts/for_package_index.py https://HOST/OWNER/REPOSITORY TAG
"""

import re
import sys
from pathlib import Path

RELATIVE = re.compile(r'(\]\(|src=")(?!\w+:|#)([^)"\s]+)')
PICTURES = (".png", ".svg")


def absolute(readme: str, at: str, tag: str) -> str:
    """With pictures and links to the files of that tag."""

    def link(found: re.Match[str]) -> str:
        kind = "raw" if found[2].endswith(PICTURES) else "blob"
        return f"{found[1]}{at}/{kind}/{tag}/{found[2]}"

    return RELATIVE.sub(link, readme)


def urls(at: str, tag: str) -> str:
    """A table of pyproject.toml."""
    pages = {"Source": at, "Issues": f"{at}/issues", "Changelog": f"{at}/blob/{tag}/CHANGELOG.md"}
    return "\n[project.urls]\n" + "".join(f'{name} = "{page}"\n' for name, page in pages.items())


if __name__ == "__main__":
    readme, project = Path("README.md"), Path("pyproject.toml")
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), *sys.argv[1:]), encoding="utf-8")
    project.write_text(project.read_text(encoding="utf-8") + urls(*sys.argv[1:]), encoding="utf-8")
