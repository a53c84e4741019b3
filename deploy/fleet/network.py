"""Network namespaces joined by a bridge, which is in a namespace, too: nothing of the machine's own network changes."""

import ctypes
import os
import socket
import subprocess
import threading

NETWORK = "10.77.0"
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


class Trouble(Exception):
    """What a person has to know, in one line."""


def last_line(text):
    return (text.strip().splitlines() or ["it does not say why"])[-1]


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True, start_new_session=True)
    if done.returncode:
        raise Trouble(f"{' '.join(words)}: {last_line(done.stderr)}")


def enter(descriptor):
    if LIBC.setns(descriptor, CLONE_NEWNET):
        raise Trouble(f"setns: {os.strerror(ctypes.get_errno())}")


class Network:
    """The bridge, and a namespace for each host. This process is in that of the bridge, from `up` to `down`."""

    def __init__(self):
        self.name, self.spaces = f"larder-fleet-{os.getpid()}", []
        self.outside, self.is_inside = os.open("/proc/self/ns/net", os.O_RDONLY), False

    def add(self, name):
        space = f"{self.name}-{name}"
        self.spaces.append(space)
        command("ip", "netns", "add", space)
        command("ip", "-n", space, "link", "set", "lo", "up")
        return space

    def up(self):
        try:
            self.bridge = self.add("bridge")
        except Trouble as trouble:
            raise Trouble(f"no network namespace can be made: run it as root, in a container with CAP_SYS_ADMIN ({trouble})") from None
        command("ip", "-n", self.bridge, "link", "add", "bridge", "type", "bridge")
        command("ip", "-n", self.bridge, "addr", "add", f"{NETWORK}.1/24", "dev", "bridge")
        command("ip", "-n", self.bridge, "link", "set", "bridge", "up")
        descriptor = os.open(f"/run/netns/{self.bridge}", os.O_RDONLY)
        enter(descriptor)
        self.is_inside = True
        os.close(descriptor)

    def host(self, name, number, delay):
        """Makes a namespace, and returns its name and its address."""
        space, address = self.add(name), f"{NETWORK}.{number}"
        command("ip", "-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", self.bridge)
        command("ip", "-n", self.bridge, "link", "set", name, "master", "bridge", "up")
        command("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        command("ip", "-n", space, "link", "set", "eth0", "up")
        if delay:
            try:
                command("tc", "-n", space, "qdisc", "add", "dev", "eth0", "root", "netem", "delay", delay, "limit", "100000")
            except (Trouble, FileNotFoundError) as trouble:
                remedy = "--delay needs tc (iproute2) and the kernel's module sch_netem (modprobe sch_netem)"
                raise Trouble(f"{remedy}: {trouble}") from None
        return space, address

    def down(self):
        if self.is_inside:
            enter(self.outside)
        for space in reversed(self.spaces):
            subprocess.run(["ip", "netns", "delete", space], stderr=subprocess.DEVNULL, start_new_session=True)

    def publish(self, address, port):
        """Passes connections to a new port of 127.0.0.1, outside, on to this address. Returns the port. Only for the main thread."""
        inside = os.open("/proc/self/ns/net", os.O_RDONLY)
        enter(self.outside)
        try:
            # The sockets of a namespace stay there.
            listener = socket.create_server(("127.0.0.1", 0))
        finally:
            enter(inside)
            os.close(inside)

        def accept():
            while True:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection((address, port), 5)
                    server.settimeout(None)
                except OSError:
                    client.close()
                    continue
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=(source, sink), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return listener.getsockname()[1]


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
