// usage: put.mjs NAME FILE
//
// Serves a file as a segmented, versioned object with RDR metadata, at the node $NDN_CLIENT_TRANSPORT, until it is killed.
import { readFile } from "node:fs/promises";
import { Version } from "@ndn/naming-convention2";
import { enableNfdPrefixReg } from "@ndn/nfdmgmt";
import { digestSigning, Name } from "@ndn/packet";
import { Metadata, serveMetadata } from "@ndn/rdr";
import { BufferChunkSource, serve } from "@ndn/segmented-object";
import { connect } from "./transports.mjs";

const prefix = new Name(process.argv[2]);
const content = await readFile(process.argv[3]);
const { fw, face } = await connect(process.env.NDN_CLIENT_TRANSPORT, { addRoutes: [] });
enableNfdPrefixReg(face);
const pOpts = { fw, dataSigner: digestSigning };
const versioned = prefix.append(Version, Date.now());
serve(versioned, new BufferChunkSource(content), { producerPrefix: prefix, pOpts });
serveMetadata(new Metadata(versioned), { prefix, pOpts });
