"""What must never happen, tried many times. Exit code 1 if it did."""

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from reliability import (
    crashes,
    cuts,
    damage,
    endurance,
    forgeries,
    growth,
    interrupts,
    kills,
    learners,
    odds,
    readers,
    timers,
)
from reliability.outcome import Figure, together

FIGURES: dict[str, Figure] = {
    "R1": Figure(
        "a run or learner killed at any moment goes on and ends as if it had not been",
        together(kills.runs_killed, learners.learners_killed),
    ),
    "R2": Figure("a crash at any operation leaves the state before or after", crashes.crash_at_every_operation),
    "R3": Figure("nothing acknowledged is lost with the power", crashes.power_loss),
    "R4": Figure("a stream starts at any batch with the same bits", kills.streams_started_anywhere),
    "R5": Figure(
        "a log or file cut at any byte gives whole records or an error",
        together(cuts.cut_at_every_byte, damage.learners_cut),
    ),
    "R6": Figure(
        "a full or failing disk is a clear error and costs nothing else",
        together(crashes.disk_full_or_failing, crashes.same_learner_after_a_failure),
    ),
    "R32": Figure("what was refused because the disk failed never comes back", crashes.killed_after_a_failure),
    "R8": Figure("a forged file is refused or read, and nothing else happens", forgeries.forged_files),
    "R10": Figure("a flipped bit in a learner's files is noticed", damage.bits_flipped),
    "R13": Figure(
        "interrupted at any moment, a learner is as before or after, and nobody waits for ever",
        together(interrupts.interrupted_anywhere, interrupts.opened_and_closed, timers.struck_at_random),
    ),
    "R16": Figure("growth leaves old rows and their optimizer state as they are", growth.rows_stay),
    "R18": Figure("the same seed gives the same bits, in other processes too", kills.same_seed_twice),
    "R19": Figure("a long stream takes no more memory, time or disk at its end", endurance.flat),
    "R20": Figure(
        "a reservoir holds each sample with equal probability",
        together(odds.reservoirs_are_fair, odds.encoded_reservoirs_are_fair),
    ),
    "R22": Figure(
        "asked while it learns, it answers as after one whole step",
        together(
            readers.asked_all_the_time,
            readers.asked_at_every_line_of_a_change,
            readers.changed_at_every_line_of_an_answer,
        ),
    ),
    "R23": Figure(
        "a second process at one run or learner is refused at once and told by whom",
        together(kills.two_at_one_run, learners.two_at_one_learner),
    ),
    "R24": Figure("workers killed at random: every run once, none differs", kills.workers_killed),
    "R28": Figure(
        "told to stop, it saves and ends in 5 s", together(kills.told_to_stop, learners.learners_told_to_stop)
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m reliability", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="figure", help=f"of {', '.join(FIGURES)}; all if none is given")
    parser.add_argument("--effort", type=int, default=1, help="how much to try; 1 takes seconds")
    options = parser.parse_args()
    if unknown := set(options.figures) - set(FIGURES):
        parser.error(f"there is no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")

    console = Console()
    table = Table("figure", "what", box=None)
    for column in ("tried", "lost", "seconds"):
        table.add_column(column, justify="right")
    lost = []
    for name in options.figures or FIGURES:
        figure = FIGURES[name]
        start = time.perf_counter()
        with console.status(f"{name}: {figure.promise}"):
            outcome = figure.measure(options.effort)
        seconds = time.perf_counter() - start
        table.add_row(name, figure.promise, str(outcome.tried), str(len(outcome.lost)), f"{seconds:.1f}")
        lost += [f"{name}: {line}" for line in outcome.lost]
    console.print(table)
    for line in lost:
        print(line)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
