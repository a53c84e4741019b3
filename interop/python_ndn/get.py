"""usage: get.py NAME FILE

Asks for the current version of an object by RDR, fetches its segments at the node $NDN_CLIENT_TRANSPORT with python-ndn's own
fetcher, one after the other, and writes them to a file. python-ndn's `catchunks` is not used: it asks for the bare name in place of
the metadata, and a Content Store answers that with any segment.
"""

import sys

from ndn.app import NDNApp
from ndn.app_support.segment_fetcher import segment_fetcher
from ndn.encoding import Component, Name
from ndn.security import KeychainDigest

app = NDNApp(keychain=KeychainDigest())


async def main() -> None:
    name = Name.from_str(sys.argv[1])
    keyword = Component.from_str("32=metadata")
    _, _, metadata = await app.express_interest(name + [keyword], must_be_fresh=True, can_be_prefix=True, lifetime=4000)
    versioned = Name.from_bytes(bytes(metadata))
    segments = [bytes(part) async for part in segment_fetcher(app, versioned, must_be_fresh=False)]
    with open(sys.argv[2], "wb") as file:
        file.writelines(segments)
    app.shutdown()


app.run_forever(after_start=main())
