// usage: get.mjs NAME FILE
//
// Asks for the current version of an object by RDR, fetches its segments at the node $NDN_CLIENT_TRANSPORT, checks their digests,
// and writes them to a file.
import { writeFile } from "node:fs/promises";
import { digestSigning, Name } from "@ndn/packet";
import { retrieveMetadata } from "@ndn/rdr";
import { fetch } from "@ndn/segmented-object";
import { connect } from "./transports.mjs";

const { fw } = await connect(process.env.NDN_CLIENT_TRANSPORT);
const { name } = await retrieveMetadata(new Name(process.argv[2]), { fw, retx: 3, verifier: digestSigning });
await writeFile(process.argv[3], await fetch(name, { fw, verifier: digestSigning, retxLimit: 10 }));
process.exit(0); // the socket is still open
