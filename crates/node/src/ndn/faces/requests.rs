//! Faces that management creates, changes or closes: the effect of `faces/create` and its relatives
//! on sockets.
//!
//! Management can create UDP and TCP faces and Ethernet unicast faces from canonical FaceUris (NFD
//! wiki, "FaceMgmt"): an address and a port, no host name, because this thread does not wait for a
//! name server. An Ethernet face needs the interface as its LocalUri. Multicast faces belong to the
//! configuration, as in NFD. The command of a TCP face is answered when the connection succeeds or
//! fails.

use crate::limits;
use crate::ndn::transport::ethernet;
use crate::ndn::transport::packet_socket::Mac;
use larder_forwarder::{FaceAnswer, FaceId};
use larder_units::Time;
use std::collections::HashMap;
use std::net::SocketAddr;

/// A face that is being connected, with the command that waits for it.
struct Connecting {
    ticket: u64,
    since: Time,
}

/// The faces that are being connected for management.
#[derive(Default)]
pub(crate) struct ConnectingFaces(HashMap<FaceId, Connecting>);

impl ConnectingFaces {
    /// Adds a face, for which the command `ticket` waits.
    pub(crate) fn insert(&mut self, now: Time, face: FaceId, ticket: u64) {
        self.0.insert(face, Connecting { ticket, since: now });
    }

    pub(crate) fn contains(&self, face: FaceId) -> bool {
        self.0.contains_key(&face)
    }

    /// Removes a face, and returns its command.
    pub(crate) fn remove(&mut self, face: FaceId) -> Option<u64> {
        self.0.remove(&face).map(|one| one.ticket)
    }

    /// Returns the faces that take too long.
    pub(crate) fn late(&self, now: Time) -> Vec<FaceId> {
        let late = self.0.iter();
        let late = late.filter(|(_, one)| now.since(one.since) >= limits::FACE_CONNECT);
        late.map(|(face, _)| *face).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    Ethernet(Mac),
}

/// Returns the peer of a canonical FaceUri.
pub(crate) fn peer(uri: &str) -> Result<Remote, FaceAnswer> {
    let (scheme, rest) = uri
        .split_once("://")
        .ok_or_else(|| FaceAnswer::Refused(400, format!("{uri:?} is no FaceUri")))?;
    let (remote, version): (fn(SocketAddr) -> Remote, _) = match scheme {
        "udp" | "udp4" | "udp6" => (Remote::Udp, scheme.get(3..)),
        "tcp" | "tcp4" | "tcp6" => (Remote::Tcp, scheme.get(3..)),
        "ether" => {
            let wrong = || {
                let text = format!(
                    "{uri:?} is no neighbour: it needs its own address, as in ether://[02:00:00:00:00:01]"
                );
                FaceAnswer::Refused(400, text)
            };
            return ethernet::unicast(rest)
                .map(Remote::Ethernet)
                .ok_or_else(wrong);
        }
        _ => {
            return Err(FaceAnswer::Refused(
                406,
                format!("faces of the scheme {scheme:?} cannot be made"),
            ));
        }
    };
    let address: SocketAddr = rest.trim_end_matches('/').parse().map_err(|_| {
        FaceAnswer::Refused(
            400,
            format!("{uri:?} is not canonical: it needs an address and a port, such as udp4://192.0.2.1:6363"),
        )
    })?;
    let fits = match version {
        Some("4") => address.is_ipv4(),
        Some("6") => address.is_ipv6(),
        _ => true,
    };
    if fits && address.ip().is_multicast() {
        return Err(FaceAnswer::Refused(
            406,
            "multicast faces are made by [ndn] udp_multicast of the configuration".to_owned(),
        ));
    }
    if fits && address.port() != 0 && !address.ip().is_unspecified() {
        Ok(remote(address))
    } else {
        Err(FaceAnswer::Refused(
            400,
            format!("{uri:?} is no peer of a unicast face"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_peer_is_refused_with_the_protocols_codes() {
        for (uri, code) in [
            ("udp4://127.0.0.1", 400),
            ("udp4://localhost:6363", 400),
            ("udp6://127.0.0.1:6363", 400),
            ("udp4://224.0.23.170:56363", 406),
            ("ether://[01:00:5e:00:17:aa]", 400),
            ("tcp4://0.0.0.0:6363", 400),
            ("udp4://127.0.0.1:0", 400),
            ("6363", 400),
            ("unix:///run/nfd/nfd.sock", 406),
            ("ws://127.0.0.1:9696", 406),
        ] {
            assert!(
                matches!(peer(uri), Err(FaceAnswer::Refused(said, _)) if said == code),
                "{uri}: {:?}",
                peer(uri)
            );
        }
        assert_eq!(
            peer("udp4://127.0.0.1:6363").unwrap(),
            Remote::Udp("127.0.0.1:6363".parse().unwrap())
        );
        assert_eq!(
            peer("tcp6://[::1]:6363").unwrap(),
            Remote::Tcp("[::1]:6363".parse().unwrap())
        );
        assert_eq!(
            peer("ether://[02:00:00:00:00:01]").unwrap(),
            Remote::Ethernet([2, 0, 0, 0, 0, 1])
        );
    }
}
