#!/usr/bin/env python3
"""Malformed packets from the network are dropped and counted, and cost the sender's face nothing else. What is no packet of NDN
at all closes a stream, because a web page can send it (an HTTP request to NDN's port).

    hostile_packets.py UNIX_PATH TCP_PORT UDP_PORT ADMIN_PORT

Over each transport: a hostile packet, then an Interest that nobody serves, on the same face. The Nack that answers the Interest
shows that the face, and the node, live; the status page must have counted each hostile packet.
"""

import json
import socket
import sys
import urllib.request


def tlv(kind: int, value: bytes) -> bytes:
    return bytes([kind, len(value)]) + value


NAME = tlv(7, tlv(8, b"a"))
# Each is one whole element, so that a stream stays in step.
HOSTILE = {
    "an inner length past the end": bytes.fromhex("0508247f000000000000"),
    "an Interest without a name": tlv(5, b""),
    "an Interest with an empty name": tlv(5, tlv(7, b"")),
    "a Data of a name and nothing else": tlv(6, NAME),
    "a second name in an Interest": tlv(5, NAME + NAME),
    "an inner length not in the shortest form": tlv(5, NAME + b"\xfd\x00\x21\x00"),
    "an implicit digest of three bytes": tlv(5, tlv(7, tlv(1, b"abc"))),
    "a name component of type 0": tlv(5, tlv(7, tlv(0, b"a"))),
    "an unknown critical element": tlv(5, NAME + tlv(9, b"")),
    "an unknown critical field of NDNLPv2": tlv(100, b"\xfd\x03\x85\x00" + tlv(80, tlv(5, NAME))),
}
# Each datagram stands alone, so there it is a malformed packet like the others.
NO_NDN = {"a type that is none of NDN's": tlv(200, b"abc")}


def interest(number: int) -> bytes:
    """An Interest for a name that nobody serves."""
    name = tlv(7, tlv(8, b"interop") + tlv(8, b"hostile") + tlv(8, str(number).encode()))
    return tlv(5, name + tlv(10, number.to_bytes(4, "big")))


def dropped(admin_port: int, reason: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/status", timeout=5) as status:
        return json.load(status)["ndn"]["drops"][reason]


def connected(kind: int, family: int, address) -> socket.socket:
    sock = socket.socket(family, kind)
    sock.settimeout(5)
    sock.connect(address)
    return sock


def main(unix_path: str, tcp_port: int, udp_port: int, admin_port: int):
    transports = {
        "unix": connected(socket.SOCK_STREAM, socket.AF_UNIX, unix_path),
        "tcp": connected(socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", tcp_port)),
        "udp": connected(socket.SOCK_DGRAM, socket.AF_INET, ("127.0.0.1", udp_port)),
    }
    number = 0
    for transport, sock in transports.items():
        for what, packet in (HOSTILE | (NO_NDN if transport == "udp" else {})).items():
            number += 1
            before = dropped(admin_port, "malformed")
            sock.send(packet)
            sock.send(interest(number))
            try:
                answer = sock.recv(9000)
            except TimeoutError:
                answer = b""
            # An LpPacket (100) with a Nack (800) around our Interest.
            assert answer[:1] == b"\x64" and bytes.fromhex("fd0320") in answer, f"{transport}, after {what}: {answer.hex()}"
            assert interest(number) in answer, f"{transport}, after {what}: not our Interest in {answer.hex()}"
            counted = dropped(admin_port, "malformed") - before
            assert counted == 1, f"{transport}: {what} was counted {counted} times as malformed"
    for transport in ["unix", "tcp"]:
        before = dropped(admin_port, "not_ndn")
        transports[transport].send(b"".join(NO_NDN.values()) + interest(number + 1))
        try:
            answer = transports[transport].recv(9000)
        except ConnectionResetError:
            answer = b""
        assert answer == b"", f"{transport}: the Interest after a type that is none of NDN's was read: {answer.hex()}"
        counted = dropped(admin_port, "not_ndn") - before
        assert counted == 1, f"{transport}: a type that is none of NDN's was counted {counted} times"
    print(f"{number} hostile packets dropped and counted, {len(transports)} faces alive")


main(sys.argv[1], *map(int, sys.argv[2:]))
