//! Multicast faces: joins groups, reads datagrams.

use super::EventLoop;
use crate::config::NdnConfig;
use crate::limits;
use crate::ndn::error::NdnError;
use crate::ndn::send::link::{Connection, Link};
use crate::ndn::tokens::token;
use crate::ndn::transport::listen;
use crate::ndn::transport::multicast::{Multicast, join_all, link_type};
use larder_forwarder::{FaceConfig, FaceId, Persistency};
use larder_units::Time;
use mio::Interest;
use std::io;

impl EventLoop {
    /// Creates the faces to groups of neighbours that the configuration names.
    pub(in crate::ndn) fn open_neighbours(&mut self, config: &NdnConfig) -> Result<(), NdnError> {
        self.join_groups(config)?;
        self.open_ethernet(config)
    }

    fn join_groups(&mut self, config: &NdnConfig) -> Result<(), NdnError> {
        for (interface, groups) in join_all(config)? {
            for multicast in groups {
                let face = FaceConfig {
                    link_type: link_type(config, &interface),
                    ..FaceConfig::remote(listen::face_uri("udp", multicast.group))
                }
                .with_local_uri(listen::face_uri("udp", multicast.local))
                .with_persistency(Persistency::Permanent)
                .with_mtu(multicast.frames.mtu());
                self.listeners
                    .groups
                    .push(format!("{} on {interface}", face.uri));
                self.add_multicast(face, multicast)
                    .ok_or(NdnError::TooManyFaces {
                        key: "udp_multicast",
                    })?;
            }
        }
        Ok(())
    }

    fn add_multicast(&mut self, config: FaceConfig, mut multicast: Multicast) -> Option<FaceId> {
        let face = self.add_face(config, |registry, token| {
            registry.register(
                &mut multicast.socket,
                token,
                Interest::READABLE | Interest::WRITABLE,
            )
        })?;
        self.links
            .insert(face, Link::new(Connection::Multicast(Box::new(multicast))));
        Some(face)
    }

    pub(super) fn read_multicast(&mut self, now: Time, face: FaceId) {
        let mut buffer = std::mem::take(&mut self.scratch.buffer);
        for _ in 0..limits::FRAMES_PER_TURN {
            let Some(Connection::Multicast(multicast)) =
                self.links.get_mut(&face).map(|link| &mut link.connection)
            else {
                break;
            };
            match multicast.socket.recv_from(&mut buffer) {
                Ok((length, _)) => self.handle(now, face, std::iter::once(&mut buffer[..length])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.scratch.buffer = buffer;
                    return;
                }
                // The interface is probably down. It may come back.
                Err(error) => {
                    tracing::debug!(face = face.0, %error, "UDP multicast receive");
                    self.scratch.buffer = buffer;
                    return;
                }
            }
        }
        self.scratch.buffer = buffer;
        self.pending.ready.push(token(face));
    }
}
