#!/usr/bin/env python3
"""What a full Content Store takes: under the node's default policy, Data that was requested once; under `filter(theta=2)+fifo` (its table made
larger), Data that was requested twice. (While it has free room it stores everything: empty memory needs no protection.)

    full_store.py appv2 1|2

The node of this check has a store of 256 KiB, which the first requests fill.
"""

import asyncio
import sys

from application import fresh_prefix, interface
from ndn.types import InterestNack
from store_outlives_producer import producer_is_gone

APPLICATION = interface()
LEAST = int(sys.argv[2])  # requests after which Data is stored
CONTENT = bytes(8000)  # all of one size: what is left free in the full store takes none of them
REQUESTS = {"once": 1, "twice": 2, "thrice": 3}


async def main():
    prefix = fresh_prefix("full")
    async with APPLICATION() as consumer:
        async with APPLICATION() as producer:
            made = []
            assert await producer.serve(prefix, lambda name: made.append(name) or CONTENT), "registration refused"
            for i in range(64):
                await consumer.fetch(f"{prefix}/filling/{i}")
            made.clear()
            for name, requests in REQUESTS.items():
                for _ in range(requests):
                    assert await consumer.fetch(f"{prefix}/{name}") == CONTENT
        await producer_is_gone(consumer, prefix)
        asked = [name.rsplit("/", 1)[1] for name in made if "never-made" not in name]
        expected = [name for name, requests in REQUESTS.items() for _ in range(min(requests, LEAST))]
        assert asked == expected, f"the producer was asked for {asked}"
        for name, requests in REQUESTS.items():
            if requests >= LEAST:
                assert await consumer.fetch(f"{prefix}/{name}") == CONTENT, f"{name} was not kept"
                continue
            try:
                await consumer.fetch(f"{prefix}/{name}", lifetime=1000)
            except InterestNack:
                pass
            else:
                raise AssertionError(f"{name} was kept after {requests} requests")


asyncio.run(main())
