"""The front door: runs and sweeps as function calls."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console

from holdfast.datasets import Dataset
from holdfast.errors import OtherBits, UnknownName
from holdfast.laboratory.execution import NOTHING, Execution, Objects, do_missing
from holdfast.laboratory.objects import named
from holdfast.laboratory.results import Results
from holdfast.methods import Method
from holdfast.report.terminal import terminal
from holdfast.runs.grid import AXES, check_number, grid, read
from holdfast.runs.spec import CHOICES, RunSpec
from holdfast.streams import Source, source

OF_EXECUTION = {each.name: each.default for each in fields(Execution)}


def run(
    method: str | Method | Sequence[str | Method] = ("er", "er-ace", "holdfast"),
    stream: str | Dataset | Source | Sequence[str | Dataset | Source] = "fashion",
    seeds: int = 3,
    *,
    progress: bool = True,
    **more: Any,
) -> Results:
    """Runs methods on a stream and returns what they measured. `holdfast run` is the same call.

    Args:
        method: one or several: names with options as on the command line ("er-ace:replay=20"), `file.py:Class`, or
            objects. Objects of classes that are not part of this package run in this process, one after the other.
        stream: one or several: names as on the command line, a `Dataset`, one of Hugging Face's or
            torch's, as `holdfast.from_dataset` takes it, or what `holdfast.ordered` makes of a `Dataset`.
        seeds: how many; `seed=[3, 7]` says which.
        progress: whether to show progress. Without it, records that were made under other conditions (on another kind
            of processor, ...) give the warning `OtherBits`.
        more: other options of `holdfast run`, by name: memory, codec, lr, momentum, augment,
            average, updates, standardise, net (a name, or a function that makes an encoder from
            `(sample_shape, seed=...)`), start, probe, eval_every, eval; a list stands for each of its values. And how
            it is done: out (a folder; runs that it has are not repeated), jobs, fresh, retry_failed, keep_learners,
            log, backend, data, precision, ...

    Returns:
        The records, as a table, a data frame or a picture.

    Raises:
        InputError: if something is unknown or does not go together; nothing has then been run.
        KeyboardInterrupt: if it was interrupted. What was done is kept, and the same call continues from there.

    Examples:
        >>> import holdfast
        >>> results = holdfast.run(
        ...     ["er", holdfast.ERACE(replay=5)], "fashion:first=5", seeds=1, net="mlp", progress=False
        ... )
        >>> [record["title"] for record in results]
        ['er', 'er-ace:replay=5']
    """
    chosen = {name: value for name, value in more.items() if name not in OF_EXECUTION}
    how = Execution(**{name: value for name, value in more.items() if name in OF_EXECUTION})
    _check(chosen, [*AXES, *OF_EXECUTION])
    several = {"seeds": seeds} if "seed" not in chosen else {}
    specs, given = _specs({"method": _list(method), "stream": _list(stream), **several, **chosen}, how)
    return carry_out(specs, how, given, progress=progress)


def sweep(
    choices: str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]], *, progress: bool = True, **how: Any
) -> Results:
    """Runs every combination of a grid and returns what they measured. `holdfast sweep` is the same call.

    Args:
        choices: a TOML file as `holdfast sweep` takes it, a mapping of choices as `holdfast.run` takes them, or several
            such mappings, each a cross product of its own.
        progress: whether to show progress.
        how: how it is done, as for `holdfast.run`: out, jobs, fresh, keep_learners, ...

    Returns:
        The records of all combinations.

    Raises:
        InputError: if something is unknown or does not go together; nothing has then been run.
        KeyboardInterrupt: if it was interrupted. What was done is kept, and the same call continues from there.

    Examples:
        >>> import holdfast
        >>> grid = {"method": "er", "stream": "fashion:first=5", "memory": [1, 2], "seeds": 1, "net": "mlp"}
        >>> len(holdfast.sweep(grid, progress=False))
        2
    """
    _check(how, OF_EXECUTION)
    execution = Execution(**how)
    if isinstance(choices, str | Path):
        return carry_out(read(Path(choices)), execution, progress=progress)
    specs, given = list[RunSpec](), NOTHING
    for part in [choices] if isinstance(choices, Mapping) else choices:
        _check(part, AXES)
        of_part, more = _specs(part, execution)
        specs, given = specs + of_part, given.with_those_of(more)
        check_number(len(specs))
    return carry_out(specs, execution, given, progress=progress)


def carry_out(specs: Sequence[RunSpec], how: Execution, given: Objects = NOTHING, *, progress: bool = True) -> Results:
    """Does the runs that are missing. An interrupt is raised again when everything is safe."""
    done = do_missing(specs, how, _console(progress), given)
    if done.stopped:
        raise KeyboardInterrupt
    if not progress and (count := done.made_elsewhere()):  # which is shown otherwise
        note = f"{count} of these runs were made under other conditions (processor, torch, threads)"
        warnings.warn(f"{note}; fresh=True repeats them", OtherBits, stacklevel=3)
    return Results(done, given)


def _specs(chosen: Mapping[str, Any], how: Execution) -> tuple[list[RunSpec], Objects]:
    choices, given = named(chosen, lambda text: source(text, how.root))
    return grid(**choices), given


def _check(given: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in given:
        if name not in (names := [*known, "seeds"]):
            raise UnknownName("argument", name, names)


def _list(given: Any) -> Any:
    return list(given) if isinstance(given, tuple) else given


def _console(progress: bool) -> Console:
    return terminal(stderr=True, quiet=not progress)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """With every choice by its name, for those who complete it by a key."""
    there = inspect.signature(function)
    plain = [each for each in there.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    names = {each.name for each in plain}
    usual = {choice.name: choice.usual for choice in CHOICES.values()} | OF_EXECUTION
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value)
        for name, value in usual.items()
        if name not in names
    ]
    return there.replace(parameters=[*plain, *more])


run.__signature__ = _signature(run)  # type: ignore[attr-defined]
