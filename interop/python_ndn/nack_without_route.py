#!/usr/bin/env python3
"""A name that nobody serves is answered by a Nack at once, not by waiting for the time-out."""

import asyncio
import time

from application import fresh_prefix, interface
from ndn.types import InterestNack

APPLICATION = interface()


async def main():
    async with APPLICATION() as consumer:
        started = time.monotonic()
        try:
            content = await consumer.fetch(fresh_prefix("nobody"), lifetime=4000)
        except InterestNack as nack:
            seconds = time.monotonic() - started
            assert nack.reason == 150, f"Nack with reason {nack.reason}, not NoRoute (150)"
            assert seconds < 1.0, f"the Nack took {seconds:.2f} s of a lifetime of 4 s"
        else:
            raise AssertionError(f"somebody answered: {content!r}")


asyncio.run(main())
