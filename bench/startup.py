"""`holdfast --help` against starting Python, and whether it imports torch."""

import subprocess
import sys
import time

from bench.ratio import Ratio

HELP = """import sys; sys.argv = ['holdfast', '--help']
from holdfast.commands.main import main
try: main()
except SystemExit: pass"""


def bench() -> list[Ratio]:
    start = time.perf_counter()
    shown = subprocess.run(
        [sys.executable, "-c", f"{HELP}\nprint('torch' in sys.modules)"], capture_output=True, text=True, check=True
    )
    elapsed = time.perf_counter() - start
    imports = shown.stdout.splitlines()[-1] == "True"
    return [Ratio("holdfast --help, seconds", elapsed, 0.5), Ratio("torch imported by --help", float(imports), 0)]
