"""`holdfast learner`: a learner in a folder, looked at, checked, copied, repaired, rolled back and exported."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.commands.options import shape

if TYPE_CHECKING:
    from holdfast.durable.history import Kept
    from holdfast.durable.inspection import Inspection
    from holdfast.durable.repairs import Repair
    from holdfast.durable.verification import Verification

MOST_CLASSES = 20  # that are listed


def describe(learner: argparse.ArgumentParser) -> None:
    actions = learner.add_subparsers(title="actions", metavar="ACTION", required=True)
    looking = actions.add_parser(
        "show", help="its step, classes, memory, kept checkpoints and sizes, even while it is in use"
    )
    checking = actions.add_parser("verify", help="check every byte; exit code 1 if one is wrong")
    copying = actions.add_parser("backup", help="a consistent copy, even while it is in use")
    mending = actions.add_parser("repair", help="make a damaged one open again, with the intact part of its log")
    undoing = actions.add_parser("roll-back", help="undo what it has learned since a kept checkpoint")
    taking = actions.add_parser(
        "export", help="the trained classifier as one .onnx or .pt2 file, even while it is in use"
    )
    adopting = actions.add_parser("adopt", help="make a folder of a file of learner.save or holdfast runs save")
    adopting.set_defaults(command=adopt)
    adopting.add_argument("file", type=Path, metavar="FILE", help="of learner.save or holdfast runs save; it stays")
    adopting.add_argument("folder", type=Path, metavar="FOLDER", help="that does not exist yet, for holdfast.open")
    commands = (looking, show), (checking, verify), (copying, backup), (mending, repair), (undoing, roll_back)
    for action, command in (*commands, (taking, export)):
        action.set_defaults(command=command)
        of_file = ", or a file of learner.save or holdfast runs save" if action is taking else ""
        action.add_argument("folder", type=Path, metavar="FOLDER", help=f"as given to holdfast.open{of_file}")
    for action in (looking, checking):
        action.add_argument("--json", action="store_true", help="the same for programs")
    checking.add_argument("--deep", action="store_true", help="also repeat the log, which takes as long as opening")
    copying.add_argument("target", type=Path, metavar="TARGET", help="a folder that does not exist yet")
    undoing.add_argument("step", metavar="STEP", help="of a kept checkpoint, as show lists them")
    undoing.add_argument("--yes", action="store_true", help="do not ask before it is undone")
    mending.add_argument("--yes", action="store_true", help="do not ask before something is lost")
    earlier = "go back to this step, at most to the last checkpoint"
    mending.add_argument("--to-step", type=int, metavar="N", help=earlier)
    taking.add_argument("target", type=Path, metavar="FILE", help="that is written: model.onnx or model.pt2")
    taking.add_argument("--net", metavar="NAME", help="its pretrained encoder, as for holdfast run: timm:resnet18, ...")
    size = "of the samples that will come, if a frozen encoder has another size: 3x480x640"
    taking.add_argument("--shape", type=shape, metavar="SHAPE", help=size)


def show(options: argparse.Namespace) -> int:
    from holdfast.durable.inspection import inspect

    found = inspect(options.folder)
    if options.json:
        _print_json(_as_json(found))
    else:
        _print_lines(_lines(found))
    return 0


def verify(options: argparse.Namespace) -> int:
    from holdfast.durable.verification import verify

    found = verify(options.folder, deep=options.deep)
    if options.json:
        _print_json(asdict(found) | {"ok": found.ok, "folder": str(found.folder)})
    else:
        _print_verdict(found)
    return 0 if found.ok else 1


def backup(options: argparse.Namespace) -> int:
    from holdfast.durable.backups import backup
    from holdfast.durable.inspection import inspect

    backup(options.folder, options.target)
    print(f"{options.target} has the learner of {options.folder} at step {inspect(options.target).step}")
    return 0


def adopt(options: argparse.Namespace) -> int:
    from holdfast.durable.adoption import adopt
    from holdfast.durable.inspection import inspect

    adopt(options.file, options.folder)
    print(f"{options.folder} has the learner of {options.file} at step {inspect(options.folder).step}")
    return 0


def repair(options: argparse.Namespace) -> int:
    from holdfast.durable.repairs import repair

    def agreed(plan: Repair) -> bool:
        _print_lines(_plan(plan))
        return _agreed("repair it?", options)

    done = repair(options.folder, to_step=options.to_step, yes=agreed)
    if not done.needed:
        print(f"there is nothing to repair in {options.folder}: all is whole up to step {done.step}")
    elif done.files is None:
        print("nothing was changed")
        return 1
    else:
        print(f"repaired: it opens at step {done.step}; the files from before are in {done.files}")
    return 0


def roll_back(options: argparse.Namespace) -> int:
    from holdfast.durable.history import kept
    from holdfast.durable.repairs import roll_back

    for each in kept(options.folder):
        if each.name == options.step:
            _print_lines({"goes to": _checkpoint(each), "undone": _undone(options.folder, each.step)})
            if not _agreed("roll it back?", options):
                print("nothing was changed")
                return 1
    roll_back(options.folder, options.step)
    print(f"rolled back: it opens at step {options.step}")
    return 0


def export(options: argparse.Namespace) -> int:
    import holdfast
    from holdfast.errors import InputError

    encoder = None if options.net is None else holdfast.pretrained(options.net)
    if options.folder.is_file():
        learner = holdfast.Learner.load(options.folder, encoder=encoder)
    elif options.folder.is_dir():
        learner = holdfast.open(options.folder, encoder, read_only=True)
    else:
        raise InputError(f"there is no learner {options.folder}")
    learner.export(options.target, shape=options.shape)
    size = options.target.stat().st_size / 2**20
    print(f"{options.target} answers as {options.folder} at step {learner.step}: {size:.1f} MiB")
    return 0


def _agreed(question: str, options: argparse.Namespace) -> bool:
    from holdfast.errors import InputError

    if not options.yes and not sys.stdin.isatty():
        raise InputError("nothing was changed: --yes does it")
    return options.yes or input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def _undone(folder: Path, step: int) -> str:
    from holdfast.durable.inspection import inspect
    from holdfast.errors import CheckpointError, InputError

    try:
        last = inspect(folder).step
    except (CheckpointError, InputError):  # what is there now may be damaged or missing
        last = step
    return f"steps {step + 1:,} to {last:,}" if last > step else "whatever that checkpoint does not have"


def _checkpoint(kept: Kept) -> str:
    several = "" if kept.name == str(kept.step) else f" ({kept.name})"
    return f"step {kept.step:,}{several}, written on {datetime.fromtimestamp(kept.time):%Y-%m-%d at %H:%M:%S}"


def _print_lines(lines: dict[str, str]) -> None:
    for name, text in lines.items():
        print(f"{name:11} {text}")


def _print_json(values: dict[str, Any]) -> None:
    json.dump(values, sys.stdout, indent=1)
    print()


def _print_verdict(found: Verification) -> None:
    for problem in found.problems:
        print(f"damaged: {problem}\nwhat to do: {problem.remedy}")
    for note in found.notes:
        print(f"note: {note}")
    if found.ok:
        print(f"{found.folder} is right: it opens at step {found.step}, with {found.entries} entries in its log")


def _plan(plan: Repair) -> dict[str, str]:
    kept = f"the checkpoint and {_counted(plan.kept, 'entry', 'entries')} of the log, up to step {plan.step}"
    lost = "what followed; how much it was cannot be told"
    if plan.lost:
        least = "at least " if plan.damage else ""
        steps = f", steps {plan.step + 1} to {plan.last_step}" if plan.last_step > plan.step else ""
        lost = f"{least}{_counted(plan.lost, 'entry', 'entries')}{steps}"
    return ({"damage": plan.damage} if plan.damage else {}) | {"kept": kept, "lost": lost}


def _lines(found: Inspection) -> dict[str, str]:
    memory, log, last = found.memory, found.log, found.checkpoint
    options = ", ".join(f"{name}={value}" for name, value in found.options.items())
    net = "of your own" if found.net is None else f"{found.net['name']} {tuple(found.net['shape'])}"
    at = f"at step {last.step}"
    state = "sealed" if log.sealed else "open" if found.pid else "not sealed"
    torn = f", and {log.torn} bytes of one that is not finished" if log.torn else ""
    written = ", ".join(f"{name} {value}" for name, value in last.written_by.items() if value is not None)
    user = f"process {found.pid}" + (f" on {found.host}" if found.host else "")
    return {
        "step": f"{found.step:,}",
        "classes": _classes(found),
        "method": f"{found.method}({options})",
        "net": f"{net}, {found.parameters:,} parameters and statistics",
        "memory": f"{memory.kind}, {memory.held:,} of {memory.capacity:,} held {at}, {memory.nbytes:,} bytes",
        "questions": f"{found.pending:,} open",
        "checkpoint": f"{at}, {last.nbytes:,} bytes; written by {written or 'version 0.1.0'}",
        "log": f"{log.file}, {_counted(log.entries, 'entry', 'entries')}{torn}, {log.nbytes:,} bytes, {state}",
        "kept": f"\n{'':12}".join(f"{_checkpoint(each)}, {each.nbytes:,} bytes" for each in found.kept)
        or "no earlier checkpoints; opened with keep=N, the last N are kept from then on",
        "on disk": f"{sum(found.files.values()):,} bytes in {_counted(len(found.files), 'file', 'files')}",
        "in use": f"by {user}" if found.pid else "no",
    }


def _classes(found: Inspection) -> str:
    some = ", ".join(f"{each.label!r} {each.in_memory} + {each.since}" for each in found.classes[:MOST_CLASSES])
    more = f", and {len(found.classes) - MOST_CLASSES:,} more" if len(found.classes) > MOST_CLASSES else ""
    what = f" (in memory at step {found.checkpoint.step}, + samples since): {some}{more}" if some else ""
    return f"{len(found.classes):,}{what}"


def _as_json(found: Inspection) -> dict[str, Any]:
    from holdfast.learner.labels import encode

    classes = [asdict(each) | {"label": encode(each.label)} for each in found.classes]
    return asdict(found) | {"folder": str(found.folder), "classes": classes}


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
