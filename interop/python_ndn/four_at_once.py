#!/usr/bin/env python3
"""Four applications register at the same moment, each signing with a bare digest; all must be accepted and served.

Four processes wait at a barrier before each of ten rounds: their commands carry the same key (none) and often the same
millisecond, where a forwarder that keys its replay state by signer alone refuses three of the four.
"""

import asyncio
import multiprocessing as mp
import sys

from application import fresh_prefix, interface

APPLICATION = interface()
APPLICATIONS, ROUNDS = 4, 10


async def register(number: int, base: str, barrier):
    async with APPLICATION() as app:
        for turn in range(ROUNDS):
            prefix = f"{base}/{turn}/{number}"
            await asyncio.to_thread(barrier.wait, 10)
            assert await app.serve(prefix, lambda name: name.encode()), f"round {turn}: application {number} was refused"
            # Each asks its neighbour, so that an acceptance without a route would show.
            await asyncio.to_thread(barrier.wait, 10)
            name = f"{base}/{turn}/{(number + 1) % APPLICATIONS}/x{number}"
            assert await app.fetch(name) == name.encode(), f"{name} not served"
        await asyncio.to_thread(barrier.wait, 10)


def process(number: int, base: str, barrier):
    try:
        asyncio.run(register(number, base, barrier))
    except BaseException:
        barrier.abort()
        raise


def main():
    mp.set_start_method("fork")
    barrier, base = mp.Barrier(APPLICATIONS), fresh_prefix("four")
    workers = [mp.Process(target=process, args=(i, base, barrier)) for i in range(APPLICATIONS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(max(abs(worker.exitcode) for worker in workers))


main()
