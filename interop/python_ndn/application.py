"""python-ndn's two application interfaces behind one face, so that each check runs the same through both.

`Appv2` is `ndn.appv2.NDNApp` (signed Interests of packet format 0.3, PIT tokens); `Legacy` is `ndn.app.NDNApp` (commands
with the signature in four name components). Nothing of the library is changed: these classes only call it.
"""

import asyncio
import os
import sys
from typing import Callable

import ndn.app
import ndn.appv2
from ndn import encoding as enc
from ndn import types
from ndn.client_conf import default_face
from ndn.security import DigestSha256Signer, KeychainDigest

TRANSPORT = os.environ.get("NDN_CLIENT_TRANSPORT", "unix:///run/nfd/nfd.sock")
"""The forwarder under test, where ndn-cxx, python-ndn and ndnd look for it too."""

Answer = Callable[[str], bytes | None]
"""The content for a name (as a URI), or None to stay silent."""


def data(name: enc.FormalName, content: bytes, freshness_ms: int = 60_000) -> bytes:
    """A Data packet signed by digest."""
    meta = enc.MetaInfo(freshness_period=freshness_ms)
    return bytes(enc.make_data(name, meta, content, signer=DigestSha256Signer()))


async def _accept(_name, _signature, _context):
    return types.ValidResult.PASS


class _Application:
    """What both have in common: connecting, and leaving by `async with`."""

    async def __aenter__(self):
        up = asyncio.Event()

        async def connected():
            up.set()

        self._loop = asyncio.create_task(self.app.main_loop(connected()))
        waiting = asyncio.create_task(up.wait())
        await asyncio.wait([self._loop, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=5)
        if not up.is_set():
            self._loop.result()  # raises what went wrong, InvalidStateError where nothing was heard
        return self

    async def __aexit__(self, *_):
        self.app.shutdown()
        await asyncio.wait([self._loop], timeout=5)

    @property
    def connected(self) -> bool:
        """Whether the face to the forwarder still stands."""
        return self.app.face.running


class Appv2(_Application):
    """An application on `ndn.appv2`."""

    def __init__(self, transport: str = TRANSPORT):
        self.app = ndn.appv2.NDNApp(client_conf={"transport": transport})

    async def serve(self, prefix: str, answer: Answer) -> bool:
        """Answers Interests under `prefix` and registers it; False where the forwarder refused."""

        def on_interest(name, _parameters, reply, _context):
            content = answer(enc.Name.to_str(name))
            if content is not None:
                reply(data(name, content))

        self.app.attach_handler(prefix, on_interest)
        return await self.app.register(prefix)

    async def unregister(self, prefix: str) -> bool:
        """Withdraws `prefix` from the forwarder."""
        return await self.app.unregister(prefix)

    async def fetch(self, name: str, **parameters) -> bytes:
        """The content of the Data for `name`; raises InterestNack or InterestTimeout."""
        _, content, _ = await self.app.express(name, _accept, **parameters)
        return bytes(content)


class Legacy(_Application):
    """An application on `ndn.app`."""

    def __init__(self, transport: str = TRANSPORT):
        self.app = ndn.app.NDNApp(face=default_face(transport), keychain=KeychainDigest())

    async def serve(self, prefix: str, answer: Answer) -> bool:
        """Answers Interests under `prefix` and registers it; False where the forwarder refused."""

        def on_interest(name, _parameters, _application_parameters):
            content = answer(enc.Name.to_str(name))
            if content is not None:
                self.app.put_raw_packet(data(name, content))

        return await self.app.register(prefix, on_interest)

    async def unregister(self, prefix: str) -> bool:
        """Withdraws `prefix` from the forwarder."""
        return await self.app.unregister(prefix)

    async def fetch(self, name: str, **parameters) -> bytes:
        """The content of the Data for `name`; raises InterestNack or InterestTimeout."""
        parameters.setdefault("lifetime", 4000)  # this interface waits 100 ms where none is given
        _, _, content = await self.app.express_interest(name, **parameters)
        return bytes(content)


BY_NAME = {"appv2": Appv2, "legacy": Legacy}


def interface() -> type[Appv2] | type[Legacy]:
    """The interface named by the first argument."""
    if len(sys.argv) < 2 or sys.argv[1] not in BY_NAME:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(BY_NAME)}")
    return BY_NAME[sys.argv[1]]


def fresh_prefix(what: str) -> str:
    """A prefix that no other run has used, so that no cached Data can answer for the producer."""
    return f"/interop/python/{what}/{os.urandom(6).hex()}"
