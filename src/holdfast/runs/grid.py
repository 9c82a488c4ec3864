"""Which runs a table of choices means: the cross product of all that `holdfast run` accepts."""

import itertools
import math
import reprlib
import tomllib
from pathlib import Path
from typing import Any

from holdfast import methods
from holdfast.arguments import AT_LEAST_ONE, whole
from holdfast.errors import InputError, UnknownName
from holdfast.runs.spec import BY_METHOD, CHOICES, RunSpec

MOST_RUNS = 100_000  # of one command
MOST_BYTES = 2**16  # of a grid


# The seed first, so that every combination has been tried once before any is repeated.
AXES = {CHOICES[name].name: name for name in ("seed", *(name for name in CHOICES if name != "seed"))}


def grid(**chosen: Any) -> list[RunSpec]:
    """`grid(method=["er", "er-ace"], memory=[5, 20], seeds=3)`: every combination; a single value needs no list.

    The names are those of the options of `holdfast run`, and so is what holds where nothing is given; `seeds=3` is
    `seed=[0, 1, 2]`.
    """
    if "seeds" in chosen:
        if "seed" in chosen:
            raise InputError("give seeds, the number of them, or seed, a list of them, not both")
        chosen["seed"] = _first(chosen.pop("seeds"))
    for name in chosen:
        if name not in AXES:
            raise UnknownName("choice", name, [*AXES, "seeds"])
    values = [_values(name, chosen[name]) if name in chosen else _usual(name) for name in AXES]
    check_number(math.prod(map(len, values)))
    undecided = BY_METHOD - {AXES[name] for name in chosen}
    return [_spec(undecided, **dict(zip(AXES.values(), each, strict=True))) for each in itertools.product(*values)]


def check_number(runs: int) -> None:
    """Before they are laid out: a slip of the pen could ask for more than there is room for."""
    if runs > MOST_RUNS:
        raise InputError(f"that would be {runs:,} runs; one command does {MOST_RUNS:,} at most")


def read(file: Path) -> list[RunSpec]:
    """A grid as TOML: choices, and `[[grid]]` tables that each add a cross product of their own to these."""
    common = _toml(file)
    parts = common.pop("grid", [{}])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise InputError(f"{file}: begin each grid with [[grid]]")
    try:
        specs: list[RunSpec] = []
        for part in parts:
            specs += grid(**_plain(common | part))
            check_number(len(specs))
        return specs
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def _toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
        if len(content) <= MOST_BYTES:
            return tomllib.loads(content.decode())
    except RecursionError:
        raise InputError(f"{file} cannot be read as TOML: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as TOML: {error}") from error
    raise InputError(f"{file} is no grid: it has more than {MOST_BYTES:,} bytes")


def _plain(choices: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in choices.items()}


def _first(seeds: object) -> list[int]:
    if isinstance(seeds, list | tuple | range):
        raise InputError(f"seeds says how many there are, not {reprlib.repr(seeds)}; seed says which")
    number = whole("seeds", seeds, AT_LEAST_ONE)
    check_number(number)
    return list(range(number))


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple | range) else [given]


def _usual(name: str) -> list[Any]:
    return _listed(CHOICES[AXES[name]].usual)


def _values(name: str, given: Any) -> list[Any]:
    kinds, values = CHOICES[AXES[name]].kinds, _listed(given)
    if not values:
        raise InputError(f"{name} has no value; leave it out or give one")
    for value in values:
        if type(value) not in kinds and not (float in kinds and type(value) is int):
            expected = " or ".join(each.__name__ for each in kinds)
            more = "; holdfast.from_arrays makes a dataset of arrays" if name == "stream" else ""
            raise InputError(f"{name} must be of type {expected}, not {reprlib.repr(value)}{more}")
    return [float(value) if float in kinds else value for value in values]


def _spec(undecided: frozenset[str], method: str, **rest: Any) -> RunSpec:
    name, options = methods.parse(method)
    return RunSpec(method=name, options=options, undecided=undecided, **rest)
