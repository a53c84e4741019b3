// usage: segmented.mjs PRODUCER_URI CONSUMER_URI [BYTES]
//
// Drives one node through two faces. A producer registers a prefix and publishes a segmented, versioned object with RDR
// metadata; a consumer on another face (and transport) discovers the version by prefix and by metadata, fetches every
// segment and compares the bytes.
import { randomBytes } from "node:crypto";
import assert from "node:assert/strict";
import { ReadvertiseDestination } from "@ndn/fw";
import { Version } from "@ndn/naming-convention2";
import { enableNfdPrefixReg } from "@ndn/nfdmgmt";
import { digestSigning, Name } from "@ndn/packet";
import { Metadata, retrieveMetadata, serveMetadata } from "@ndn/rdr";
import { BufferChunkSource, discoverVersion, fetch, serve } from "@ndn/segmented-object";
import { connect } from "./transports.mjs";

const [producerUri, consumerUri, bytes = "1048576"] = process.argv.slice(2);
const content = randomBytes(Number(bytes));
const prefix = new Name(`/interop/ndnts/${randomBytes(6).toString("hex")}`);

const versioned = prefix.append(Version, 1);

const producer = await connect(producerUri, { addRoutes: [] });
const registration = enableNfdPrefixReg(producer.face);
const pOpts = { fw: producer.fw, dataSigner: digestSigning };
const object = serve(versioned, new BufferChunkSource(content), { producerPrefix: prefix, pOpts });
const metadata = serveMetadata(new Metadata(versioned), { prefix, pOpts });
await registered();

const consumer = await connect(consumerUri);
const cOpts = { fw: consumer.fw, retx: 3, verifier: digestSigning };
const started = performance.now();
assert.ok((await discoverVersion(prefix, { cOpts })).equals(versioned), "CanBePrefix found another version");
assert.ok((await retrieveMetadata(prefix, cOpts)).name.equals(versioned), "RDR metadata names another version");
const fetched = await fetch(versioned, { fw: consumer.fw, verifier: digestSigning, retxLimit: 10 });
const seconds = (performance.now() - started) / 1000;

assert.equal(fetched.length, content.length, "length");
assert.ok(Buffer.from(fetched).equals(content), "the content came back changed");
console.log(`${versioned}: ${fetched.length} bytes in ${seconds.toFixed(2)} s`);
object.close();
metadata.close();
await withdrawn();
process.exit(0); // the sockets are still open

/** Waits until the node has accepted every registration. */
async function registered() {
  const { ADVERTISED } = ReadvertiseDestination.Status;
  const done = (records) => records.length > 0 && records.every(({ status }) => status === ADVERTISED);
  await until(done, "accept the prefix registration");
}

/** Waits until the node has accepted that the prefixes are withdrawn. */
async function withdrawn() {
  await until((records) => records.length === 0, "accept the unregistration");
}

async function until(done, what) {
  for (let i = 0; i < 100; ++i) {
    if (done(Array.from(registration.table, ([, record]) => record))) {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${producerUri}: the node did not ${what} within 5 s`);
}
