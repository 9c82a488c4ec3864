"""The page of a small store, opened from disk in a real browser."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from holdfast.commands.main import main
from holdfast.reproduction import tuned
from holdfast.reproduction.picks import HyperParameters
from holdfast.reproduction.setting import Setting
from holdfast.runs.store import Store
from tests.report.browser import Browser, chromium

pytestmark = pytest.mark.slow

NASTY = "<img src=x onerror=document.title=1>.py"
FAILS = """
from holdfast import ERACE

class Fails(ERACE):
    def loss(self, net, new, old=None):
        raise RuntimeError("</script><script>document.title = 'owned'</script>")
"""
TUNED = HyperParameters(0.01, "temperature=0.1")
VOID = {"meta", "link", "input", "br", "img"}


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Miniatures of a table, tuned too, and a figure, a run of the paper's, ordinary runs, and one that failed."""
    out = tmp_path_factory.mktemp("report")
    (out / NASTY).write_text(FAILS)
    to = ["--out", str(out), "--jobs", "1"]
    assert main(["paper", "T7", "F4", "--quick", "--seeds", "2", "--only", "memory=20", *to]) == 0
    plain = ["run", "--stream", "fashion:first=30", "--net", "mlp", *to]
    assert main([*plain, "--method", "er", "--method", "er-ace", "--seeds", "2"]) == 0
    assert main([*plain, "--method", f"{out / NASTY}:Fails", "--seeds", "1"]) == 1
    _pretend(Store(out / "runs.sqlite"))
    for_what = {"dataset": "cifar10", "method": "er-aml", "augment": False}
    chosen = {"chosen": TUNED._asdict()}
    tuned.add(out, [{**for_what, **chosen, "miniature": miniature} for miniature in (True, False)])
    assert main(["paper", "T7", "--quick", "--tuned", "--seeds", "1", "--only", "memory=20", *to]) == 0
    assert main(["report", str(out)]) == 0
    return out


def _pretend(store: Store) -> None:
    """On data that are not on this disk: two seeds of ER as T7 has it, one of ER-AML as it was tuned, and one of
    ER-ACE with what the released code picks for M = 20."""
    record = store.record(store.rows()[0]["id"])
    specs = Setting(method="er", memory=20).specs(2)
    specs += Setting(method="er-aml", memory=20).specs(1, picks={("cifar10", "er-aml", False): TUNED})
    specs += Setting(method="er-ace", memory=20).specs(1, whose="released")
    for number, (spec, acc) in enumerate(zip(specs, (0.265, 0.269, 0.5, 0.437), strict=True)):
        store.keep(f"cafe{number}", {**record, **spec.as_json(), "title": spec.title, "acc": acc})


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_is_silent_and_asks_for_nothing(
    width: int, scheme: str, page: Path, browser: Browser, tmp_path: Path
) -> None:
    browser.open(page, width=width, scheme=scheme)
    browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.resolve().as_uri()]
    red, green, blue = map(int, re.findall(r"\d+", browser.run("getComputedStyle(document.body).backgroundColor")))
    assert (max(red, green, blue) < 60) == (scheme == "dark")
    assert browser.run("document.querySelectorAll('.chart svg[role=img] polyline').length") >= 4
    assert browser.picture().startswith(b"\x89PNG")


def test_nothing_on_it_comes_from_elsewhere(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not re.search(r"<(script|img|iframe)[^>]*\ssrc=|@import|url\((?!#|data:)", text)


def test_tags_are_closed_and_ids_unique(page: Path) -> None:
    check = Tags()
    check.feed(page.read_text())
    assert check.open == [] and len(check.ids) == len(set(check.ids))


def test_runs_with_tuned_hyper_parameters_have_tables_of_their_own(page: Path, browser: Browser) -> None:
    browser.open(page)
    badges = "[...document.querySelectorAll('#T7-tuned-miniature .badge')].map(each => each.textContent)"
    assert browser.run(badges) == ["tuned", "miniature"]
    assert "tuned picks, from tuned.json" in browser.run("document.querySelector('#T7-tuned-miniature').textContent")
    assert "50.0" in browser.run("document.querySelector('#T7-tuned').textContent")
    assert "er-aml" not in browser.run("document.querySelector('#settings').textContent")


def test_so_have_those_with_what_the_released_code_picks(page: Path, browser: Browser) -> None:
    browser.open(page)
    assert browser.run("[...document.querySelectorAll('#T1-released .badge')].map(each => each.textContent)") == [
        "released"
    ]
    shown = browser.run("document.querySelector('#T1-released').textContent")
    assert "43.7" in shown and "as the released code loads them" in shown
    assert "43.7" not in browser.run("document.querySelector('#T1').textContent")
    assert "43.7" not in browser.run("document.querySelector('#settings').textContent")


def test_miniatures_are_marked_and_not_compared(page: Path, browser: Browser) -> None:
    browser.open(page)
    assert browser.run("document.querySelector('#T7-miniature .badge').textContent") == "miniature"
    assert browser.run("document.querySelectorAll('#miniatures .within, #miniatures .beyond').length") == 0
    assert browser.run("document.querySelectorAll('#T7-miniature td.missing').length") == 6  # M = 50
    assert browser.run("document.querySelector('#F4-miniature svg text') !== null")


def test_ours_stand_beside_the_published_without_the_data(page: Path, browser: Browser) -> None:
    browser.open(page, fragment="#T7")
    row = browser.run("document.querySelector('#T7 tbody tr').innerText").split("\t")
    assert row[:4] == ["ER", "26.7 ± 0.2 (2)", "26.7 ± 0.3", "+0.0 within 0.7"]
    missing = browser.run("document.querySelectorAll('#T7 td.missing').length")
    assert missing == 10  # two measures of all but one of six settings


def test_a_number_leads_to_its_runs(page: Path, browser: Browser) -> None:
    browser.open(page, fragment="#T7")
    browser.run("document.querySelector('#T7 td a').focus()")
    browser.press("Enter")
    assert _shown(browser) == ["cafe0", "cafe1"]
    assert browser.run("document.activeElement.closest('section').id") == "runs"
    assert browser.run("document.querySelector('#runs h2').getBoundingClientRect().top < innerHeight")
    browser.run("document.querySelector('.filters button').click()")
    browser.settle()
    assert len(_shown(browser)) == browser.run("document.querySelectorAll('table.runs tbody tr').length")


def test_every_number_has_runs_that_are_there(page: Path, browser: Browser) -> None:
    browser.open(page)
    links = browser.run(
        "[...document.querySelectorAll('main a[href^=\"#runs=\"]')].map(a => a.hash.slice(6).split(','))"
    )
    known = set(browser.run("[...document.querySelectorAll('table.runs tbody tr')].map(row => row.dataset.id)"))
    assert len(links) > 20 and all(set(ids) <= known for ids in links)


def test_filters(page: Path, browser: Browser) -> None:
    browser.open(page)
    _choose(browser, "status", "failed")
    assert len(_shown(browser)) == 1
    _choose(browser, "status", "")
    _choose(browser, "stream", "fashion:first=30")
    assert len(_shown(browser)) == 5
    _choose(browser, "method", "er-ace")
    assert len(_shown(browser)) == 2
    _choose(browser, "text", "nothing like it")
    assert _shown(browser) == []
    assert browser.run("document.querySelector('output').textContent").startswith("0 of ")


def test_columns_are_sorted(page: Path, browser: Browser) -> None:
    browser.open(page)
    accuracy = browser.run("[...document.querySelectorAll('table.runs thead button')].map(b => b.textContent)").index(
        "Acc %"
    )
    head = f"document.querySelectorAll('table.runs thead button')[{accuracy}]"
    for direction in ("ascending", "descending"):
        browser.run(f"{head}.click()")
        assert browser.run(f"{head}.parentElement.ariaSort") == direction
        texts = browser.run(
            f"[...document.querySelectorAll('table.runs tbody tr')].map(row => row.cells[{accuracy}].textContent)"
        )
        values = [0.0 if text == "–" else float(text) for text in texts]
        assert values == sorted(values, reverse=direction == "descending") and values[0] != values[-1]


def test_everything_about_a_run(page: Path, browser: Browser) -> None:
    browser.open(page, width=390)
    browser.run("document.querySelector('tr[data-id=cafe1] a').click()")
    browser.settle()
    text = browser.run("document.querySelector('dialog[open]').innerText")
    for said in ("er, seed 1", "replay", "holdfast", "cafe1", "torch", "rotating:100", "state hash"):
        assert said in text, said
    assert browser.run("document.querySelectorAll('dialog polyline').length") == 2
    browser.press("Escape")
    assert browser.run("document.querySelector('dialog').open") is False


def test_what_users_wrote_is_text(page: Path, browser: Browser) -> None:
    browser.open(page)
    assert browser.run("document.title").startswith("Holdfast: ")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert "document.title = 'owned'" in browser.run("document.querySelector('#failed pre').textContent")
    browser.run("document.querySelector('#failed a').click()")
    browser.settle()
    assert "RuntimeError: </script>" in browser.run("document.querySelector('dialog pre').textContent")
    assert NASTY in browser.run("document.querySelector('dialog h2').textContent")
    assert browser.complaints == []


def test_methods_are_compared_over_shared_seeds(page: Path, browser: Browser) -> None:
    browser.open(page)
    text = browser.run("document.querySelector('#settings .comparison table').textContent")
    assert "n = 2" in text and re.search(r"[+-]\d+\.\d\d\s+\[[+-]", text)
    assert browser.run("document.querySelectorAll('#settings .setting').length") == 1


def test_without_runs_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    error = capsys.readouterr().err
    assert "there are no runs in" in error and error.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_store_has_a_page(tmp_path: Path, browser: Browser) -> None:
    Store(tmp_path / "runs.sqlite").open()
    assert main(["report", str(tmp_path)]) == 0
    browser.open(tmp_path / "report.html")
    assert browser.complaints == [] and _shown(browser) == []


def _shown(browser: Browser) -> list[str]:
    rows = "[...document.querySelectorAll('table.runs tbody tr:not([hidden])')]"
    return list(browser.run(f"{rows}.map(row => row.dataset.id)"))


def _choose(browser: Browser, field: str, value: str) -> None:
    browser.run(
        f"(field => {{ field.value = {value!r}; field.dispatchEvent(new Event('input', {{bubbles: true}})) }})"
        f"(document.querySelector('.filters').elements[{field!r}])"
    )
