#!/usr/bin/env python3
"""A name that nobody serves is answered by a Nack: a time-out is another exception."""

import asyncio

from application import fresh_prefix, interface
from ndn.types import InterestNack

APPLICATION = interface()


async def main():
    async with APPLICATION() as consumer:
        try:
            content = await consumer.fetch(fresh_prefix("nobody"), lifetime=4000)
        except InterestNack as nack:
            assert nack.reason == 150, f"Nack with reason {nack.reason}, not NoRoute (150)"
        else:
            raise AssertionError(f"somebody answered: {content!r}")


asyncio.run(main())
