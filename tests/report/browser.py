"""Chromium, driven through its pipe: no network, no driver, no library."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = [
    "google-chrome",
    "chromium",
    "chromium-browser",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
]
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]


class Browser:
    """One page. Whatever it says on the console or asks of a network is kept."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest, self._last, self._session = b"", 0, ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, file: Path | str, *, width: int = 1280, scheme: str = "light", fragment: str = "") -> None:
        """A file, or an address."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        schemes = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self._call("Emulation.setEmulatedMedia", features=schemes)
        self._call("Page.navigate", url="about:blank")
        self.complaints.clear()
        self.requests.clear()
        self._call("Page.navigate", url=(file if isinstance(file, str) else file.resolve().as_uri()) + fragment)
        self.run("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")
        self.settle()

    def settle(self) -> None:
        """Until everything that is due has been drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")

    def run(self, script: str) -> Any:
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, *, held: int = 0) -> None:
        """`held`: how often it is repeated before it is let go."""
        code = ord(key.upper()) if len(key) == 1 else {"Enter": 13, "Escape": 27, "Tab": 9}[key]
        text = {"text": "\r" if key == "Enter" else key} if key == "Enter" or len(key) == 1 else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        for _ in range(held):
            self._call("Input.dispatchKeyEvent", type="keyDown", key=key, autoRepeat=True, **text)
            self.settle()
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.settle()

    def controls(self) -> list[tuple[str, str]]:
        """Role and name of whatever can be reached by keyboard, and of pictures, as a screen reader has them."""
        self._call("Accessibility.enable")
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        self._call("Accessibility.disable")
        found = []
        for node in nodes:
            role = node.get("role", {}).get("value", "")
            is_reached = any(each["name"] == "focusable" for each in node.get("properties", ()))
            if not node["ignored"] and (is_reached or role == "image") and role not in ("RootWebArea", "main"):
                found.append((role, node.get("name", {}).get("value", "")))
        return found

    def picture(self, *, whole: bool = True) -> bytes:
        return base64.b64decode(self._call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def close(self) -> None:
        os.close(self._commands)
        os.close(self._answers)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._last, "method": method, "params": parameters, **session}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._answers, 1 << 20)
            assert more, "chromium is gone"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, event: str, details: dict[str, Any]) -> None:
        if event in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(details))
        if event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])


@contextmanager
def chromium() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        missing = "pages are tested in a browser: install chromium (Debian: apt-get install chromium)"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    # above the numbers that Chromium wants them at, so that moving one there does not close the other
    high = [fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, 10) for handle in (theirs_in, theirs_out)]
    start = f'exec "$0" "$@" 3<&{high[0]} 4>&{high[1]}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [*OPTIONS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        command = ["bash", "-c", start, program, *options]
        process = subprocess.Popen(command, pass_fds=high, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for handle in (theirs_in, theirs_out, *high):
            os.close(handle)
        browser = Browser(ours_out, ours_in)
        try:
            yield browser
        finally:
            browser.close()
            process.terminate()
            process.wait(30)
