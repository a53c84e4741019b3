"""What NFD and Larder answer to the commands and queries of nfdc: usual, odd and wrong ones.

Larder's column is what a node answers: `nfdc.py SOCKET` fails where it is not so. NFD's column was
read from its source, and was not recorded from a run:

  NFD      commit 1db1bb66 (2025, after release 24.07): the managers of faces, fib, rib, cs and
           strategy-choice in daemon/mgmt; the newest version that was found of other files in
           daemon/mgmt, face, fw and table, of 2015 (unix-stream-transport.cpp) to 2024
  ndn-cxx  commit 0e13ed33 (2025): mgmt/dispatcher; versions of 2023 to 2025 of control-command,
           control-parameters and face-query-filter in mgmt/nfd, and of net/face-uri

It is for nfd.conf with the sections of the node's configuration: `unix`, `tcp`, `udp` with
`enable_v6 no`, `websocket`; `certfile any`; no `ether`. A `?` means that the answer does not follow
from what was found: whether a TCP face may have an MTU, which tcp-factory.cpp of 2018 cannot say.

The calls run in this order over one connection; those before make the faces of those after.
"""

from dataclasses import dataclass, field

NO_ANSWER = "no answer"
NACK = "Nack"
DATASET = "dataset"


@dataclass(frozen=True)
class Answer:
    """The status, or one of the three words above, with the fields that come with it."""

    status: int | str
    fields: frozenset[str] = frozenset()


def answer(status: int | str, *fields: str) -> Answer:
    return Answer(status, frozenset(fields))


FACE = ("FaceId", "FacePersistency", "Flags", "BaseCongestionMarkingInterval")
FACE += ("DefaultCongestionThreshold", "Mtu")
FACE_STATUS = (*FACE, "Uri", "LocalUri", "FaceScope", "LinkType")
FACE_STATUS += ("NInInterests", "NInData", "NInNacks", "NOutInterests", "NOutData", "NOutNacks")
FACE_STATUS += ("NInBytes", "NOutBytes")
GENERAL_STATUS = ("NfdVersion", "StartTimestamp", "CurrentTimestamp", "NNameTreeEntries")
GENERAL_STATUS += ("NFibEntries", "NPitEntries", "NMeasurementsEntries", "NCsEntries")
GENERAL_STATUS += ("NInInterests", "NInData", "NInNacks", "NOutInterests", "NOutData", "NOutNacks")
GENERAL_STATUS += ("NSatisfiedInterests", "NUnsatisfiedInterests")
ROUTE = ("Name", "FaceId", "Origin", "Cost", "Flags")

UPDATED = answer(200, *FACE)
CREATED = answer(200, *FACE, "Uri", "LocalUri")
EXISTS = answer(409, *FACE, "Uri", "LocalUri")
FACES = answer(DATASET, *FACE_STATUS)
NOBODY = answer(DATASET)
SILENCE = answer(NO_ANSWER)

# Groups of fields that the table names by one word.
GROUPS = {
    frozenset((*FACE, "Uri", "LocalUri")): "new face",
    frozenset(FACE): "face",
    frozenset(FACE_STATUS): "FaceStatus",
    frozenset(GENERAL_STATUS): "ForwarderStatus",
}


@dataclass(frozen=True)
class Call:
    verb: str
    what: str
    nfd: Answer | None  # None: `?`
    larder: Answer
    # Field names of nfdc.PARAMETERS, or of nfdc.FILTER for `faces/query`. A face "@x" is the one
    # that the call with makes="x" made; {open} and {closed} are ports of this machine.
    parameters: dict = field(default_factory=dict)
    why: str = ""
    makes: str = ""
    # "command", "dataset", "bare" (a command without parameters), "raw" (a component that is no
    # ControlParameters).
    kind: str = "command"


def same(verb: str, what: str, both: Answer, makes: str = "", **parameters) -> Call:
    """A call that both answer alike."""
    return Call(verb, what, both, both, parameters, makes=makes)


def other(verb: str, what: str, nfd: Answer | None, larder: Answer, why: str, **more) -> Call:
    """A call that Larder answers in another way than NFD, or perhaps does."""
    kind, makes = more.pop("kind", "command"), more.pop("makes", "")
    return Call(verb, what, nfd, larder, more, why, makes, kind)


def dataset(verb: str, what: str, both: Answer, **query) -> Call:
    return Call(verb, what, both, both, query, kind="dataset")


CREATE, UPDATE, DESTROY = "faces/create", "faces/update", "faces/destroy"
QUERY, REGISTER, UNREGISTER = "faces/query", "rib/register", "rib/unregister"
SET, UNSET = "strategy-choice/set", "strategy-choice/unset"
STRATEGY = "/localhost/nfd/strategy/"
PEER = "udp4://127.0.0.1:6391"
PREFIX = "/interop/calls"

# Reasons, as in docs/coming-from/nfd.md.
UNREADABLE = "NFD does not answer a command that it cannot read"
UNKNOWN = "NFD does not answer a verb or module that it does not have"
MEANINGLESS = "a face with it would behave as a persistent one, unnoticed"
CANONICAL = "`udp://` and `tcp://` suffice before an address"
SCHEME = "NFD calls the URI not canonical; Larder says that it makes no such faces"
GROUP = "multicast faces belong to the configuration, whatever the scheme"
UNREACHABLE = "Larder has UDP, and cannot reach the peer with it"
LOCAL = "Larder refuses the LocalUri before it reads it"
IDLE = "Larder does not say when it removes an idle peer"
IGNORED = "Larder ignores a parameter that the command does not have"

CALLS = [
    same(CREATE, "udp4, persistent", CREATED, "udp", uri=PEER, persistency=0),
    same(CREATE, "the same peer again", EXISTS, uri=PEER, persistency=2),
    same(CREATE, "udp4, on demand", answer(406), uri="udp4://127.0.0.1:6393", persistency=1),
    other(
        CREATE, "udp4, persistency 7", CREATED, answer(400), MEANINGLESS,
        uri="udp4://127.0.0.1:6393", persistency=7,
    ),
    other(
        CREATE, "udp6, without a socket for IPv6", answer(406), answer(504), UNREACHABLE,
        uri="udp6://[::1]:6393",
    ),
    same(CREATE, "tcp4", CREATED, "tcp", uri="tcp4://127.0.0.1:{open}"),
    same(CREATE, "tcp4, nobody listens", answer(504), uri="tcp4://127.0.0.1:{closed}"),
    other(CREATE, "unix", answer(400), answer(406), SCHEME, uri="unix:///run/nfd/nfd.sock"),
    other(CREATE, "ws", answer(400), answer(406), SCHEME, uri="ws://127.0.0.1:9696"),
    same(
        CREATE, "ether, which is not configured", answer(406), uri="ether://[02:00:00:00:00:01]",
        local_uri="dev://lo",
    ),
    same(CREATE, "dev", answer(406), uri="dev://lo"),
    same(CREATE, "no URI", answer(400), uri="127.0.0.1"),
    same(CREATE, "udp4 without a port", answer(400), uri="udp4://127.0.0.1"),
    other(CREATE, "udp", answer(400), CREATED, CANONICAL, uri="udp://127.0.0.1:6394"),
    same(CREATE, "udp4, a multicast group", answer(406), uri="udp4://224.0.23.170:56363"),
    other(
        CREATE, "tcp4, a multicast group", answer(400), answer(406), GROUP,
        uri="tcp4://224.0.23.170:6363",
    ),
    same(
        CREATE, "udp4 with a LocalUri", answer(406), uri="udp4://127.0.0.1:6393",
        local_uri="udp4://127.0.0.1:6363",
    ),
    other(
        CREATE, "udp4 with a malformed LocalUri", answer(400), answer(406), LOCAL,
        uri="udp4://127.0.0.1:6393", local_uri="here",
    ),
    same(CREATE, "udp4, MTU 63", answer(406), uri="udp4://127.0.0.1:6393", mtu=63),
    same(CREATE, "udp4, MTU 100000", CREATED, uri="udp4://127.0.0.1:6396", mtu=100_000),
    other(
        CREATE, "tcp4, MTU 1400", None, answer(406), "a stream has no MTU",
        uri="tcp4://127.0.0.1:{open}", mtu=1400,
    ),
    same(CREATE, "Flags without Mask", answer(400), uri="udp4://127.0.0.1:6393", flags=2),
    same(
        CREATE, "udp4, permanent, reliability", CREATED, uri="udp4://127.0.0.1:6397",
        persistency=2, flags=2, mask=2,
    ),
    same(
        CREATE, "udp4, local fields", answer(406), uri="udp4://127.0.0.1:6393", flags=1, mask=1
    ),
    same(
        CREATE, "interval and threshold of marking", CREATED, uri="udp4://127.0.0.1:6398",
        marking_interval=50_000_000, marking_threshold=1000,
    ),
    same(CREATE, "without Uri", answer(400), persistency=0),
    other(
        CREATE, "with a Cost", answer(400), CREATED, IGNORED, uri="udp4://127.0.0.1:6400", cost=1
    ),
    same(UPDATE, "own face, as it is", UPDATED, persistency=1),
    same(UPDATE, "own face (unix), persistent", answer(409, "FacePersistency"), persistency=0),
    same(UPDATE, "own face, local fields", UPDATED, flags=1, mask=1),
    same(UPDATE, "udp4, on demand", UPDATED, face="@udp", persistency=1),
    other(
        QUERY, "FaceId, of a udp4 face on demand",
        answer(DATASET, *FACE_STATUS, "ExpirationPeriod"), FACES, IDLE, face="@udp", kind="dataset",
    ),
    other(
        UPDATE, "udp4, persistency 7", UPDATED, answer(409, "FacePersistency"), MEANINGLESS,
        face="@udp", persistency=7,
    ),
    same(UPDATE, "udp4, permanent, MTU 1400", UPDATED, face="@udp", persistency=2, mtu=1400),
    same(
        UPDATE, "udp4, local fields", answer(409, "Flags", "Mask"), face="@udp", flags=1, mask=1
    ),
    same(UPDATE, "udp4, reliability", UPDATED, face="@udp", flags=2, mask=2),
    same(
        UPDATE, "udp4, interval and threshold", UPDATED, face="@udp", marking_interval=50_000_000,
        marking_threshold=1000,
    ),
    same(UPDATE, "no such face", answer(404), face=1 << 40, persistency=0),
    dataset(QUERY, "UriScheme", FACES, scheme="udp4"),
    dataset(QUERY, "Uri", FACES, uri=PEER),
    dataset(QUERY, "LocalUri that nobody has", NOBODY, local_uri="udp4://192.0.2.1:1"),
    dataset(QUERY, "FaceScope", FACES, scope=1),
    dataset(QUERY, "FacePersistency", FACES, persistency=2),
    dataset(QUERY, "LinkType", FACES, link=0),
    dataset(QUERY, "without a filter", answer(400)),
    same(REGISTER, "own face", answer(200, *ROUTE), name=PREFIX),
    same(
        REGISTER, "a face, Origin, Cost, Flags, ExpirationPeriod",
        answer(200, *ROUTE, "ExpirationPeriod"), name=PREFIX, face="@udp", origin=255, cost=7,
        flags=3, expires=3_600_000,
    ),
    other(
        REGISTER, "no such face", answer(200, *ROUTE), answer(410),
        "NFD answers before it looks for the face, and drops the route", name=PREFIX, face=1 << 40,
    ),
    other(
        REGISTER, "Origin 65536", SILENCE, answer(400), UNREADABLE, name=PREFIX, origin=65_536
    ),
    same(REGISTER, "33 components", answer(414), name="/x" * 33),
    same(
        UNREGISTER, "a route", answer(200, "Name", "FaceId", "Origin"), name=PREFIX, face="@udp",
        origin=255,
    ),
    same(
        UNREGISTER, "the same again", answer(200, "Name", "FaceId", "Origin"), name=PREFIX,
        face="@udp", origin=255,
    ),
    other(
        "rib/announce", "without an announcement", SILENCE, answer(400),
        "the NFD that was read has no such verb; ndn-cxx has it", kind="bare",
    ),
    same(
        SET, "without a version", answer(200, "Name", "Strategy"), name=PREFIX,
        strategy=STRATEGY + "best-route",
    ),
    same(
        SET, "with a version and a parameter", answer(200, "Name", "Strategy"), name=PREFIX,
        strategy=STRATEGY + "best-route/v=5/retx-suppression-max~500",
    ),
    same(SET, "a later version", answer(404), name=PREFIX, strategy=STRATEGY + "best-route/v=99"),
    same(SET, "an older version", answer(409), name=PREFIX, strategy=STRATEGY + "best-route/v=1"),
    same(
        SET, "a parameter with a wrong value", answer(409), name=PREFIX,
        strategy=STRATEGY + "best-route/v=5/retx-suppression-max~x",
    ),
    same(UNSET, "a prefix", answer(200, "Name"), name=PREFIX),
    same(UNSET, "/", answer(400), name="/"),
    same("cs/config", "admission off", answer(200, "Capacity", "Flags"), flags=0, mask=1),
    same("cs/config", "serving off", answer(200, "Capacity", "Flags"), flags=0, mask=2),
    same(
        "cs/config", "capacity, admission and serving on", answer(200, "Capacity", "Flags"),
        capacity=8192, flags=3, mask=3,
    ),
    same("cs/erase", "a count", answer(200, "Name", "Count"), name=PREFIX, count=10),
    same("cs/erase", "without a count", answer(200, "Name", "Count"), name=PREFIX),
    same("cs/erase", "count 0", answer(400), name=PREFIX, count=0),
    dataset("status/general", "", answer(DATASET, *GENERAL_STATUS)),
    dataset("faces/list", "", FACES),
    dataset("faces/channels", "", answer(DATASET, "LocalUri")),
    dataset("fib/list", "", answer(DATASET, "Name", "NextHopRecord")),
    dataset("rib/list", "", answer(DATASET, "Name", "Route")),
    dataset(
        "cs/info", "", answer(DATASET, "Capacity", "Flags", "NCsEntries", "NHits", "NMisses")
    ),
    dataset("strategy-choice/list", "", answer(DATASET, "Name", "Strategy")),
    same(DESTROY, "a face", answer(200, "FaceId"), face="@udp"),
    same(DESTROY, "the same again", answer(200, "FaceId"), face="@udp"),
    other("faces/nothing", "no such verb", SILENCE, answer(501), UNKNOWN, face=1),
    other("nothing/list", "no such dataset", SILENCE, answer(NACK), UNKNOWN, kind="dataset"),
    other(CREATE, "without parameters", SILENCE, answer(400), UNREADABLE, kind="bare"),
    other(CREATE, "malformed parameters", SILENCE, answer(400), UNREADABLE, kind="raw"),
]
