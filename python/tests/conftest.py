"""What several tests need."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _ctrl_c() -> Iterator[None]:
    """Lets Ctrl-C raise KeyboardInterrupt, also where the shell has started the tests in the
    background and so with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def larder() -> Path:
    """Returns the command line, with which results are compared."""
    path = Path(os.environ.get("LARDER", ROOT / "target/dist/larder"))
    if not path.is_file():
        pytest.fail(f"{path} is missing; run cargo build --profile dist, or set LARDER")
    return path


@pytest.fixture(scope="session")
def nasa() -> Path:
    """Returns one day of NASA's web server."""
    return ROOT / "crates/replay/tests/data/nasa_19950801.tsv.zst"
