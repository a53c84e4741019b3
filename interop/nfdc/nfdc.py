#!/usr/bin/env python3
"""What NFD's `nfdc` sends, built from the protocol's definition alone, and its answers judged as ndn-cxx judges them.

nfdc is in no registry, so its messages stand here instead: commands as Interests of packet format 0.3, signed by an ECDSA
key (SignatureNonce and SignatureTime, empty ApplicationParameters), datasets asked for with CanBePrefix and MustBeFresh and
fetched segment by segment. Nothing of a library that another client uses takes part in the encoding.

    nfdc.py SOCKET         runs a session with every command of nfdc against the forwarder there, then the calls of calls.py;
                           ends with 0 or says what is wrong
    nfdc.py --table        prints the calls as Markdown: what NFD answers, by its source, and what Larder answers
    nfdc.py --record       prints its messages, one a line: what, a tab, the packet in hexadecimal; signed at a fixed time, of a
                           face that has the number 257 (crates/forwarder/tests/fixtures/nfdc.tsv)

Sources: the NDN packet specification 0.3, NDNLPv2, the NFD management protocol, and nfdc's manual pages for what each command asks.
"""

import contextlib
import hashlib
import os
import socket
import sys
import time

import calls
from calls import CALLS, DATASET, GROUPS, NACK, NO_ANSWER, Answer, Call, answer

RECORDED_AT_MS = 1_795_000_000_000
PREFIX = "/localhost/nfd/"
# ControlParameters, and FaceQueryFilter: type, and whether a number, a text or a name.
PARAMETERS = {
    "name": (7, "name"), "face": (105, "number"), "uri": (114, "text"), "local_uri": (129, "text"), "origin": (111, "number"),
    "cost": (106, "number"), "capacity": (131, "number"), "count": (132, "number"), "flags": (108, "number"), "mask": (112, "number"),
    "strategy": (107, "strategy"), "expires": (109, "number"), "persistency": (133, "number"), "marking_interval": (135, "number"), "marking_threshold": (136, "number"), "mtu": (137, "number"),
}
FILTER = {
    "face": (105, "number"), "scheme": (131, "text"), "uri": (114, "text"), "local_uri": (129, "text"), "scope": (132, "number"),
    "persistency": (133, "number"), "link": (134, "number"),
}
# The protocol's names of what an answer holds: of ControlParameters, and of a dataset's entries.
NAMES = {
    7: "Name", 105: "FaceId", 106: "Cost", 107: "Strategy", 108: "Flags", 109: "ExpirationPeriod", 111: "Origin", 112: "Mask",
    114: "Uri", 129: "LocalUri", 131: "Capacity", 132: "Count", 133: "FacePersistency", 135: "BaseCongestionMarkingInterval",
    136: "DefaultCongestionThreshold", 137: "Mtu",
}
COUNTED = {
    144: "NInInterests", 145: "NInData", 146: "NOutInterests", 147: "NOutData", 148: "NInBytes", 149: "NOutBytes",
    151: "NInNacks", 152: "NOutNacks",
}
ENTRIES = {
    "faces": {**NAMES, **COUNTED, 132: "FaceScope", 134: "LinkType"},
    "fib": {7: "Name", 129: "NextHopRecord"}, "rib": {7: "Name", 129: "Route"},
    "cs": {131: "Capacity", 108: "Flags", 135: "NCsEntries", 129: "NHits", 130: "NMisses"},
    "strategy-choice": {7: "Name", 107: "Strategy"},
    "status": {
        **COUNTED, 128: "NfdVersion", 129: "StartTimestamp", 130: "CurrentTimestamp", 131: "NNameTreeEntries", 132: "NFibEntries",
        133: "NPitEntries", 134: "NMeasurementsEntries", 135: "NCsEntries", 153: "NSatisfiedInterests", 154: "NUnsatisfiedInterests",
    },
}
# What the answer to a command must hold for ndn-cxx to take it, and for nfdc to print all that it prints of NFD's.
FACE = {"face", "persistency", "flags", "marking_interval", "marking_threshold", "mtu"}
ANSWERED = {
    "faces/create": {"uri", "local_uri"} | FACE, "faces/update": FACE, "faces/destroy": {"face"},
    "rib/register": {"name", "face", "origin", "cost", "flags"}, "rib/unregister": {"name", "face", "origin"},
    "cs/config": {"capacity", "flags"}, "cs/erase": {"name", "count"},
    "strategy-choice/set": {"name", "strategy"}, "strategy-choice/unset": {"name"},
}


def head(number: int) -> bytes:
    return bytes([number]) if number < 253 else b"\xfd" + number.to_bytes(2, "big")


def tlv(kind: int, *value: bytes) -> bytes:
    body = b"".join(value)
    return head(kind) + head(len(body)) + body


def number(value: int) -> bytes:
    return value.to_bytes(next(n for n in (1, 2, 4, 8) if value < 1 << 8 * n), "big")


def components(uri: str) -> list[bytes]:
    kinds = {"v": 54, "seg": 50}
    made = []
    for part in uri.strip("/").split("/") if uri.strip("/") else []:
        kind, _, value = part.partition("=")
        made.append(tlv(kinds[kind], number(int(value))) if kind in kinds else tlv(8, part.encode()))
    return made


def fields(table: dict, given: dict) -> bytes:
    encode = {
        "number": number, "text": str.encode, "name": lambda uri: b"".join(components(uri)),
        "strategy": lambda uri: tlv(7, *components(uri)),
    }
    assert given.keys() <= table.keys(), given
    return b"".join(tlv(kind, encode[form](given[key])) for key, (kind, form) in table.items() if key in given)


def elements(wire: bytes) -> list[tuple[int, bytes]]:
    """The elements of `wire`, one after another; refuses what is not whole."""
    found = []
    while wire:
        sizes = []
        for _ in range(2):
            width = {253: 2, 254: 4, 255: 8}.get(wire[0], 0)
            sizes.append(int.from_bytes(wire[1 : 1 + width], "big") if width else wire[0])
            wire = wire[1 + width :]
        kind, length = sizes
        assert length <= len(wire), f"element {kind} of {length} bytes, and {len(wire)} are there"
        found.append((kind, wire[:length]))
        wire = wire[length:]
    return found


def operator():
    """What signs: the operator's key of a fresh installation; nobody but this test trusts it."""
    from Cryptodome.Hash import SHA256
    from Cryptodome.PublicKey import ECC
    from Cryptodome.Signature import DSS

    key = ECC.construct(curve="P-256", d=int.from_bytes(hashlib.sha256(b"nfdc's key").digest(), "big"))
    return lambda message: DSS.new(key, "deterministic-rfc6979", "der").sign(SHA256.new(message))


class Nfdc:
    def __init__(self, now_ms, nonce, send):
        self.sign, self.now_ms, self.nonce, self.send = operator(), now_ms, nonce, send

    def command(self, verb: str, **parameters) -> bytes:
        return self.signed(components(PREFIX + verb) + [tlv(8, tlv(104, fields(PARAMETERS, parameters)))])

    def signed(self, name: list[bytes]) -> bytes:
        """A signed command: packet specification 0.3, "Signed Interest"."""
        key_name = tlv(7, *components("/operator/KEY/%01"))
        info = tlv(44, tlv(27, number(3)), tlv(28, key_name), tlv(38, self.nonce(8)), tlv(40, number(self.now_ms())))
        covered = tlv(36) + info
        signed = covered + tlv(46, self.sign(b"".join(name) + covered))
        name = [*name, tlv(2, hashlib.sha256(signed).digest())]
        return tlv(5, tlv(7, *name), tlv(10, self.nonce(4)), tlv(12, number(10_000)), signed)

    def interest(self, name: list[bytes], discover: bool) -> bytes:
        selectors = tlv(33) + tlv(18) if discover else b""
        return tlv(5, tlv(7, *name), selectors, tlv(10, self.nonce(4)), tlv(12, number(4000)))

    def start(self, verb: str, expect: int = 200, **parameters) -> dict:
        """Runs a command; its answer must have the status `expect`, and the fields that ndn-cxx wants. Returns them."""
        _, _, content = self.data(self.send(self.command(verb, **parameters)))
        ((kind, body),) = elements(content)
        assert kind == 101, f"{verb}: no ControlResponse but {kind}"
        answer = elements(body)
        assert [k for k, _ in answer[:2]] == [102, 103], f"{verb}: StatusCode and StatusText are wanted, in this order: {answer}"
        status, text = int.from_bytes(answer[0][1], "big"), answer[1][1].decode()
        assert status == expect, f"{verb} {parameters}: {status} {text}, and not {expect}"
        if len(answer) == 2:
            assert status != 200, f"{verb}: 200 without the parameters"
            return {}
        assert answer[2][0] == 104, f"{verb}: {answer[2][0]} is no ControlParameters"
        by_kind = {kind: (key, form) for key, (kind, form) in PARAMETERS.items()}
        got = {}
        for kind, value in elements(answer[2][1]):
            if kind not in by_kind:
                assert kind >= 32 and kind % 2 == 0, f"{verb}: {kind} is critical, and in no definition"
                continue
            key, form = by_kind[kind]
            got[key] = int.from_bytes(value, "big") if form == "number" else value
        if status == 200:
            assert ANSWERED[verb] <= got.keys(), f"{verb}: without {ANSWERED[verb] - got.keys()}"
        return got

    def fetch(self, dataset: str, **query) -> list[tuple[int, bytes]]:
        """Fetches a dataset as ndn-cxx's SegmentFetcher does: discovers the version, then asks for each segment by its name."""
        name = components(PREFIX + dataset) + ([tlv(8, tlv(150, fields(FILTER, query)))] if query else [])
        first = self.data(self.send(self.interest(name, discover=True)))
        parts, final = {}, None
        answer = first
        while True:
            got, info, content = answer
            assert got[: len(name)] == name and len(got) == len(name) + 2, f"{dataset}: answered by another name"
            assert got[-2][0] == 54, f"{dataset}: no version"
            assert got[-1][0] == 50, f"{dataset}: no segment"
            segment = int.from_bytes(elements(got[-1])[0][1], "big")
            parts[segment] = content
            if 26 in info:
                final = int.from_bytes(elements(info[26])[0][1], "big")
            assert 25 in info and int.from_bytes(info[25], "big") > 0, f"{dataset}: without FreshnessPeriod"
            missing = next(i for i in range(len(parts) + 1) if i not in parts)
            if final is not None and missing > final:
                return elements(b"".join(parts[i] for i in range(final + 1)))
            answer = self.data(self.send(self.interest(first[0][:-1] + [tlv(50, number(missing))], discover=False)))

    @staticmethod
    def data(wire: bytes) -> tuple[list[bytes], dict, bytes]:
        """Name, MetaInfo and Content of a Data, bare or in an LpPacket."""
        ((kind, body),) = elements(wire)
        if kind == 100:
            header = dict(elements(body))
            assert 800 not in header, "a Nack"
            ((kind, body),) = elements(header[80])
        assert kind == 6, f"no Data but {kind}"
        parts = dict(elements(body))
        assert {22, 23} <= parts.keys(), "an unsigned Data"
        name = [tlv(k, v) for k, v in elements(parts[7])]
        return name, dict(elements(parts.get(20, b""))), parts.get(21, b"")


def session(nfdc: Nfdc):
    """Every command of nfdc, once, and what it should do."""
    peer, moved = "udp4://127.0.0.1:6399", "/interop/nfdc"

    # nfdc status report
    general = dict(nfdc.fetch("status/general"))
    lacking = {*range(128, 136), 144, 145, 146, 147, 151, 152, 153, 154} - general.keys()
    assert not lacking, f"status/general lacks {lacking}"
    for dataset in ("faces/channels", "faces/list", "cs/info", "strategy-choice/list"):
        assert nfdc.fetch(dataset), f"{dataset} is empty"
    nfdc.fetch("fib/list"), nfdc.fetch("rib/list")  # of a fresh node they are empty, and still a segment

    # nfdc face create; again; with another persistency (409, then faces/update); show; list
    made = nfdc.start("faces/create", uri=peer, persistency=0)
    face = made["face"]
    assert made["uri"] == peer.encode() and made["persistency"] == 0, made
    again = nfdc.start("faces/create", 409, uri=peer, persistency=2)
    assert again["face"] == face and FACE <= again.keys(), "a 409 shows the face that there is"
    nfdc.start("faces/update", face=face, persistency=2)
    ((_, status),) = nfdc.fetch("faces/query", face=face)
    shown = dict(elements(status))
    assert shown[114] == peer.encode() and shown[133] == b"\x02", "the face is permanent now"
    nfdc.start("faces/create", 406, uri="udp4://127.0.0.1:6398", persistency=1)
    nfdc.start("faces/update", 404, face=1 << 40, persistency=0)

    # nfdc route add, list, show, remove; nfdc fib list
    got = nfdc.start("rib/register", name=moved, face=face, origin=255, cost=7, flags=1, expires=3_600_000)
    assert (got["face"], got["origin"], got["cost"], got["flags"]) == (face, 255, 7, 1), got
    name = b"".join(components(moved))
    assert any(dict(elements(entry)).get(7) == name for _, entry in nfdc.fetch("rib/list")), "the route is not in the RIB"
    assert any(dict(elements(entry)).get(7) == name for _, entry in nfdc.fetch("fib/list")), "the route is not in the FIB"
    nfdc.start("rib/unregister", name=moved, face=face, origin=255)
    assert not any(dict(elements(entry)).get(7) == name for _, entry in nfdc.fetch("rib/list")), "the route is still there"

    # nfdc strategy set, show, unset
    nfdc.start("strategy-choice/set", name=moved, strategy="/localhost/nfd/strategy/multicast")
    chosen = {dict(elements(entry))[7] for _, entry in nfdc.fetch("strategy-choice/list")}
    assert name in chosen, "the choice is not listed"
    nfdc.start("strategy-choice/set", 404, name=moved, strategy="/localhost/nfd/strategy/nowhere")
    nfdc.start("strategy-choice/unset", name=moved)
    nfdc.start("strategy-choice/unset", 400, name="/")

    # nfdc cs config, info, erase
    def store():
        return dict(elements(dict(nfdc.fetch("cs/info"))[128]))

    before = store()
    nfdc.start("cs/config", flags=0, mask=1)
    assert store()[108] == b"\x02", "admission is off, serving on"
    nfdc.start("cs/config", flags=1, mask=1, capacity=int.from_bytes(before[131], "big"))
    assert store()[131] == before[131], "the capacity that was set"
    nfdc.start("cs/erase", name="/interop", count=256)

    # nfdc face destroy: finds the face by its URI first
    ((_, status),) = nfdc.fetch("faces/query", uri=peer)
    nfdc.start("faces/destroy", face=int.from_bytes(dict(elements(status))[105], "big"))
    assert nfdc.fetch("faces/query", uri=peer) == [], "the face is still there"


def named(found: list[tuple[int, bytes]], names: dict[int, str]) -> set[str]:
    """The names of these elements; those of Larder's own, which ndn-cxx skips, have none."""
    for kind, _ in found:
        assert kind in names or kind >= 32 and kind % 2 == 0, f"{kind} is critical, and in no definition"
    return {names[kind] for kind, _ in found if kind in names}


def outcome(nfdc: Nfdc, call: Call, given: dict) -> tuple[Answer, dict]:
    """What the forwarder answers to a call, and the parameters of its answer."""
    name = components(PREFIX + call.verb)
    if call.kind == "dataset":
        name += [tlv(8, tlv(150, fields(FILTER, given)))] if given else []
        packet = nfdc.interest(name, discover=True)
    else:
        body = {"command": [tlv(104, fields(PARAMETERS, given))], "bare": [], "raw": [b"what?"]}[call.kind]
        packet = nfdc.signed(name + [tlv(8, part) for part in body])
    try:
        wire = nfdc.send(packet)
    except TimeoutError:
        return answer(NO_ANSWER), {}
    ((kind, body),) = elements(wire)
    if kind == 100 and 800 in dict(elements(body)):
        return answer(NACK), {}
    got_name, _, content = nfdc.data(wire)
    assert got_name[: len(name)] == name, f"{call.verb}, {call.what}: the answer is of another name"
    content = elements(content)
    if [kind for kind, _ in content] == [101]:
        (_, status), _, *body = elements(content[0][1])
        got = elements(body[0][1]) if body else []
        return answer(int.from_bytes(status, "big"), *named(got, NAMES)), dict(got)
    module = call.verb.split("/")[0]
    entries = [content] if module == "status" else [elements(entry) for _, entry in nfdc.fetch(call.verb, **given)]
    return answer(DATASET, *(name for entry in entries for name in named(entry, ENTRIES[module]))), {}


def run_calls(nfdc: Nfdc):
    """Runs the calls of the table; ends if an answer is not that of its column "Larder"."""
    numbers, made, wrong = {}, [], []
    with contextlib.ExitStack() as ports:
        # A port where connections are accepted, and one that is taken, and where they are not.
        there = {}
        for kind in ("open", "closed"):
            taken = ports.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            there[kind] = taken.getsockname()[1]
            taken.listen() if kind == "open" else None
        for call in CALLS:
            needed = call.parameters.get("face")
            if isinstance(needed, str) and needed[1:] not in numbers:
                wrong.append(f"{call.verb}, {call.what}: the face {needed} was not made")
                continue
            given = {
                key: numbers[value[1:]] if key == "face" and isinstance(value, str)
                else value.format(**there) if key == "uri" else value
                for key, value in call.parameters.items()
            }
            got, parameters = outcome(nfdc, call, given)
            if call.verb == "faces/create" and got.status == 200:
                made.append(parameters[105])
                numbers[call.makes] = int.from_bytes(parameters[105], "big")
            if got != call.larder:
                wrong.append(f"{call.verb}, {call.what}: {shown(got)}, and not {shown(call.larder)}")
        for face in made:
            nfdc.start("faces/destroy", face=int.from_bytes(face, "big"))
    assert not wrong, "\n".join(["Larder's column of calls.py is not what Larder answers:", *wrong])


def shown(one: Answer | None) -> str:
    if one is None:
        return "?"
    group = max((group for group in GROUPS if group <= one.fields), key=len, default=frozenset())
    what = ", ".join(([GROUPS[group]] if group else []) + sorted(one.fields - group))
    return f"{one.status}: {what}" if what else str(one.status)


def table():
    """Prints the table of calls as Markdown, with what it is of and how many answers agree."""
    for call in CALLS:
        assert bool(call.why) == (call.nfd != call.larder), f"{call.verb}, {call.what}: a difference has a reason"
    told = [call for call in CALLS if call.nfd is not None]
    alike = sum(call.nfd == call.larder for call in told)
    print(calls.__doc__)
    print(
        f"{len(CALLS)} calls. NFD's source tells the answer to {len(told)}: Larder answers {alike} alike, and "
        f"{len(told) - alike} otherwise, for the reason in the last column.\n"
    )
    for fields_of, what in GROUPS.items():
        print(f"*{what}*: {', '.join(sorted(fields_of))}.\n")
    print("| call | NFD | Larder | reason |", "| --- | --- | --- | --- |", sep="\n")
    for call in CALLS:
        what = f"`{call.verb}`, {call.what}" if call.what else f"`{call.verb}`"
        print(f"| {what} | {shown(call.nfd)} | {shown(call.larder)} | {call.why} |")


def live(path: str):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(path)
        stream.settimeout(5)
        waiting = b""

        def send(packet: bytes) -> bytes:
            nonlocal waiting
            stream.sendall(packet)
            while True:
                if len(waiting) >= 4:
                    length = waiting[1] if waiting[1] < 253 else int.from_bytes(waiting[2:4], "big")
                    whole = length + (2 if waiting[1] < 253 else 4)
                    if len(waiting) >= whole:
                        answer, waiting = waiting[:whole], waiting[whole:]
                        return answer
                read = stream.recv(65536)
                assert read, "the forwarder closed the connection"
                waiting += read

        nfdc = Nfdc(lambda: time.time_ns() // 1_000_000, os.urandom, send)
        session(nfdc)
        run_calls(nfdc)
    print(f"a session, and {len(CALLS)} calls")


def record():
    count = 0

    def nonce(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.sha256(count.to_bytes(4, "big")).digest()[:size]

    nfdc = Nfdc(lambda: RECORDED_AT_MS + count, nonce, None)
    peer = "udp4://192.0.2.1:6363"
    for verb, parameters in [
        ("faces/create", {"uri": peer, "persistency": 2}), ("faces/update", {"face": 257, "persistency": 0}),
        ("rib/register", {"name": "/nfdc", "face": 257, "origin": 255, "cost": 7, "flags": 1, "expires": 3_600_000}),
        ("rib/unregister", {"name": "/nfdc", "face": 257, "origin": 255}),
        ("strategy-choice/set", {"name": "/nfdc", "strategy": "/localhost/nfd/strategy/multicast"}),
        ("strategy-choice/unset", {"name": "/nfdc"}), ("cs/config", {"flags": 0, "mask": 1}),
        ("cs/erase", {"name": "/nfdc", "count": 256}), ("faces/destroy", {"face": 257}),
    ]:
        print(verb, nfdc.command(verb, **parameters).hex(), sep="\t")
    for dataset, query in [
        ("status/general", {}), ("faces/channels", {}), ("faces/list", {}), ("fib/list", {}), ("rib/list", {}), ("cs/info", {}),
        ("strategy-choice/list", {}), ("faces/query", {"face": 257}), ("faces/query", {"uri": peer}),
    ]:
        name = components(PREFIX + dataset) + ([tlv(8, tlv(150, fields(FILTER, query)))] if query else [])
        print(dataset, nfdc.interest(name, discover=True).hex(), sep="\t")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    match sys.argv[1]:
        case "--record":
            record()
        case "--table":
            table()
        case path:
            live(path)
