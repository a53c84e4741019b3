#!/usr/bin/env python3
"""Data is fetched by name and by prefix from the Content Store after its producer has gone.

The node of this check runs `policy = "fifo"`, which keeps the Data whatever else is requested.
"""

import asyncio
import time

from application import fresh_prefix, interface
from ndn.types import InterestNack

APPLICATION = interface()


async def main():
    prefix = fresh_prefix("store")
    name = f"{prefix}/object/1"
    async with APPLICATION() as consumer:
        async with APPLICATION() as producer:
            assert await producer.serve(prefix, lambda name: b"kept " + name.encode()), "registration refused"
            assert await consumer.fetch(name) == b"kept " + name.encode()
            assert producer.connected
        await producer_is_gone(consumer, prefix)

        kept = b"kept " + name.encode()
        assert await consumer.fetch(name) == kept, "exact name"
        assert await consumer.fetch(f"{prefix}/object", can_be_prefix=True) == kept, "CanBePrefix, parent"
        assert await consumer.fetch(prefix, can_be_prefix=True, must_be_fresh=True) == kept, "CanBePrefix and MustBeFresh"
        try:
            await consumer.fetch(f"{prefix}/object", can_be_prefix=False, lifetime=1000)
        except InterestNack:
            pass
        else:
            raise AssertionError("a longer name answered an Interest without CanBePrefix")


async def producer_is_gone(consumer, prefix: str):
    """Waits until the forwarder has dropped the producer's route: then only the store can answer."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            await consumer.fetch(f"{prefix}/never-made-{time.monotonic_ns()}", lifetime=500)
        except InterestNack:
            return
        except Exception as error:  # a time-out: the face is not yet closed on the other side
            print("still routed:", type(error).__name__)
        await asyncio.sleep(0.05)
    raise AssertionError("the route outlived its application by 5 s")


if __name__ == "__main__":
    asyncio.run(main())
