"""Pictures of the page of `holdfast serve` for the README and the documentation: docs/page-*.png, in Chromium.

python -m scripts.page_pictures
"""

import tempfile
import time
from pathlib import Path

from holdfast import Client
from holdfast.datasets.embedded import fashion
from holdfast.streams import split
from tests.report.browser import chromium
from tests.serve.process import started

DOCS = Path(__file__).parents[1] / "docs"
BATCHES = 290  # of ten, two classes in a hundred of them
PICTURES = {"watch": ("watch", 1160, "light"), "teach": ("teach", 1160, "dark"), "phone": ("teach", 390, "light")}
PAUSE = 3.5  # seconds, until the newest event is there and drawn


def main(to: Path = DOCS, batches: int = BATCHES) -> None:
    stream = split(fashion(), tasks=5)
    names, unlabelled = stream.dataset.classes, stream.dataset.test_x
    options = "--net", "small-cnn", "--shape", "x".join(map(str, unlabelled.shape[1:]))
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder) / "clothes", Path(folder) / "log", *options) as process,
        Client(process.address) as client,
        chromium() as browser,
    ):
        for number in range(batches):
            x, y, _ = stream.batch(number)
            client.observe(x, [names[index] for index in y.tolist()])
            if number % 100 == 99:
                client.checkpoint()
        for number in range(5):
            client.ask(unlabelled[[17 * number + 3]])
        for name, (view, width, scheme) in PICTURES.items():
            browser.open(process.address + "/", width=width, scheme=scheme, fragment=f"#{view}")
            time.sleep(PAUSE)
            browser.settle()
            (to / f"page-{name}.png").write_bytes(browser.picture(whole=view == "watch"))


if __name__ == "__main__":
    main()
