"""The page in a real browser: teach, watch, undo."""

import base64
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import holdfast
from tests.report.browser import Browser, chromium
from tests.serve.process import started
from tests.serve.served import picture

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=document.title='owned'>"
SMALL = ("--net", "small-cnn", "--shape", "3x8x8", "--memory", "50")


FAINT = """(() => {  // text whose contrast is below 4.5, or below 3 where it is large
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const parse = text => (([red, green, blue, share = 1]) => [[red, green, blue], share])(numbers(text));
    const over = ([above, share], below) => above.map((each, i) => each * share + below[i] * (1 - share));
    const linear = each => (each /= 255) <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4;
    const light = colour => colour.map(linear).reduce((sum, each, i) => sum + each * [.2126, .7152, .0722][i], .05);
    const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let looked = 0;
    while (walk.nextNode()) {
        const text = walk.currentNode.textContent.trim(), around = walk.currentNode.parentElement, chain = [];
        const {width, height} = around.getBoundingClientRect(), style = getComputedStyle(around);
        if (!text || width * height < 2 || around.closest("option, :disabled")) continue;
        for (let each = around; each; each = each.parentElement) chain.unshift(getComputedStyle(each));
        const ground = chain.reduce((below, each) => over(parse(each.backgroundColor), below), [255, 255, 255]);
        const [colour, share] = parse(around instanceof SVGElement ? style.fill : style.color);
        const ink = over([colour, chain.reduce((sum, each) => sum * each.opacity, share)], ground);
        const [low, high] = [light(ink), light(ground)].sort((a, b) => a - b), size = parseFloat(style.fontSize);
        looked += 1;
        const least = size >= 24 || size >= 18.66 && style.fontWeight >= 700 ? 3 : 4.5;
        if (high / low < least) found.push([text, high / low]);
    }
    return {looked, found};
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def until(browser: Browser, condition: str) -> None:
    end = time.monotonic() + 30
    while not browser.run(f"Boolean({condition})"):
        assert time.monotonic() < end, (condition, browser.run("document.body.innerText"), browser.complaints)
        browser.settle()


DROP = """
const dropped = new DragEvent("drop", {dataTransfer: carried, bubbles: true});
document.getElementById("drop").dispatchEvent(dropped);
"""
PASTE = 'document.dispatchEvent(new ClipboardEvent("paste", {clipboardData: carried, cancelable: true}));'
CHOOSE = 'const input = document.getElementById("file");'
PHOTOGRAPH = 'const input = document.getElementById("camera");'
CHANGE = 'input.files = carried.files; input.dispatchEvent(new Event("change"));'
WAYS = {"drop": DROP, "paste": PASTE, "choose": CHOOSE + CHANGE, "photograph": PHOTOGRAPH + CHANGE}


def give(browser: Browser, *contents: bytes, way: str = "drop") -> None:
    texts = json.dumps([base64.b64encode(content).decode() for content in contents])
    browser.run(
        f"""(() => {{
            const carried = new DataTransfer();
            for (const text of {texts}) {{
                const content = Uint8Array.from(atob(text), c => c.charCodeAt(0));
                carried.items.add(new File([content], "a.png", {{type: "image/png"}}));
            }}
            {WAYS[way]}
        }})()"""
    )
    until(browser, "!document.getElementById('question').hidden && document.querySelector('#queue li')")


def name(browser: Browser, label: str) -> None:
    browser.run(
        f"document.getElementById('other-name').value = {json.dumps(label)};"
        "document.getElementById('other').requestSubmit()"
    )
    until(browser, "document.getElementById('question').hidden")


def test_teach_two_classes_see_accuracy_and_roll_back(browser: Browser, tmp_path: Path) -> None:
    with (
        started(tmp_path / "birds", tmp_path / "log", *SMALL) as process,
        holdfast.Client(process.address) as client,
    ):
        browser.open(process.address + "/", fragment="#teach")
        until(browser, "document.getElementById('live').classList.contains('on')")
        give(browser, picture((250, 10, 10)))
        assert browser.run("document.getElementById('verdict').textContent") == "What is this?"
        until(browser, "document.getElementById('heard').textContent.startsWith('What is this?')")
        name(browser, HOSTILE)
        give(browser, picture((10, 10, 250)))
        name(browser, "blue")
        assert client.classes == [HOSTILE, "blue"]
        client.checkpoint()
        give(browser, picture((250, 10, 10)))
        until(browser, "document.querySelectorAll('#candidates li').length === 2")
        browser.press("1")
        until(browser, "document.getElementById('question').hidden")
        assert client.step == 3

        browser.run("location.hash = 'watch'")
        until(
            browser, "document.querySelector('#chart .curve') && document.querySelectorAll('#by-class li').length === 2"
        )
        assert browser.run("document.getElementById('recent').textContent").endswith("%")
        assert HOSTILE in browser.run("document.getElementById('by-class').textContent")
        until(browser, "document.querySelectorAll('#by-class img').length === 3")
        assert browser.run("document.activeElement.id") == "view-watch"

        browser.run("location.hash = 'undo'")
        until(browser, "document.querySelectorAll('#forgettable button').length === 2")
        until(browser, "document.querySelector('button[aria-label=\"Go back to step 2\"]:enabled')")
        browser.run("document.querySelector('button[aria-label=\"Go back to step 2\"]').click()")
        until(browser, "document.getElementById('sure').open")
        assert client.step == 3 and browser.run("document.activeElement.id") == "sure"  # so that its text is read out
        browser.run("document.getElementById('sure-yes').click()")
        until(browser, "document.getElementById('live-text').textContent.includes('step 2')")
        assert client.step == 2
        until(browser, "document.activeElement !== document.body")
        browser.run("document.querySelector('button[aria-label=\"Forget blue\"]').click()")
        browser.run("document.getElementById('sure-yes').click()")
        until(browser, "document.querySelectorAll('#forgettable button').length === 1")
        assert client.classes == [HOSTILE]
        assert browser.run("document.title") == "Holdfast" and not browser.complaints
        assert all(url.startswith((process.address, "data:", "blob:")) for url in browser.requests)


def test_a_token_is_asked_for_and_limits_what_can_be_done(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("answer abcdefghijklmnop\nteach qrstuvwxyz123456\n")
    tokens = ("--token-file", str(tmp_path / "tokens"))
    with started(tmp_path / "weather", tmp_path / "log", "--shape", "4", *tokens) as process:
        with holdfast.Client(process.address, token="qrstuvwxyz123456") as client:
            client.observe([[0, 0, 0, 0], [1, 1, 1, 1]], ["calm", "storm"])
        browser.open(process.address + "/", fragment="#teach")
        until(browser, "!document.getElementById('view-token').hidden")
        for token, role in (("wrong", None), ("qrstuvwxyz123456", "teach")):
            browser.run(
                f"document.getElementById('token').value = '{token}';"
                "document.getElementById('token-form').requestSubmit()"
            )
            if role is None:
                until(browser, "document.getElementById('token-error').textContent")
        until(
            browser, "!document.getElementById('give-values').hidden && !document.getElementById('view-teach').hidden"
        )
        browser.run(
            "document.getElementById('values').value = '1, 1, 1, 0.9';"
            "document.getElementById('give-values').requestSubmit()"
        )
        until(browser, "document.querySelectorAll('#neighbours li').length === 2")
        assert browser.run("document.querySelector('#neighbours li strong').textContent") == "storm"
        browser.run("location.hash = 'undo'")
        until(browser, "document.querySelectorAll('#forgettable button').length === 2")
        assert browser.run("[...document.querySelectorAll('#forgettable button')].every(each => each.disabled)")


def test_below_the_threshold_of_a_calibrated_learner_it_is_unknown(browser: Browser, tmp_path: Path) -> None:
    x = [[0.0] * 4, [1.0] * 4, [0.5, 0.5, 0.5, 0.6], [0.1, 0.0, 0.0, 0.0]]
    with (
        started(tmp_path / "w", tmp_path / "log", "--shape", "4") as process,
        holdfast.Client(process.address) as client,
    ):
        client.observe(x[:2], ["calm", "storm"])
        client.calibrate(x, ["calm", "storm", "storm", "calm"], accept=0.5)
        unknown = client.predict(x, unknown=True).index(None)
        browser.open(process.address + "/", fragment="#teach")
        served = "new DOMParser().parseFromString(await (await fetch('/')).text(), 'text/html')"
        assert browser.run(f"(async () => {served}.getElementById('no-queue').hidden)()")  # before it has looked
        until(browser, "!document.getElementById('no-queue').hidden")
        client.ask([x[unknown]])
        until(browser, "document.getElementById('verdict').textContent === 'Unknown'")
        until(browser, "document.querySelector('#queue .name').textContent === 'Unknown'")
        assert "Below the threshold" in browser.run("document.getElementById('verdict-note').textContent")
        assert not browser.complaints


def test_pictures_come_in_every_way_and_one_that_is_refused_keeps_no_other_back(
    browser: Browser, tmp_path: Path
) -> None:
    large = picture((9, 99, 9), "JPEG", size=(6000, 4000))  # small as a file
    with started(tmp_path / "w", tmp_path / "log", *SMALL) as process, holdfast.Client(process.address) as client:
        browser.open(process.address + "/", fragment="#teach")
        until(browser, "document.getElementById('live').classList.contains('on')")
        for number, way in enumerate(WAYS, start=1):
            give(browser, picture((9, 9, 99)), way=way)
            until(browser, f"document.querySelectorAll('#queue li').length === {number}")
        give(browser, b"no picture", large)
        until(browser, f"document.querySelectorAll('#queue li').length === {len(WAYS) + 1}")
        assert "cannot be read" in browser.run("document.getElementById('said').textContent")
        assert client.state["pending"] == len(WAYS) + 1


def test_a_key_that_is_held_teaches_once_and_focus_stays_while_others_teach(browser: Browser, tmp_path: Path) -> None:
    with started(tmp_path / "w", tmp_path / "log", *SMALL) as process, holdfast.Client(process.address) as client:
        client.observe([picture((0, 0, 99)), picture((99, 0, 0))], ["blue", "red"])
        for _ in range(5):
            client.ask([picture((0, 99, 0))])
        browser.open(process.address + "/", fragment="#teach")
        until(browser, "document.querySelectorAll('#queue li').length === 5")
        browser.press("1", held=10)
        until(browser, "document.querySelectorAll('#queue li').length === 4")
        browser.press("1", held=10)
        until(browser, "document.querySelectorAll('#queue li').length === 3")
        assert client.state["pending"] == 3 and client.step == 3

        browser.run("location.hash = 'undo'")
        until(browser, "document.querySelectorAll('#forgettable button').length === 2")
        browser.run("document.querySelector('#forgettable button').focus()")
        client.observe([picture((0, 0, 98))], ["green"])
        until(browser, "document.querySelectorAll('#forgettable button').length === 3")
        assert browser.run("document.activeElement.getAttribute('aria-label')") == "Forget blue"


def test_whatever_can_be_reached_has_a_name_and_text_has_contrast(browser: Browser, tmp_path: Path) -> None:
    with started(tmp_path / "w", tmp_path / "log", *SMALL) as process, holdfast.Client(process.address) as client:
        for _ in range(3):
            client.observe([picture((0, 0, 99)), picture((99, 0, 0))], ["blue", HOSTILE])
        client.ask([picture((0, 99, 0))])
        for scheme, (view, least) in product(("light", "dark"), (("watch", 5), ("teach", 7), ("undo", 6))):
            browser.open(process.address + "/", fragment=f"#{view}", scheme=scheme)
            until(browser, "document.querySelector('section:not([hidden]) ol:not(:empty)')")
            controls = browser.controls()
            assert len(controls) >= least and all(name for _, name in controls), (view, controls)
            faint = browser.run(FAINT)
            assert faint["looked"] > 20 and not faint["found"], (scheme, view, faint)


def test_a_token_that_may_only_ask_sees_the_answer_and_no_way_to_teach(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("answer abcdefghijklmnop\nteach qrstuvwxyz123456\n")
    tokens = ("--token-file", str(tmp_path / "tokens"))
    with (
        started(tmp_path / "weather", tmp_path / "log", "--shape", "4", *tokens) as process,
        holdfast.Client(process.address, token="qrstuvwxyz123456") as client,
    ):
        client.observe([[0, 0, 0, 0], [1, 1, 1, 1]], ["calm", "storm"])
        client.ask([[0, 0, 0, 0]])
        browser.open(process.address + "/", fragment="#teach")
        browser.run("sessionStorage.setItem('holdfast-token', 'abcdefghijklmnop'); location.reload()")
        until(browser, "document.getElementById('give-values')?.hidden === false")
        browser.run(
            "document.getElementById('values').value = '1, 1, 1, 0.9';"
            "document.getElementById('give-values').requestSubmit()"
        )
        until(browser, "document.querySelectorAll('#candidates li').length === 2")
        assert browser.run("getComputedStyle(document.querySelector('#candidates button')).opacity") == "1"
        for name in ("other", "keys", "waiting", "open-count"):
            assert browser.run(f"document.getElementById('{name}').hidden"), name
        browser.press("1")
        assert client.step == 1


def test_nothing_is_wider_than_the_window(browser: Browser, tmp_path: Path) -> None:
    with started(tmp_path / "w", tmp_path / "log", *SMALL) as process, holdfast.Client(process.address) as client:
        client.observe([picture((0, 0, 9)), picture((9, 0, 0))], ["a" * 200, HOSTILE])
        client.ask([picture((0, 9, 0))])
        for width, view in product((390, 1280), ("watch", "teach", "undo")):
            browser.open(process.address + "/", fragment=f"#{view}", width=width)
            until(browser, "document.querySelector('section:not([hidden]) ol:not(:empty)')")
            assert browser.run("document.documentElement.scrollWidth") <= width, view
