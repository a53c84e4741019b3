//! Permanent TCP faces of management (NFD wiki, "FaceMgmt"). When its connection is gone, such a
//! face keeps its number and its routes, and is connected again.

use crate::limits::{RECONNECT_FIRST, RECONNECT_MOST};
use larder_forwarder::FaceId;
use larder_units::Time;
use std::net::SocketAddr;
use std::time::Duration;

/// A permanent face.
struct Permanent {
    face: FaceId,
    address: SocketAddr,
    /// The time of the next attempt; `None` while there is a connection.
    retry: Option<Time>,
    /// The time between two attempts.
    wait: Duration,
}

/// The permanent faces of a thread.
#[derive(Default)]
pub(crate) struct PermanentFaces(Vec<Permanent>);

impl PermanentFaces {
    /// Makes a connected face permanent.
    pub(crate) fn insert(&mut self, face: FaceId, address: SocketAddr) {
        if !self.contains(face) {
            self.0.push(Permanent {
                face,
                address,
                retry: None,
                wait: RECONNECT_FIRST,
            });
        }
    }

    /// Ends the permanence of a face.
    pub(crate) fn remove(&mut self, face: FaceId) {
        self.0.retain(|one| one.face != face);
    }

    /// Returns true for a permanent face without a connection.
    pub(crate) fn is_down(&self, face: FaceId) -> bool {
        self.0
            .iter()
            .any(|one| one.face == face && one.retry.is_some())
    }

    pub(crate) fn contains(&self, face: FaceId) -> bool {
        self.0.iter().any(|one| one.face == face)
    }

    /// Returns the permanent face to this address.
    pub(crate) fn face_to(&self, address: SocketAddr) -> Option<FaceId> {
        let face = self.0.iter().find(|one| one.address == address);
        face.map(|one| one.face)
    }

    /// Records that something came by a face: the next loss of its connection begins with the
    /// shortest wait again.
    pub(crate) fn heard(&mut self, face: FaceId) {
        if let Some(one) = self.get_mut(face) {
            one.wait = RECONNECT_FIRST;
        }
    }

    /// Plans the next attempt after the connection of a face is gone. Returns false if the face is
    /// not permanent.
    pub(crate) fn lost(&mut self, now: Time, face: FaceId) -> bool {
        let Some(one) = self.get_mut(face) else {
            return false;
        };
        one.retry = Some(now + one.wait);
        one.wait = (one.wait * 2).min(RECONNECT_MOST);
        true
    }

    /// Returns the faces that are to be connected now.
    pub(crate) fn due(&self, now: Time) -> Vec<(FaceId, SocketAddr)> {
        let due = |one: &&Permanent| one.retry.is_some_and(|at| at <= now);
        let due = self.0.iter().filter(due);
        due.map(|one| (one.face, one.address)).collect()
    }

    /// Records the result of an attempt. A connection that fails later shows it when it is read.
    pub(crate) fn tried(&mut self, now: Time, face: FaceId, is_connecting: bool) {
        let Some(one) = self.get_mut(face) else {
            debug_assert!(false, "a face that is not permanent was connected again");
            return;
        };
        one.retry = (!is_connecting).then(|| now + one.wait);
    }

    fn get_mut(&mut self, face: FaceId) -> Option<&mut Permanent> {
        self.0.iter_mut().find(|one| one.face == face)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_face_that_cannot_be_connected_is_tried_ever_more_rarely_or_forgotten() {
        let (face, address) = (FaceId(256), "192.0.2.1:6363".parse().unwrap());
        let mut faces = PermanentFaces::default();
        assert!(!faces.lost(Time::ZERO, face), "it is not permanent yet");
        faces.insert(face, address);
        faces.insert(face, address);
        assert_eq!(faces.face_to(address), Some(face));
        assert_eq!(faces.due(Time::MAX), [], "it has its connection");
        let (mut now, mut waits) = (Time::ZERO, Vec::new());
        for _ in 0..7 {
            assert!(faces.lost(now, face));
            let start = now;
            while faces.due(now).is_empty() {
                now += Duration::from_secs(1);
            }
            waits.push(now.since(start).as_secs());
            faces.tried(now, face, true);
            assert_eq!(faces.due(Time::MAX), []);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        faces.tried(now, face, false);
        assert_eq!(faces.due(Time::MAX), [(face, address)]);
        faces.heard(face);
        faces.lost(now, face);
        assert_eq!(faces.due(now + RECONNECT_FIRST), [(face, address)]);
        assert!(faces.is_down(face));
        faces.remove(face);
        assert!(!faces.is_down(face) && !faces.contains(face));
    }
}
