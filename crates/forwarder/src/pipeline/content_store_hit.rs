//! Content Store hit: answers an Interest with stored Data.

use super::link_service::Arrival;
use crate::data_plane::DataPlane;
use crate::face::FaceId;
use crate::outbox::{Body, Outbox};
use crate::tables::paths::answered;
use larder_policy::Slot;

/// Sends the Data in a slot back.
#[inline]
pub(crate) fn on_content_store_hit(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    slot: Slot,
    out: &mut Outbox,
) {
    let Some(data) = plane.content_store.wire(slot) else {
        debug_assert!(
            false,
            "the Content Store has no Data in a slot that it has found"
        );
        return;
    };
    let Arrival { face, header, .. } = *arrival;
    plane.satisfied += 1;
    let to_send = out.push(face, Body::Cached(data));
    to_send.pit_token = header.pit_token;
    plane.set_incoming_face(to_send, face, FaceId::CONTENT_STORE);
    if plane.paths.is_some() {
        to_send.path = plane.path_to(face, Some(answered(header.path)));
    }
}
