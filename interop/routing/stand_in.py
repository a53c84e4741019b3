#!/usr/bin/env python3
"""stand_in.py LARDER NEIGHBOUR...: a routing daemon in place of `ndnd dv` and NLSR, where they cannot be installed.

To its node it is what they are: it registers /localhost/nlsr and answers rib/register and rib/unregister there. It tells the
daemons at the addresses NEIGHBOUR all prefixes that it knows twice a second, with the hops to each (UDP port 6399), and gives its
node routes to the nearest. What a neighbour no longer says, or is further than 8 hops, is gone.
"""

import asyncio
import json
import subprocess
import sys

from ndn import appv2
from ndn import encoding as enc
from ndn.app_support import nfd_mgmt
from ndn.encoding import SignatureType
from ndn.security import DigestSha256Signer, sha256_digest_checker
from ndn.types import ValidResult

LARDER, NEIGHBOURS = sys.argv[1], sys.argv[2:]
PORT, INTERVAL, FAR = 6399, 0.5, 8

own: set[str] = set()
heard: dict[str, dict[str, int]] = {}
routes: dict[str, str] = {}


def nearest() -> dict[str, tuple[int, str]]:
    found: dict[str, tuple[int, str]] = {}
    for neighbour, prefixes in heard.items():
        for prefix, hops in prefixes.items():
            if hops < FAR and prefix not in own:
                found[prefix] = min(found.get(prefix, (FAR, "")), (hops, neighbour))
    return found


def update_routes():
    """Gives the node the routes that have changed."""
    wanted = {prefix: f"udp4://{neighbour}:6363" for prefix, (_, neighbour) in nearest().items()}
    for prefix, uri in list(routes.items()):
        if wanted.get(prefix) != uri:
            subprocess.run([LARDER, "ctl", "route", "remove", prefix, uri, "--origin", "128"], check=True)
            del routes[prefix]
    for prefix, uri in wanted.items():
        if prefix not in routes:
            subprocess.run([LARDER, "ctl", "route", "add", prefix, uri, "--origin", "128"], check=True)
            routes[prefix] = uri


class Neighbours(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, datagram, address):
        heard[address[0]] = json.loads(datagram)
        update_routes()

    def tell(self):
        known = nearest()
        for neighbour in NEIGHBOURS:
            # A route is not told to the one it leads to.
            told = {prefix: hops + 1 for prefix, (hops, via) in known.items() if via != neighbour}
            told.update({prefix: 1 for prefix in own})
            self.transport.sendto(json.dumps(told).encode(), (neighbour, PORT))


app = appv2.NDNApp()


async def signed(name, signature, _context):
    """A command is signed, by a digest that is right."""
    is_digest = signature.signature_info.signature_type == SignatureType.DIGEST_SHA256
    right = is_digest and await sha256_digest_checker(name, signature)
    return ValidResult.PASS if right else ValidResult.FAIL


@app.route("/localhost/nlsr", signed)
def on_command(name, _parameters, reply, _context):
    verb = bytes(enc.Component.get_value(name[3])).decode()
    parameters = nfd_mgmt.ControlParameters.parse(enc.Component.get_value(name[4])).cp
    prefix = enc.Name.to_str(parameters.name)
    print(verb, prefix, parameters.cost, flush=True)
    (own.add if verb == "register" else own.discard)(prefix)
    response = nfd_mgmt.ControlResponse()
    response.status_code, response.status_text = 200, b"OK"
    value = bytes(response.encode())
    content = b"\x65" + bytes([len(value)]) + value
    meta = enc.MetaInfo(freshness_period=1000)
    reply(enc.make_data(name, meta, content, signer=DigestSha256Signer()))


async def run():
    loop = asyncio.get_running_loop()
    _, neighbours = await loop.create_datagram_endpoint(Neighbours, local_addr=("0.0.0.0", PORT))
    while True:
        neighbours.tell()
        await asyncio.sleep(INTERVAL)


app.run_forever(after_start=run())
