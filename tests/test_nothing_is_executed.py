"""R9: nothing in the package runs what a file says: no pickle, dill, torch.load, eval, exec."""

import ast
from pathlib import Path

import pytest

import holdfast

FILES = sorted(Path(holdfast.__file__).parent.rglob("*.py"))
MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
NAMES = {"eval", "exec", "compile", "__import__"}
CALLS = {"torch.load", "torch.save", "torch.jit.load", "torch.hub.load", "numpy.load", "np.load"}


def found_in(source: str) -> list[str]:
    found = []
    tree = ast.parse(source)
    names = NAMES - {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}  # those mean something else here
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            imported = [f"{node.module}.{name.name}" for name in node.names]
            found += [name for name in imported if name in CALLS or name.split(".")[0] in MODULES]
        elif isinstance(node, ast.Name) and node.id in names:
            found.append(node.id)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
            safe = any(word.arg == "allow_pickle" and ast.unparse(word.value) == "False" for word in node.keywords)
            found += [] if safe else [ast.unparse(node.func)]
    return found


def test_r9_nothing_is_executed() -> None:
    assert len(FILES) > 50
    assert {file.name: found for file in FILES if (found := found_in(file.read_text()))} == {}


@pytest.mark.parametrize(
    "source",
    [
        *("import pickle", "from dill import loads", "import torch; torch.load(x)", "from torch import load"),
        *("eval('1')", "exec(x)", "np.load(x)", "np.load(x, allow_pickle=True)", "run = eval", "__import__(x)"),
    ],
)
def test_if_it_were_it_would_be_seen(source: str) -> None:
    assert found_in(source)
