#!/usr/bin/env python3
"""Under the node's default policy, `filter(theta=2)+fifo` (its table made larger), a full Content Store takes a Data that is asked for a second time,
not before. (While it has free room it stores everything: empty memory needs no protection.)

The node of this check has a store of 256 KiB, which the first requests fill.
"""

import asyncio

from application import fresh_prefix, interface
from ndn.types import InterestNack
from store_outlives_producer import producer_is_gone

APPLICATION = interface()
CONTENT = bytes(8000)  # all of one size: what is left free in the full store takes none of them


async def main():
    prefix = fresh_prefix("filter")
    async with APPLICATION() as consumer:
        async with APPLICATION() as producer:
            made = []
            assert await producer.serve(prefix, lambda name: made.append(name) or CONTENT), "registration refused"
            for i in range(64):
                await consumer.fetch(f"{prefix}/filling/{i}")
            made.clear()
            for name in ["once", "twice", "twice", "thrice", "thrice", "thrice"]:
                assert await consumer.fetch(f"{prefix}/{name}") == CONTENT
        await producer_is_gone(consumer, prefix)
        asked = [name.rsplit("/", 1)[1] for name in made if "never-made" not in name]
        assert asked == ["once", "twice", "twice", "thrice", "thrice"], f"the producer was asked for {asked}"
        for name in ["twice", "thrice"]:
            assert await consumer.fetch(f"{prefix}/{name}") == CONTENT, f"{name} was not kept"
        try:
            await consumer.fetch(f"{prefix}/once", lifetime=1000)
        except InterestNack:
            pass
        else:
            raise AssertionError("what was asked for once was kept")


asyncio.run(main())
