"""What is public has documentation that says what one needs to know, with examples that work."""

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import holdfast
from holdfast import checks, errors, losses

MODULES = ["errors", "losses", "checks", "sklearn", "river"]
MAIN = ["Learner", "Learner.observe", "open", "roll_back", "backup", "verify", "Method", "Reservoir", "pretrained"]
MAIN += [
    "adopt",
    "run",
    "sweep",
    "paper",
    "Results",
    "batches",
    "from_arrays",
    "from_dataset",
    "ordered",
    "sklearn.OnlineClassifier",
    "river.OnlineClassifier",
]
INTERNAL = {  # of classes that are public: what other rooms of the package need of them
    "Memory": {
        "codec_version",
        "copy",
        "extras",
        "find",
        "flaws",
        "remove",
        "restore",
        "settings",
        "slots_of",
        "state",
    },
    "Frozen": {"train", "forward"},
    "PaperResults": {"records"},
    "SLDA": {"scores"},
    "NCM": {"scores"},
}


def public() -> Iterator[tuple[str, Any]]:
    for name in holdfast.__all__:
        if name != "errors":
            yield name, getattr(holdfast, name)
    for name in MODULES:
        module = importlib.import_module(f"holdfast.{name}")
        for each, thing in vars(module).items():
            home = getattr(thing, "__module__", "").removesuffix(".conformance")
            if not each.startswith("_") and callable(thing) and home == module.__name__:
                yield f"{name}.{each}", thing


def documented() -> Iterator[tuple[str, Any]]:
    """And the methods of its classes."""
    for name, thing in public():
        yield name, thing
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            for each, member in vars(thing).items():
                function = getattr(member, "__func__", member)
                inherited = name != "Method" and each in vars(holdfast.Method)
                internal = each.startswith("_") or each in INTERNAL.get(name, ())
                if inspect.isfunction(function) and not inherited and not internal:
                    yield f"{name}.{each}", function


THINGS = dict(documented())


@pytest.mark.parametrize("name", THINGS)
def test_it_says_what_it_is_what_it_takes_and_what_it_returns(name: str) -> None:
    thing = THINGS[name]
    text = (thing.__doc__ if inspect.isclass(thing) else inspect.getdoc(thing)) or ""
    assert text
    if inspect.isclass(thing):
        assert text != thing.__mro__[1].__doc__
    if (inspect.isclass(thing) and issubclass(thing, Exception)) or name == "Codec":
        return
    parameters = [p for p in inspect.signature(thing).parameters if p not in ("self", "cls")]
    if name == "run":  # it shows what its **more may be, too
        parameters = ["method", "stream", "seeds", "progress", "more"]
    if name not in ("DurableLearner", "PaperResults", "Results"):  # made by functions, which say it
        assert [p for p in parameters if f"\n    {p}: " not in inspect.cleandoc(text)] == []
    returns = None if inspect.isclass(thing) else inspect.signature(thing).return_annotation
    assert returns in (None, "None") or "Returns:" in text or "Yields:" in text


@pytest.mark.parametrize("name", THINGS)
def test_it_says_what_it_raises(name: str) -> None:
    thing = THINGS[name]
    code = vars(thing).get("__init__", len) if inspect.isclass(thing) else thing
    try:
        source = textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError):  # of a dataclass, or inherited
        return
    calls = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    names = {call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
    for raised in names & set(vars(errors)):
        said = [each.__name__ for each in vars(errors)[raised].__mro__]
        assert any(f"    {each}: " in (thing.__doc__ or "") for each in said), raised


@pytest.mark.parametrize("name", MAIN)
def test_it_has_an_example(name: str) -> None:
    assert ">>> " in THINGS[name].__doc__


@pytest.mark.parametrize("name", [name for name, thing in THINGS.items() if ">>> " in (thing.__doc__ or "")])
def test_its_example_works(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    thing: Callable[..., Any] = THINGS[name]
    module = sys.modules[thing.__module__]
    (test,) = doctest.DocTestFinder(recurse=False).find(thing, name, module=module)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_what_can_be_caught_is_at_hand() -> None:
    names = [name for name, thing in vars(errors).items() if inspect.isclass(thing) and issubclass(thing, Exception)]
    assert set(names) <= set(holdfast.__all__) and set(holdfast.__all__) <= set(dir(holdfast))
    code = "import holdfast, sys; holdfast.errors.InUse; holdfast.CheckpointError; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_reference_has_all_of_it() -> None:
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text()
    modules: list[ModuleType] = [errors, losses, checks]
    for module in modules:
        assert f"::: {module.__name__}\n" in page + "\n"
    missing = [name for name in holdfast.__all__ if f"::: holdfast.{name}\n" not in page + "\n"]
    assert [name for name in missing if not hasattr(errors, name)] == []
