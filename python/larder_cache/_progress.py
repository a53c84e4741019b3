"""A progress bar in terminals and notebooks, which both show a line that returns to its start."""

from __future__ import annotations

import sys
import time

_WIDTH = 30
#: Short work shows no bar.
_FIRST_SECONDS = 0.5


class Bar:
    """One line on standard error: what is done, and the time left."""

    def __init__(self, total: int | None, unit: str, shown: bool | None) -> None:
        is_seen = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._shown = is_seen if shown is None else shown
        self._total = total
        self._unit = unit
        self._begun = time.monotonic()
        self._has_written = False

    def __call__(self, done: int) -> None:
        """Shows that so many units are done."""
        seconds = time.monotonic() - self._begun
        if not self._shown or seconds < _FIRST_SECONDS or done == 0:
            return
        line = f"{done / 1e6:.1f} M {self._unit}, {done / seconds / 1e6:.1f} M/s"
        if self._total:
            share = min(done / self._total, 1.0)
            bar = "#" * round(share * _WIDTH)
            left = seconds * (1.0 - share) / share
            line = f"{share:4.0%} [{bar:<{_WIDTH}}] {line}, {left:.0f} s left"
        sys.stderr.write(f"\r{line:<79}")
        sys.stderr.flush()
        self._has_written = True

    def close(self) -> None:
        """Removes the line."""
        if self._has_written:
            sys.stderr.write(f"\r{'':<79}\r")
            sys.stderr.flush()
