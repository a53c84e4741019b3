// Faces of NDNts by URI: unix:///path, tcp://host:port, udp://host:port, ws://host:port.
import { Forwarder } from "@ndn/fw";
import { TcpTransport, UdpTransport, UnixTransport } from "@ndn/node-transport";
import { WsTransport } from "@ndn/ws-transport";

/** A logical forwarder of its own with one uplink, so that two in one process meet only at the node under test. */
export async function connect(uri, { addRoutes = ["/"] } = {}) {
  const fw = Forwarder.create();
  const { protocol, hostname, port, pathname } = new URL(uri);
  switch (protocol) {
    case "unix:":
      return { fw, face: await UnixTransport.createFace({ fw, addRoutes }, pathname) };
    case "tcp:":
      return { fw, face: await TcpTransport.createFace({ fw, addRoutes }, { host: hostname, port: Number(port) }) };
    case "udp:":
      return { fw, face: await UdpTransport.createFace({ fw, addRoutes }, { host: hostname, port: Number(port) }) };
    case "ws:":
      return { fw, face: await WsTransport.createFace({ fw, addRoutes }, uri) };
  }
  throw new Error(`no transport for ${uri}`);
}
