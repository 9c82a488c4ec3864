"""The site as `make docs` builds it works from disk, without a network, on small and large screens, light and dark."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.report.browser import Browser, chromium

pytestmark = pytest.mark.slow
PAGES = ["index", "api", "own-stream", "methods/er-aml", "results/T1"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # strict: broken links fail
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_it_fits_is_silent_and_asks_for_nothing(name: str, site: Path, browser: Browser) -> None:
    for width, scheme in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]:
        browser.open(site / f"{name}.html", width=width, scheme=scheme)
        assert browser.run("document.documentElement.scrollWidth <= innerWidth"), (width, scheme)
        assert browser.complaints == [] and all(url.startswith(("file:", "data:")) for url in browser.requests)
        colour = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", colour))) < 60) == (scheme == "dark")


def test_the_search_works_from_disk(site: Path, browser: Browser) -> None:
    browser.open(site / "methods" / "er.html")
    browser.run("""
        const query = document.querySelector('input[name=query]');
        query.focus(); query.value = 'reservoir'; query.dispatchEvent(new Event('keyup'));
        new Promise((done, fail) => {
            setTimeout(fail, 20000, new Error('nothing was found'));
            const look = () => document.querySelector('.md-search-result__item a') ? done() : setTimeout(look, 50);
            look();
        })""")
    assert browser.run("document.querySelectorAll('.md-search-result__item a').length") > 1


def test_equations_are_drawn_and_blocks_say_whether_they_are_run(site: Path, browser: Browser) -> None:
    browser.open(site / "methods" / "er-ace.html")
    assert browser.run("[...document.querySelectorAll('math')].every(each => each.getBoundingClientRect().width > 0)")
    assert browser.run("document.querySelectorAll('math').length") >= 1
    assert "Not run by the tests" in browser.run("document.querySelector('.filename').textContent")


def test_symbols_stand_within_their_sentences(site: Path, browser: Browser) -> None:
    for page in sorted((site / "methods").glob("*.html")):
        browser.open(page)
        assert browser.run("[...document.querySelectorAll('math')].every(each => each.closest('.equation, p, li, td'))")
        assert "$" not in browser.run("document.querySelector('article').textContent"), page
