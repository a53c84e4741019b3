#!/usr/bin/env python3
"""A gRPC service of grpcio, and a client that calls it through Larder. Messages are bytes, so nothing is generated.

  echo.py serve PORT              the service, without TLS
  echo.py call ADDRESS            every kind of call, over HTTP/2 without TLS
  echo.py call ADDRESS --ca FILE  the same over TLS
"""

import argparse
import collections
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

LIMIT = 20


class Service(grpc.GenericRpcHandler):
    """`/test.Echo/KIND`: each kind of call echoes what it receives."""

    def __init__(self):
        # An event for each call of `Wait`, by the message of the call.
        self.given_up = collections.defaultdict(threading.Event)
        self.kinds = {
            "Unary": grpc.unary_unary_rpc_method_handler(self.unary),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
            "Count": grpc.unary_stream_rpc_method_handler(self.count),
            "Total": grpc.stream_unary_rpc_method_handler(self.total),
            "Talk": grpc.stream_stream_rpc_method_handler(self.talk),
            "Wait": grpc.unary_unary_rpc_method_handler(self.wait),
            "GivenUp": grpc.unary_unary_rpc_method_handler(lambda call, _: b"yes" if self.given_up[call].wait(LIMIT / 2) else b"no"),
        }

    def service(self, call):
        return self.kinds.get(call.method.removeprefix("/test.Echo/"))

    def unary(self, message, context):
        metadata = dict(context.invocation_metadata())
        context.send_initial_metadata((("seen", metadata.get("word", "nothing")), ("raw-bin", metadata.get("raw-bin", b""))))
        context.set_trailing_metadata((("length", str(len(message))),))
        return message

    def fail(self, message, context):
        context.set_trailing_metadata((("reason", "asked"),))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"no: {message.decode()} ä")

    def count(self, message, context):
        for number in range(int(message)):
            yield str(number).encode()

    def total(self, messages, context):
        return str(sum(len(message) for message in messages)).encode()

    def talk(self, messages, context):
        yield from messages

    def wait(self, message, context):
        """Lasts until the client has given the call up."""
        context.add_callback(self.given_up[message].set)
        self.given_up[message].wait(LIMIT)
        return message


def same(seen, expected):
    assert seen == expected, f"expected {expected!r}, not {seen!r}"


def unary(channel):
    raw = bytes(range(256))
    for message in (b"", b"a", os.urandom(1_000_000)):
        answer, call = channel.unary_unary("/test.Echo/Unary").with_call(message, LIMIT, (("word", "hello"), ("raw-bin", raw)))
        same(answer, message)
        first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
        same((first["seen"], first["raw-bin"], last["length"]), ("hello", raw, str(len(message))))


def status(channel):
    for kind, code, details in (("Fail", grpc.StatusCode.FAILED_PRECONDITION, "no: now ä"), ("Absent", grpc.StatusCode.UNIMPLEMENTED, None)):
        try:
            channel.unary_unary(f"/test.Echo/{kind}")(b"now", LIMIT)
            raise AssertionError(f"{kind} succeeded")
        except grpc.RpcError as error:
            same((error.code(), error.details() if details else None), (code, details))
            if details:
                same(dict(error.trailing_metadata())["reason"], "asked")


def streams(channel):
    same([int(number) for number in channel.unary_stream("/test.Echo/Count")(b"1000", LIMIT)], list(range(1000)))
    same(channel.stream_unary("/test.Echo/Total")(iter([b"x" * 10_000] * 200), LIMIT), b"2000000")


def conversation(channel):
    """The next message is sent when the last one has come back: nothing on the path may wait for the end of a stream."""
    turn, rounds = threading.Semaphore(1), 200

    def messages():
        for number in range(rounds):
            assert turn.acquire(timeout=LIMIT), "no answer came"
            yield f"message {number}".encode()

    for number, answer in enumerate(channel.stream_stream("/test.Echo/Talk")(messages(), LIMIT)):
        same(answer, f"message {number}".encode())
        turn.release()
    same(number, rounds - 1)


def deadline(channel):
    try:
        channel.unary_unary("/test.Echo/Wait")(os.urandom(8), 0.5)
        raise AssertionError("the call outlived its deadline")
    except grpc.RpcError as error:
        same(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)


def cancellation(channel):
    """A call that the client gives up ends at the service too. The service does not know a deadline."""
    message = os.urandom(8)
    call = channel.unary_unary("/test.Echo/Wait").future(message)
    time.sleep(0.3)
    assert not call.done(), "the call has ended by itself"
    call.cancel()
    same(channel.unary_unary("/test.Echo/GivenUp")(message, LIMIT), b"yes")


def at_once(channel):
    call = channel.unary_unary("/test.Echo/Unary")
    calls = [(message, call.future(message, LIMIT)) for message in (f"call {number}".encode() for number in range(300))]
    for message, answer in calls:
        same(answer.result(), message)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=["serve", "call"])
    parser.add_argument("address")
    parser.add_argument("--ca")
    options = parser.parse_args()
    if options.role == "serve":
        server = grpc.server(ThreadPoolExecutor(64), (Service(),))
        server.add_insecure_port(f"127.0.0.1:{options.address}")
        server.start()
        server.wait_for_termination()
    if options.ca:
        channel = grpc.secure_channel(options.address, grpc.ssl_channel_credentials(open(options.ca, "rb").read()))
    else:
        channel = grpc.insecure_channel(options.address)
    grpc.channel_ready_future(channel).result(LIMIT)
    for check in (unary, status, streams, conversation, deadline, cancellation, at_once):
        begun = time.monotonic()
        check(channel)
        print(f"{check.__name__}: passed in {time.monotonic() - begun:.2f} s")
