//! NFD's own nfdc finds a command missing, or its signature refused. The messages were built from
//! the protocol's definition (`interop/nfdc/nfdc.py --record`): commands signed by an ECDSA key
//! that this forwarder does not know, which is what it meets on a machine where nobody was named in
//! the configuration.

use super::world::{World, response};
use larder_forwarder::{FaceAnswer, FaceConfig, HostRequest};
use larder_packet::Interest;

#[test]
fn every_message_of_nfdc_is_answered() {
    let messages = include_str!("../fixtures/nfdc.tsv");
    let mut world = World::new();
    let application = world.local();
    let mut commands = 0;
    for line in messages.lines() {
        let (what, digits) = line.split_once('\t').unwrap();
        let frame: Vec<u8> = (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
            .collect();
        let interest = Interest::decode(&frame).unwrap();
        if interest.can_be_prefix {
            let (content, segments) = world.dataset(application, &interest.name.to_name());
            assert_eq!(segments, 1, "{what}");
            // What was made is gone by then, the application's own face is not.
            assert_eq!(
                content.is_empty(),
                ["fib/list", "rib/list", "faces/query", "faces/channels"].contains(&what),
                "{what}"
            );
            continue;
        }
        let mut sent = world.sent(application, frame);
        match world.requests.pop() {
            Some(HostRequest::CreateFace(request)) => {
                let made = world.forwarder.add_face(
                    FaceConfig::remote(request.uri).with_persistency(request.persistency),
                );
                assert_eq!(made.0, 257, "the number that the recorded commands name");
                world.forwarder.on_face_answer(
                    world.now,
                    request.ticket,
                    FaceAnswer::Created(made),
                    &mut world.outbox,
                );
                sent = world.collect(&[]);
            }
            Some(HostRequest::DestroyFace(face)) => world.forwarder.remove_face(face),
            _ => {}
        }
        let answer = response(&sent, application);
        assert_eq!(
            (answer.status_code, what),
            (200, what),
            "{}",
            answer.status_text
        );
        assert!(answer.body.is_some(), "{what}");
        commands += 1;
    }
    assert_eq!(commands, 9);
}
