"""What must never happen, tried many times. Exit code 1 if it did."""

import argparse
import sys
import time

from rich.console import Console

from reliability import (
    clocks,
    containers,
    crashes,
    cuts,
    damage,
    endurance,
    entries,
    exhaustion,
    folders,
    forgeries,
    growth,
    interrupts,
    kills,
    learners,
    moments,
    moves,
    odds,
    readers,
    requests,
    seals,
    services,
    timers,
    writes,
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
        "told to stop, it saves and ends in 5 s",
        together(kills.told_to_stop, learners.learners_told_to_stop, services.services_told_to_stop),
    ),
    "R31": Figure(
        "whatever is done to an open folder, its lock holds or the learner refuses, and files of others stay",
        together(folders.folders_handled, folders.folders_mounted),
    ),
    "R32": Figure("what was refused because the disk failed never comes back", crashes.killed_after_a_failure),
    "R33": Figure(
        "entries of a log in another order, missing, doubled or foreign are noticed",
        together(entries.entries_mixed_up, entries.learners_with_mixed_up_logs),
    ),
    "R34": Figure(
        "after a step that failed or an outlier, in any mode of torch, the next batch is learned",
        together(moments.steps_that_failed, moments.outliers),
    ),
    "R36": Figure(
        "a forged file with right checksums is refused in 1 s and 256 MiB, or works",
        together(seals.forged_with_right_checksums, seals.folders_forged_with_right_checksums),
    ),
    "R37": Figure("without memory at any place, a learner is as before and goes on", exhaustion.out_of_memory_anywhere),
    "R38": Figure(
        "a disk that becomes read-only is a clear error and costs nothing else",
        together(writes.disk_becomes_read_only, writes.mounted_read_only),
    ),
    "R39": Figure(
        "clocks that jump by years change nothing",
        together(clocks.clocks_jump, clocks.clocks_jump_between_checkpoints),
    ),
    "R40": Figure(
        "calls that are interrupted or write only a part cost nothing",
        together(writes.written_in_parts, writes.calls_interrupted, writes.signals_all_the_time),
    ),
    "R41": Figure("of two containers with one volume, one has the learner", containers.two_containers),
    "R42": Figure("a learner that is moved to another machine goes on, and says what differs", moves.moved_and_back),
    "R43": Figure(
        "served over HTTP and killed under load, it has learned every acknowledged batch once",
        services.killed_under_load,
    ),
    "R44": Figure(
        "served over HTTP, whatever fails or whoever misbehaves, nothing else changes and others are served",
        together(services.disks_and_folders_that_fail, services.clients_that_die_or_dawdle),
    ),
    "R45": Figure(
        "whatever is sent over HTTP: no 500, and nothing is changed by what is refused",
        together(requests.made_from_the_schema, requests.noise),
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
    lost, skipped = [], []
    print("figure    tried  lost  seconds  what must hold", flush=True)
    for name in options.figures or FIGURES:
        figure = FIGURES[name]
        start = time.perf_counter()
        with console.status(f"{name}: {figure.promise}"):
            outcome = figure.measure(options.effort)
        seconds = time.perf_counter() - start
        print(f"{name:6} {outcome.tried:8} {len(outcome.lost):5} {seconds:8.1f}  {figure.promise}", flush=True)
        lost += [f"{name}: {line}" for line in outcome.lost]
        skipped += [f"{name}: skipped: {line}" for line in outcome.skipped]
    for line in [*skipped, *lost]:
        print(line)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
