#!/usr/bin/env python3
"""Under the node's default policy, `filter(theta=2)+fifo`, a Data is stored when it is asked for the second time, not before."""

import asyncio

from application import fresh_prefix, interface
from ndn.types import InterestNack
from store_outlives_producer import producer_is_gone

APPLICATION = interface()


async def main():
    prefix = fresh_prefix("filter")
    async with APPLICATION() as consumer:
        async with APPLICATION() as producer:
            made = []
            assert await producer.serve(prefix, lambda name: made.append(name) or b"content"), "registration refused"
            for name in ["once", "twice", "twice", "thrice", "thrice", "thrice"]:
                assert await consumer.fetch(f"{prefix}/{name}") == b"content"
        await producer_is_gone(consumer, prefix)
        asked = [name.rsplit("/", 1)[1] for name in made if "never-made" not in name]
        assert asked == ["once", "twice", "twice", "thrice", "thrice"], f"the producer was asked for {asked}"
        for name in ["twice", "thrice"]:
            assert await consumer.fetch(f"{prefix}/{name}") == b"content", f"{name} was not kept"
        try:
            await consumer.fetch(f"{prefix}/once", lifetime=1000)
        except InterestNack:
            pass
        else:
            raise AssertionError("what was asked for once was kept")


asyncio.run(main())
