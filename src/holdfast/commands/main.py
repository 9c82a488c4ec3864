"""The `holdfast` command. Heavy imports happen inside the commands, so that help answers at once."""

import argparse
import errno
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import holdfast
from holdfast.errors import HoldfastError

EPILOG = """examples:
  holdfast run                                             ER, ER-ACE and ER-AML on the embedded stream
  holdfast data get cifar10                                get and verify a dataset
  holdfast run --stream cifar10 --memory 20 --method er-ace --eval rotating:20
  holdfast cost --stream cifar10 --memory 20 --method mir   its multiply-adds, without running it
  holdfast check my_method.py:MyMethod                      does it hold what every method has to hold?
  holdfast sweep grid.toml                                  every combination of a grid, with a live table
  holdfast tune --dataset cifar10 --method er-ace           choose hyper-parameters, on validation samples
  holdfast runs list --where method=er-ace                  what was run
  holdfast report holdfast-runs                             all of it on one page, report.html
  holdfast run --stream folder:photos --method my_method.py:MyMethod
"""

STOPPED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"holdfast: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    terminated = False

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        signal.default_int_handler(number, frame)  # ends as cleanly as Ctrl-C does

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        code = _exit_code(options)
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
        if argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # the process ends: what is left is Python's own business
    return TERMINATED if terminated and code == STOPPED else code


def _exit_code(options: argparse.Namespace) -> int:
    try:
        code = int(options.command(options))
        sys.stdout.flush()
        return code
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("holdfast: stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        _leave_stdout()
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        _leave_stdout()
        print(f"holdfast: stdout cannot be written: {error.strerror}", file=sys.stderr)
        return 2


def _leave_stdout() -> None:
    """What is still to be written there is not tried again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("name a folder")
    return Path(text)


def parser() -> Parser:
    top = Parser(
        prog="holdfast",
        description="Online continual learning: run any method on any stream, with anytime accuracy and its cost.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"holdfast {holdfast.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    _describe_run(commands.add_parser("run", help="run methods on a stream and compare them"))
    _describe_sweep(commands.add_parser("sweep", help="run every combination of a grid"))
    _describe_paper(commands.add_parser("paper", help="the paper's tables and figures, published and ours"))
    _describe_tune(commands.add_parser("tune", help="choose hyper-parameters as the paper does"))
    _describe_cost(commands.add_parser("cost", help="what a run would compute, without running it"))
    _describe_check(commands.add_parser("check", help="check what every method has to hold"))
    _describe_report(commands.add_parser("report", help="all tables, figures and runs on one page"))
    _describe_runs(commands.add_parser("runs", help="list, show, export and remove runs that were made"))
    _describe_data(commands.add_parser("data", help="list, get and verify datasets"))
    _describe_doctor(commands.add_parser("doctor", help="what works on this machine and how fast, for bug reports"))
    return top


def _describe_run(run: argparse.ArgumentParser) -> None:
    _describe_setting(run)
    add = run.add_argument
    add("--seeds", type=int, metavar="N", help="seeds 0 to N-1 (default 3)")
    add("--lr", type=float, help="learning rate (default 0.1)")
    add("--augment", action="store_true", help="random crops and flips")
    add("--start", metavar="METHOD", help="learn the first task with this one: several methods from one common model")
    add(
        "--probe",
        metavar="NAME,...",
        help="also measure drift, gradient, prototype-gradient, alignment, projection, current-task",
    )
    add("--eval", metavar="MODE", help="exact (default), or rotating:K: 1/K of the test set a time")
    _describe_execution(run)
    run.set_defaults(command=_run)


def _describe_sweep(sweep: argparse.ArgumentParser) -> None:
    grid = "TOML: the options of holdfast run by their names, each a value or a list, and [[grid]] tables"
    sweep.add_argument("grid", type=Path, metavar="GRID.toml", help=grid)
    _describe_execution(sweep)
    sweep.set_defaults(command=_sweep)


def _describe_paper(paper: argparse.ArgumentParser) -> None:
    add = paper.add_argument
    add("names", nargs="*", metavar="NAME", help="T1 to T9, F1 to F10, all; or list, coverage, claims")
    add("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N-1 (default 3; the paper has 10)")
    add("--only", action="append", default=[], metavar="FIELD=VALUE", help="as method=er-ace,memory=20,dataset=cifar10")
    add("--quick", action="store_true", help="a miniature on the embedded data: minutes instead of days")
    add("--estimate", action="store_true", help="say how long it would take here, and do nothing")
    plan = "do the missing runs that are most worth so many core-hours; with --estimate only say which"
    add("--plan", type=float, metavar="HOURS", help=plan)
    add("--render", action="store_true", help="run nothing: what is in the store, with the rest as missing")
    picks = "the authors' hyper-parameters: as the text has them, or by M as the released code does (default text)"
    add("--picks", choices=("text", "released"), default="text", help=picks)
    add("--tuned", action="store_true", help="with what holdfast tune has chosen, not with the authors' picks")
    _describe_execution(paper)
    paper.set_defaults(command=_paper)


def _describe_tune(tune: argparse.ArgumentParser) -> None:
    add = tune.add_argument
    add("--dataset", default="cifar10", metavar="NAME", help="cifar10 (default), cifar100 or mini-imagenet")
    add("--method", action="append", metavar="NAME", help="repeatable (default: all that the paper has there)")
    add("--augment", action="store_true", help="random crops and flips")
    add("--memory", action="append", type=int, metavar="M", help="samples a class; repeatable (default: the paper's)")
    add("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N-1 (default 3)")
    add("--quick", action="store_true", help="a miniature on the embedded data: seconds instead of days")
    _describe_execution(tune)
    tune.set_defaults(command=_tune)


def _describe_cost(cost: argparse.ArgumentParser) -> None:
    _describe_setting(cost)
    cost.add_argument("--data", metavar="DIR", help="where datasets lie (default $HOLDFAST_DATA, or the user's cache)")
    cost.set_defaults(command=_cost, seeds=1)


def _describe_setting(command: argparse.ArgumentParser) -> None:
    """The choices that decide what a run computes; their defaults are those of the grid."""
    streams = "fashion (embedded, default), cifar10, cifar100, mini-imagenet, folder:PATH, arrays:FILE.npz"
    add = command.add_argument
    options = "tasks, batch, order=split|iid|blurry|given, distinct, share, rehearsal, first, holdout, size"
    add("--stream", metavar="NAME", help=f"{streams}; options after a colon, as in cifar10:tasks=10: {options}")
    add("--method", action="append", metavar="NAME[:option=value,...]", help="a method, or file.py:Class; repeatable")
    add("--memory", type=int, metavar="M", help="samples a class in memory (default 5)")
    add("--net", metavar="NAME", help="slim-resnet18, small-cnn or mlp (default: what suits the samples)")
    add("--eval-every", type=int, metavar="K", help="evaluate every K updates (default 10)")


def _describe_execution(command: argparse.ArgumentParser) -> None:
    """How runs are done, which changes nothing in what they find."""
    out = "where records and pictures go; runs that are there already are not repeated (default holdfast-runs)"
    add = command.add_argument
    add("--jobs", type=int, metavar="N", help="runs at a time (default: one a core)")
    add("--out", type=folder, default=Path("holdfast-runs"), metavar="DIR", help=out)
    add("--fresh", action="store_true", help="repeat runs even if their records are there")
    add("--retry-failed", action="store_true", help="repeat runs that failed")
    add("--snapshot-every", type=float, default=60, metavar="SECONDS", help="a stopped run goes on from there (60)")
    add("--keep-learners", action="store_true", help="keep what was trained, for holdfast runs save")
    add("--json", type=Path, metavar="FILE", help="also write all records of this command into one file; - is stdout")
    add("--log", action="append", default=[], metavar="SINK", help="also to tensorboard, mlflow or wandb; repeatable")
    add("--backend", choices=("local", "ray"), default="local", help="processes on this machine, or a Ray cluster")
    add("--address", metavar="auto|HOST:PORT", help="of the Ray cluster (default: one of its own on this machine)")
    add("--cpus-per-run", type=float, metavar="N", help="of the Ray cluster (default 1)")
    add("--gpus-per-run", type=float, metavar="N", help="of the Ray cluster (default 0)")
    add("--data", metavar="DIR", help="where datasets lie (default $HOLDFAST_DATA, or the user's cache)")
    precision = "of evaluation: auto (default: bf16 where a trial shows that it works and is faster), float32 or bf16"
    add("--precision", metavar="NAME", help=f"{precision}; also $HOLDFAST_PRECISION")


def _describe_check(check: argparse.ArgumentParser) -> None:
    check.add_argument("method", metavar="NAME[:option=value,...]", help="a method, or file.py:Class")
    check.set_defaults(command=_check)


def _describe_runs(runs: argparse.ArgumentParser) -> None:
    actions = runs.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=Parser)
    listing = actions.add_parser("list", help="one line a run")
    show = actions.add_parser("show", help="everything about a run")
    export = actions.add_parser("export", help="as a table for other programs")
    take_in = actions.add_parser("import", help="take in what another store has exported")
    save = actions.add_parser("save", help="the learner that a run has trained, as a file for Learner.load")
    remove = actions.add_parser("rm", help="remove runs")
    functions = {
        listing: "show_list",
        show: "show",
        export: "export",
        take_in: "take_in",
        save: "save",
        remove: "remove",
    }
    for action, function in functions.items():
        action.set_defaults(command=_runs, function=function)
        action.add_argument(
            "--out", type=folder, default=Path("holdfast-runs"), metavar="DIR", help="as in holdfast run"
        )
    for action in (listing, export):
        which = "only those: field=value,field=value, as method=er-ace,seed=0"
        action.add_argument("--where", action="append", default=[], metavar="FIELD=VALUE", help=which)
    for action in (show, save):
        action.add_argument("id", help="a run's id, or the beginning of it")
    save.add_argument("file", type=Path, metavar="FILE", help="- is stdout")
    remove.add_argument("ids", nargs="+", metavar="id", help="a run's id, or the beginning of it")
    export.add_argument("--csv", type=Path, metavar="FILE", help="- is stdout, as for the others")
    export.add_argument("--parquet", type=Path, metavar="FILE")
    export.add_argument("--json", type=Path, metavar="FILE", help="whole records, for import; .gz, .xz: compressed")
    take_in.add_argument("--replace", action="store_true", help="where numbers differ, the imported ones count")
    take_in.add_argument("files", nargs="+", type=Path, metavar="FILE.json", help="also .json.gz, .json.xz")
    export.add_argument("--evaluations", action="store_true", help="one row an evaluation instead of one a run")


def _describe_report(report: argparse.ArgumentParser) -> None:
    report.add_argument("out", type=Path, metavar="DIR", help="the --out of runs, where report.html will be")
    report.set_defaults(command=_report)


def _describe_data(data: argparse.ArgumentParser) -> None:
    actions = data.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=Parser)
    listing = actions.add_parser("list", help="what there is")
    get = actions.add_parser("get", help="download and verify")
    verify = actions.add_parser("verify", help="check every sample")
    source = "the official archive, or a folder with its files or images, already on this disk"
    get.add_argument("--from", dest="source", metavar="PATH", help=source)
    for action, command in ((listing, _data_list), (get, _data_get), (verify, _data_verify)):
        action.set_defaults(command=command)
        action.add_argument("--data", metavar="DIR", help="where datasets lie")
    for action in (get, verify):
        action.add_argument("name", help="cifar10, cifar100 or mini-imagenet")


def _describe_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("--json", action="store_true", help="the same for programs")
    doctor.add_argument("--data", metavar="DIR", help="where datasets lie")
    doctor.set_defaults(command=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from holdfast.commands.doctor import doctor

    return doctor(options)


def _run(options: argparse.Namespace) -> int:
    from holdfast.commands.run import run

    return run(options)


def _sweep(options: argparse.Namespace) -> int:
    from holdfast.commands.run import sweep

    return sweep(options)


def _paper(options: argparse.Namespace) -> int:
    from holdfast.commands.paper import paper

    return paper(options)


def _tune(options: argparse.Namespace) -> int:
    from holdfast.commands.tune import tune

    return tune(options)


def _cost(options: argparse.Namespace) -> int:
    from holdfast.commands.cost import cost

    return cost(options)


def _check(options: argparse.Namespace) -> int:
    from holdfast.commands.check import check

    return check(options.method)


def _report(options: argparse.Namespace) -> int:
    from holdfast.report.page import report

    return report(options)


def _runs(options: argparse.Namespace) -> int:
    from holdfast.commands import runs

    return int(getattr(runs, options.function)(options))


def _data_list(options: argparse.Namespace) -> int:
    from holdfast.datasets import listing
    from holdfast.datasets.get import data_root

    root = data_root(options.data)
    print(f"datasets in {root}:")
    for row in listing(root):
        shape = "×".join(map(str, row.sample_shape))
        print(f"  {row.name:13} {row.classes:4} classes {row.train:6} + {row.test:5} samples {shape:8}  {row.status}")
    return 0


def _data_get(options: argparse.Namespace) -> int:
    from holdfast.datasets.get import data_root, get

    get(options.name, data_root(options.data), options.source)
    return 0


def _data_verify(options: argparse.Namespace) -> int:
    from holdfast.datasets.get import data_root, verify

    for part, digest in verify(options.name, data_root(options.data)).items():
        print(f"{options.name} {part}: right ({digest[:16]})")
    return 0
