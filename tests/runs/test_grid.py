from pathlib import Path

import pytest

from holdfast.errors import InputError
from holdfast.runs.grid import grid, read


def test_every_combination_once_and_every_method_before_the_second_seed() -> None:
    specs = grid(method=["er", "er-ace:compete=batch+unseen"], memory=[5, 20], lr=[1, 0.01], seeds=2, augment=True)
    assert len(specs) == len(set(specs)) == 16
    assert [spec.seed for spec in specs] == [0] * 8 + [1] * 8
    assert {(s.method, s.memory, s.lr) for s in specs[:8]} == {
        (method, memory, lr) for method in ("er", "er-ace") for memory in (5, 20) for lr in (1.0, 0.01)
    }
    assert specs[-1].options == {"compete": "batch+unseen"} and specs[-1].augment


def test_a_file_holds_common_choices_and_grids_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(
        """
        stream = "cifar10"
        memory = [5, 20]
        seed = [3, 7]
        eval-every = 50

        [[grid]]
        method = ["er", "er-ace"]
        lr = 0.1

        [[grid]]
        method = "icarl"
        lr = 0.01
        memory = 20
        """
    )
    specs = read(file)
    assert len(specs) == 2 * 2 * 2 + 2
    assert {(s.method, s.lr) for s in specs} == {("er", 0.1), ("er-ace", 0.1), ("icarl", 0.01)}
    assert {s.seed for s in specs} == {3, 7} and {s.eval_every for s in specs} == {50}
    assert {s.memory for s in specs if s.method == "icarl"} == {20}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("methods = ['er']", "unknown choice 'methods': did you mean 'method'?"),
        ("memory = 'many'", "memory must be a number of samples a class, as 20 or 20/class, or of bytes in all"),
        ("memory = [5, true]", "memory must be of type int or str, not True"),
        ("method = []", "method has no value"),
        ("seeds = 0", "seeds must be a whole number of 1 or more, not 0"),
        ("seeds = 2\nseed = [1]", "not both"),
        ("lr = [0.0]", "above 0"),
        ("grid = 3", "[[grid]]"),
        ("method = ", "cannot be read as TOML"),
        ("seeds = 1000000000", "that would be 1,000,000,000 runs; one command does 100,000 at most"),
        ("seeds = 40_000\nmethod = ['er', 'er-ace', 'er-aml']", "that would be 120,000 runs"),
        ("seeds = 40_000\nmethod = 'er'\n[[grid]]\n[[grid]]\n[[grid]]", "that would be 120,000 runs"),
        (f"memory = {'[' * 60_000}", "nested too deeply"),
        (f"memory = {'[' * 90}1{']' * 90}", "memory must be of type int or str, not [[[[[[[...]]]]]]]"),
        (f"seeds = {'9' * 5000}", "cannot be read as TOML"),
        (f"stream = '{'x' * 2**16}'", "more than 65,536 bytes"),
    ],
)
def test_mistakes_in_a_file_are_named(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read(file)
    assert said in str(error.value) and str(file) in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml"):
        read(tmp_path / "nowhere.toml")
