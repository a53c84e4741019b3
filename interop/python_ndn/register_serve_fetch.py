#!/usr/bin/env python3
"""An application registers, serves, and withdraws; another fetches, then learns that nobody serves any more."""

import asyncio

from application import fresh_prefix, interface
from ndn.types import InterestNack

APPLICATION = interface()


async def main():
    prefix = fresh_prefix("serve")
    async with APPLICATION() as producer, APPLICATION() as consumer:
        assert await producer.serve(prefix, lambda name: f"content of {name}".encode()), "registration refused"
        for i in range(20):
            name = f"{prefix}/{i}"
            content = await consumer.fetch(name)
            assert content == f"content of {name}".encode(), f"{name} came back as {content!r}"
        large = bytes(range(256)) * 31  # 7936 bytes: close to the largest Data
        assert await producer.serve(prefix + "/large", lambda _: large), "second registration refused"
        assert await consumer.fetch(prefix + "/large/1") == large, "a large Data came back changed"

        assert await producer.unregister(prefix + "/large") and await producer.unregister(prefix), "unregister refused"
        try:
            await consumer.fetch(f"{prefix}/after")
        except InterestNack as nack:
            assert nack.reason == 150, f"after unregister: Nack with reason {nack.reason}, not NoRoute (150)"
        else:
            raise AssertionError("answered after unregister")


asyncio.run(main())
