"""Two network namespaces with a link between them: one for the node, one for everybody else.

Everybody else may send from any address of 10.96.0.0/14, so that a peer, a prefix or a whole network can be played.
"""

import os
import subprocess

NODE = "10.100.0.1"
PEERS = "10.100.0.2"
#: The forged addresses are in here: 10.96.0.0 to 10.99.255.255.
ANY = "10.96.0.0/14"


def _ip(*words):
    subprocess.run(["ip", *words], check=True)


class Network:
    def __init__(self):
        self.node = f"larder-node-{os.getpid()}"
        self.peers = f"larder-peers-{os.getpid()}"

    def __enter__(self):
        for space in (self.node, self.peers):
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", self.node, "link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", self.peers)
        for space, link, address in ((self.node, "veth0", NODE), (self.peers, "veth1", PEERS)):
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", link)
            _ip("-n", space, "link", "set", link, "up")
        _ip("-n", self.node, "route", "add", ANY, "via", PEERS)
        _ip("-n", self.peers, "route", "add", "local", ANY, "dev", "lo")
        return self

    def __exit__(self, *_):
        for space in (self.node, self.peers):
            subprocess.run(["ip", "netns", "del", space], check=False)
