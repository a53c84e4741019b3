//! Content Store hit: answers an Interest with stored Data.

use super::link_service::Arrival;
use crate::face::FaceId;
use crate::forwarder::Forwarder;
use crate::outbox::{Body, Outbox};
use crate::tables::paths::answered;
use larder_packet::Interest;

impl Forwarder {
    /// Looks an Interest up in the Content Store, and sends the Data if it is there. Returns false
    /// on a miss. `hash` is of the name.
    #[inline]
    pub(super) fn content_store_hit(
        &mut self,
        arrival: &Arrival<'_>,
        hash: u64,
        interest: &Interest<'_>,
        out: &mut Outbox,
    ) -> bool {
        let Arrival { now, face, header, .. } = *arrival;
        let found = self.content_store.look_up(now, hash, interest);
        if let Some(figures) = &mut self.figures_by_prefix {
            figures.note(&self.hasher, interest.name, found.is_some());
        }
        let Some(data) = found else { return false };
        self.satisfied += 1;
        let to_send = out.push(face, Body::Cached(data));
        to_send.pit_token = header.pit_token;
        self.tell_incoming(to_send, face, FaceId::CONTENT_STORE);
        if self.paths.is_some() {
            to_send.path = self.path_to(face, Some(answered(header.path)));
        }
        true
    }
}
