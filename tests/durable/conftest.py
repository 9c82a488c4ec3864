from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where a learner may live; nothing is there yet."""
    return tmp_path / "learner"
