"""What each command is for, in a sentence or two, and how it is used."""

import argparse

EXPLAINED: dict[str, tuple[str, list[str]]] = {
    "run": (
        "Runs methods on a stream with several seeds and compares them: a table beside simple baselines, pictures, and "
        "a record of each run. Results go to stdout, progress to stderr.",
        [
            "holdfast run",
            "holdfast run --stream folder:photos --method er-ace --method ncm",
            "holdfast run --stream folder:photos --net timm:resnet18 --method slda",
            "holdfast run --stream cifar10 --memory 20 --method er-ace:replay=20 --eval rotating:20",
            "holdfast run --stream arrays:table.npz --standardise --quiet --json -",
        ],
    ),
    "sweep": (
        "Runs every combination of a grid, which is a TOML file.",
        ["holdfast sweep grid.toml", "holdfast sweep grid.toml --jobs 8 --out results"],
    ),
    "paper": (
        "Makes the tables and figures of the paper, and says how they compare with the published ones.",
        ["holdfast paper", "holdfast paper T1 --quick", "holdfast paper T4 F3 --seeds 5", "holdfast paper --plan 8"],
    ),
    "tune": (
        "Chooses hyper-parameters on withheld training samples: as the paper does, or a learning rate for any stream.",
        ["holdfast tune --dataset cifar10 --method er-ace", "holdfast tune --stream folder:photos --method er-ace"],
    ),
    "cost": (
        "Says what a run would compute, how much it would keep and how long it would take here, without running it.",
        ["holdfast cost --stream cifar10 --memory 20 --method mir", "holdfast cost --method er --method scr --json"],
    ),
    "check": (
        "Checks that a method guarantees what every method has to.",
        ["holdfast check my_method.py:MyMethod", "holdfast check er-ace:replay=20"],
    ),
    "report": (
        "Puts all tables, figures and runs of a store on one page, report.html, which needs no network.",
        ["holdfast report holdfast-runs"],
    ),
    "frontier": (
        "Shows which methods are the most accurate for a given number of bytes or multiply-adds, from runs in a store.",
        ["holdfast frontier holdfast-runs", "holdfast frontier holdfast-runs --stream fashion"],
    ),
    "runs": ("Looks after the runs in a store.", ["holdfast runs list", "holdfast runs show 3fa"]),
    "runs list": (
        "Lists runs, one line for each.",
        ["holdfast runs list --where method=er-ace,seed=0", "holdfast runs list --sort=-acc --limit 10 --json"],
    ),
    "runs show": (
        "Prints everything about a run as JSON; its evaluations and answers with --json.",
        ["holdfast runs show 3fa"],
    ),
    "runs export": (
        "Writes runs as a table for other programs, or as whole records for another store.",
        ["holdfast runs export --csv runs.csv", "holdfast runs export --json all.json.xz --where method=er"],
    ),
    "runs import": ("Takes in what another store has exported.", ["holdfast runs import all.json.xz --out here"]),
    "runs save": (
        "Writes the learner that a run with --keep-learners has trained, for holdfast learner adopt and Learner.load.",
        ["holdfast runs save 3fa learner.safetensors"],
    ),
    "runs rm": ("Removes runs from a store.", ["holdfast runs rm 3fa 81b"]),
    "learner": (
        "Looks after a learner in a folder.",
        ["holdfast learner show weather", "holdfast learner verify weather"],
    ),
    "learner adopt": (
        "Makes a folder of a learner that was saved as a file, to serve it, or to go on with it, from there.",
        ["holdfast learner adopt fruits.learner fruits-learner"],
    ),
    "learner show": (
        "Says what a learner is: its step, classes, memory, log, kept checkpoints and sizes.",
        ["holdfast learner show weather", "holdfast learner show weather --json"],
    ),
    "learner verify": ("Checks every byte of a learner.", ["holdfast learner verify weather --deep"]),
    "learner backup": ("Copies a learner, also while it is in use.", ["holdfast learner backup weather copy"]),
    "learner repair": (
        "Makes a damaged learner open again, with the intact part of its log.",
        ["holdfast learner repair weather", "holdfast learner repair weather --to-step 1200 --yes"],
    ),
    "learner roll-back": (
        "Undoes what a learner has learned since a kept checkpoint.",
        ["holdfast learner roll-back weather 80", "holdfast learner roll-back weather 80 --yes"],
    ),
    "learner export": (
        "Writes the trained classifier as one file for programs without holdfast.",
        ["holdfast learner export weather model.onnx"],
    ),
    "serve": (
        "Serves a learner in a folder over HTTP.",
        ["holdfast serve weather", "holdfast serve weather --port 8080"],
    ),
    "data": ("Gets and verifies the named datasets.", ["holdfast data list", "holdfast data get cifar10"]),
    "data list": ("Lists the named datasets and whether they are here.", ["holdfast data list"]),
    "data get": (
        "Downloads a dataset and verifies it, or takes it from a file or folder.",
        ["holdfast data get cifar10", "holdfast data get mini-imagenet --from ~/mini-imagenet"],
    ),
    "data verify": ("Checks every sample of a dataset.", ["holdfast data verify cifar10"]),
    "completion": (
        'Prints a script that completes commands and options. In ~/.bashrc: eval "$(holdfast completion bash)"',
        ["holdfast completion bash", "holdfast completion zsh"],
    ),
    "doctor": (
        "Says what works on this machine and how fast, for bug reports.",
        ["holdfast doctor"],
    ),
}


def explain(parser: argparse.ArgumentParser) -> None:
    """Gives a command and its actions their descriptions and examples."""
    parser.description, examples = EXPLAINED[parser.prog.removeprefix("holdfast ")]
    parser.epilog = "examples:\n" + "\n".join(f"  {example}" for example in examples)
    parser.formatter_class = _Formatter
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                explain(each)


class _Formatter(argparse.HelpFormatter):
    """Wraps descriptions and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)
