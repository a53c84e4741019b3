// usage: management.mjs URI
//
// Drives the node's management with @ndn/nfdmgmt: every dataset (one of many segments), every command, and the notifications of
// face events.
import assert from "node:assert/strict";
import { consume } from "@ndn/endpoint";
import { SequenceNum } from "@ndn/naming-convention2";
import {
  ChannelStatus, ControlCommandOptions, ControlParameters, CsInfo, FacePersistency, FaceQuery, FaceStatus, GeneralStatus,
  invoke, invokeCsErase, invokeGeneric, list, PrefixAnn, RibEntry, StrategyChoice,
} from "@ndn/nfdmgmt";
import { Data, digestSigning, Interest, Name } from "@ndn/packet";
import { connect } from "./transports.mjs";

const { fw } = await connect(process.argv[2]);
const opts = { cOpts: { fw, verifier: digestSigning } };

/** Runs a command that must succeed; its body. */
async function done(command, parameters) {
  return of200(command, await invoke(command, parameters, opts));
}

function of200(command, response) {
  assert.equal(response.statusCode, 200, `${command}: ${response.statusCode} ${response.statusText}`);
  return ControlParameters.decodeFromResponseBody(response);
}

/** Runs a command that must fail; the status code. */
async function refused(command, parameters) {
  return (await invoke(command, parameters, opts)).statusCode;
}

const [general] = await list(GeneralStatus, opts);
assert.match(general.nfdVersion, /^larder-/);
assert.ok(Math.abs(general.currentTimestamp - Date.now()) < 60_000, "the node's time of day is wrong");
assert.ok((await list(ChannelStatus, opts)).some(({ localUri }) => localUri.startsWith("unix:///")));

// A subscriber waits for the next face event; it comes when a face is made.
const events = new Name("/localhost/nfd/faces/events");
await new Promise((resolve) => setTimeout(resolve, 1100)); // what happened before is not news then
const notified = consume(new Interest(events, Interest.CanBePrefix, Interest.MustBeFresh, Interest.Lifetime(10_000)), { fw });
const uri = "udp4://127.0.0.1:6398";
const made = await done("faces/create", { uri, facePersistency: FacePersistency.Permanent, mtu: 1400 });
assert.equal(made.uri, uri);
const first = await notified;
assert.ok(first.name.getPrefix(-1).equals(events) && first.name.at(-1).is(SequenceNum), `${first.name}`);
assert.equal(await refused("faces/create", { uri }), 409);
assert.equal(await refused("faces/create", { uri: "unix:///run/x.sock" }), 406);
assert.equal(await refused("faces/create", { uri: "udp4://nowhere.example:6363" }), 400);
assert.equal(await refused("faces/create", { uri: "tcp4://127.0.0.1:1" }), 504);

const [face] = await list(FaceQuery({ uri }), opts);
assert.equal(face.faceId, made.faceId);
assert.equal(face.mtu, 1400);
// Not in the answer to faces/create: NDNts passes over it there.
assert.equal(face.facePersistency, FacePersistency.Permanent);
assert.ok((await list(FaceStatus, opts)).some(({ faceId }) => faceId === made.faceId));
await done("faces/update", { faceId: made.faceId, facePersistency: FacePersistency.Persistent });
assert.equal((await list(FaceQuery({ faceId: made.faceId }), opts))[0].facePersistency, FacePersistency.Persistent);
assert.equal(await refused("faces/update", { faceId: made.faceId, flags: 1, mask: 1 }), 409);
assert.equal((await done("faces/update", { flags: 1, mask: 1 })).flags & 1, 1, "local fields on the sender's own face");

// Enough routes that the list takes several segments.
for (let i = 0; i < 400; ++i) {
  await done("rib/register", { name: new Name(`/interop/management/${i}/${"x".repeat(40)}`), faceId: made.faceId, cost: i });
}
const routes = (await list(RibEntry, opts)).filter(({ name }) => name.toString().includes("management"));
assert.equal(routes.length, 400);
assert.equal(routes[0].route[0].faceId, made.faceId);
await done("fib/add-nexthop", { name: new Name("/interop/direct"), faceId: made.faceId, cost: 7 });
await done("fib/remove-nexthop", { name: new Name("/interop/direct"), faceId: made.faceId });

const announcement = await PrefixAnn.build({ announced: new Name("/interop/announced"), expirationPeriod: 60_000, signer: digestSigning });
const byParameters = { ...opts, formatCommand: ControlCommandOptions.formatCommandAppParams };
const announced = of200("rib/announce", await invokeGeneric("rib/announce", announcement.data, byParameters));
assert.ok(announced.name.equals("/interop/announced") && announced.origin === 129);

const capacity = async () => Number((await list(CsInfo, opts))[0].capacity);
const before = await capacity();
await done("cs/config", { capacity: before / 2 });
assert.equal(await capacity(), before / 2);
await done("cs/config", { capacity: before });
assert.equal(await invokeCsErase(new Name("/interop/management"), opts), 0);

const strategy = new Name("/localhost/nfd/strategy/multicast");
const name = new Name("/interop/strategy");
assert.ok(strategy.isPrefixOf((await done("strategy-choice/set", { name, strategy })).strategy));
assert.ok((await list(StrategyChoice, opts)).some((choice) => choice.name.equals(name)));
await done("strategy-choice/unset", { name });
assert.equal(await refused("strategy-choice/set", { name, strategy: new Name("/no/such") }), 404);

// The next event by its number, asked for before it happens.
const number = first.name.at(-1).as(SequenceNum);
const next = consume(new Interest(events.append(SequenceNum, number + 1), Interest.Lifetime(10_000)), { fw });
await done("faces/destroy", { faceId: made.faceId });
assert.ok((await next) instanceof Data);
assert.equal((await list(FaceQuery({ uri }), opts)).length, 0);
assert.ok(!(await list(RibEntry, opts)).some(({ name }) => name.toString().includes("management")), "routes end with their face");
process.exit(0); // the socket is still open
