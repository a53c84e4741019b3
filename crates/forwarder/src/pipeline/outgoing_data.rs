//! Outgoing Data: sends Data to the consumers of a pending Interest.

use super::interest_finalize::measure;
use super::link_service::Arrival;
use crate::data_plane::DataPlane;
use crate::face::FaceId;
use crate::limits;
use crate::outbox::Outbox;
use crate::tables::paths::Place;
use bytes::Bytes;
use larder_packet::Data;

/// Sends Data to all consumers of the pending Interest in `slot`. `first` is the number of the
/// first send of this Data: a consumer that asked twice, with selectors and without, gets one.
#[inline]
pub(crate) fn on_outgoing_data(
    plane: &mut DataPlane,
    arrival: &Arrival<'_>,
    data: &Data<'_>,
    slot: u32,
    place: Option<&Place>,
    first: usize,
    out: &mut Outbox,
) {
    let now = arrival.now;
    // The tier is no next hop, and no strategy knows the Interests that wait for it.
    let from_tier = arrival.face == FaceId::CONTENT_STORE;
    let told = if from_tier || plane.pit.entry(slot).waits_for_tier() {
        None
    } else {
        measure(plane, slot, |strategy, entry| {
            strategy.on_data(now, arrival.face, entry)
        })
    };
    let told = told.unwrap_or_default();
    let mark = arrival.header.congestion_mark.or(told.mark.then_some(1));
    let rate = [arrival.header.interest_rate, told.rate]
        .into_iter()
        .flatten()
        .min();
    let before = out.sends.len();
    let mut is_for_management = false;
    for consumer in &plane.pit.entry(slot).in_records {
        let again = before > first
            && (out.sends[first..]
                .iter()
                .rev()
                .take(limits::REPEATS_LOOKED_FOR))
            .any(|sent| sent.face == consumer.face && sent.header.pit_token == consumer.token);
        // The sender does not need the Data back, except on a multicast face, where other
        // listeners may have missed it.
        let has_it = consumer.face == arrival.face && !plane.faces.is_ad_hoc(consumer.face);
        if consumer.expires.has_passed(now) || has_it {
            plane.unsatisfied += 1;
            continue;
        }
        plane.satisfied += 1;
        if consumer.face == FaceId::INTERNAL {
            is_for_management = true;
        } else if !again {
            let header = out.push(consumer.face, arrival.source.body());
            (
                header.pit_token,
                header.congestion_mark,
                header.interest_rate,
            ) = (consumer.token, mark, rate);
            plane.set_incoming_face(header, consumer.face, arrival.face);
            if let Some(place) = place {
                header.path = plane.path_to(consumer.face, Some(place.told));
            }
        }
    }
    if is_for_management {
        set_aside_for_management(plane, data);
    }
}

/// Data for the face of management waits until the pipeline has ended.
#[cold]
fn set_aside_for_management(plane: &mut DataPlane, data: &Data<'_>) {
    let packet = Bytes::copy_from_slice(data.wire);
    plane.for_management.push(packet);
}
