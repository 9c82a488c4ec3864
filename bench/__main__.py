"""Speed, each figure a ratio measured in one run. Not a test: it prints, and says what falls short."""

import torch

from bench import evaluation, http, memory, methods, serving, startup, sweeps, update
from holdfast.runs.worker import keep_freed_memory


def main() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()  # as runs do
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, one thread")
    for module in (startup, evaluation, update, methods, memory, serving, http, sweeps):
        for row in module.bench():
            sign = "≥" if row.at_least else "≤"
            verdict = "holds" if row.holds else "FALLS SHORT"
            print(f"{row.what:58} {row.value:8.3f}   {sign} {row.bound:<5} {verdict}", flush=True)


if __name__ == "__main__":
    main()
