"""What several tests need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def larder() -> Path:
    """Returns the command line, with which results are compared."""
    path = Path(os.environ.get("LARDER", ROOT / "target/release/larder"))
    if not path.is_file():
        pytest.fail(f"{path} is missing; run cargo build --release, or set LARDER")
    return path


@pytest.fixture(scope="session")
def nasa() -> Path:
    """Returns one day of NASA's web server."""
    return ROOT / "crates/replay/tests/data/nasa_19950801.tsv.zst"
