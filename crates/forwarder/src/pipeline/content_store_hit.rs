//! Content Store hit: answers an Interest with stored Data.

use super::link_service::Arrival;
use crate::face::FaceId;
use crate::forwarder::Forwarder;
use crate::outbox::{Body, Outbox};
use crate::tables::paths::answered;
use larder_policy::Slot;

impl Forwarder {
    /// Sends the Data in a slot back.
    #[inline]
    pub(super) fn on_content_store_hit(
        &mut self,
        arrival: &Arrival<'_>,
        slot: Slot,
        out: &mut Outbox,
    ) {
        let Some(data) = self.data.content_store.wire(slot) else {
            debug_assert!(
                false,
                "the Content Store has no Data in a slot that it has found"
            );
            return;
        };
        let Arrival { face, header, .. } = *arrival;
        self.data.satisfied += 1;
        let to_send = out.push(face, Body::Cached(data));
        to_send.pit_token = header.pit_token;
        self.set_incoming_face(to_send, face, FaceId::CONTENT_STORE);
        if self.data.paths.is_some() {
            to_send.path = self.path_to(face, Some(answered(header.path)));
        }
    }
}
