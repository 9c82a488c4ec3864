"""Speed, each figure a ratio measured in one run. Not a test: it prints, and says what falls short."""

import argparse

import torch

from bench import evaluation, http, memory, methods, serving, startup, sweeps, update
from holdfast.allocator import keep_freed_memory

PARTS = {
    module.__name__.removeprefix("bench."): module
    for module in (startup, evaluation, update, methods, memory, serving, http, sweeps)
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("part", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parts = parser.parse_args().part or list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"{unknown[0]!r}: there are {', '.join(PARTS)}")
    torch.set_num_threads(1)
    keep_freed_memory()  # as runs and the service do
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, one thread")
    for part in parts:
        for row in PARTS[part].bench():
            sign = "≥" if row.at_least else "≤"
            verdict = "holds" if row.holds else "FALLS SHORT"
            print(f"{row.what:58} {row.value:8.3f}   {sign} {row.bound:<5} {verdict}", flush=True)


if __name__ == "__main__":
    main()
