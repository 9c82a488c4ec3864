"""Runs the numerical tests under every instruction set that this processor can pretend to have.

python scripts/test_under_processors.py [--all] [pytest arguments]
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
import time

ATEN = ("default", "avx2", "avx512")
ONEDNN = ("SSE41", "AVX2", "AVX512_CORE", "AVX512_CORE_BF16", "")
NUMERICAL = (
    "tests/learner",
    "tests/measure",
    "tests/memory",
    "tests/methods",
    "tests/nets",
    "tests/laboratory/test_front.py",
    "tests/runs/test_baselines.py",
    "tests/runs/test_codec.py",
    "tests/runs/test_conditions.py",
    "tests/runs/test_features.py",
    "tests/runs/test_resume.py",
    "tests/runs/test_run.py",
    "tests/test_augment.py",
    "tests/test_checks.py",
    "tests/storage/test_checkpoint.py",
    "tests/serve/test_inference.py",
    "tests/serve/test_learning.py",
    "tests/durable",
    "tests/test_losses.py",
    "tests/test_losses_more.py",
    "tests/test_releases.py",
    "tests/test_river.py",
    "tests/test_seeds.py",
    "tests/test_sklearn.py",
)


def available() -> tuple[str, ...]:
    """What ATen can be told to use here; more than the processor has would crash it."""
    ask = "import torch; print(torch.backends.cpu.get_cpu_capability().lower())"
    plain = {name: value for name, value in os.environ.items() if name != "ATEN_CPU_CAPABILITY"}
    most = subprocess.run([sys.executable, "-c", ask], env=plain, capture_output=True, text=True, check=True)
    return ATEN[: ATEN.index(most.stdout.strip()) + 1] if most.stdout.strip() in ATEN else ATEN[:1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every test, not only the numerical ones")
    options, more = parser.parse_known_args()
    tests = ["tests"] if options.all else list(NUMERICAL)
    failed = 0
    for aten, onednn in itertools.product(available(), ONEDNN):
        limits = {"ATEN_CPU_CAPABILITY": aten} | ({"ONEDNN_MAX_CPU_ISA": onednn} if onednn else {})
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", *tests, *more],
            env=os.environ | limits | {"OMP_NUM_THREADS": "1"},
            check=False,
            capture_output=True,
            text=True,
        )
        said = [line for line in done.stdout.splitlines() if re.search(r"\b(passed|failed|error)", line)]
        outcome = said[-1].strip("= ") if said else f"exit code {done.returncode}: {done.stdout[-1500:]}"
        limited = f"oneDNN {onednn or 'as announced'}"
        print(f"ATen {aten:8} {limited:24} {outcome} ({time.monotonic() - started:.0f} s)", flush=True)
        if done.returncode:
            failed += 1
            print(*re.findall(r"^(?:FAILED|ERROR).*$", done.stdout, re.M), sep="\n", flush=True)
    print(f"{failed} of {len(available()) * len(ONEDNN)} instruction sets failed" if failed else "green under each")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
