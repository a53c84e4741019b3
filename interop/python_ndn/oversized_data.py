#!/usr/bin/env python3
"""An application that answers with a Data over 8800 bytes loses that Data, not its face: the next answer arrives."""

import asyncio

from application import fresh_prefix, interface
from ndn.types import InterestNack, InterestTimeout

APPLICATION = interface()


async def main():
    prefix = fresh_prefix("oversized")
    async with APPLICATION() as producer, APPLICATION() as consumer:
        content = lambda name: bytes(9000) if "too-large" in name else b"small"
        assert await producer.serve(prefix, content), "registration refused"
        assert await consumer.fetch(f"{prefix}/before") == b"small"
        for i in range(3):
            try:
                got = await consumer.fetch(f"{prefix}/too-large/{i}", lifetime=300)
            except (InterestTimeout, InterestNack):
                pass
            else:
                raise AssertionError(f"a Data of over 8800 bytes was forwarded: {len(got)} bytes of content")
        assert producer.connected, "the forwarder closed the face of the application"
        assert await consumer.fetch(f"{prefix}/after") == b"small"


asyncio.run(main())
