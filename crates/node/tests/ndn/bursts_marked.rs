//! Congestion marks on bursts, which fill a queue and leave it at once.

use super::{App, Stage, interest};
use larder_packet::LpPacket;
use std::os::unix::net::UnixStream;

/// Stores so many Data of 8 kB.
fn stored(stage: &Stage, count: u32) -> App<UnixStream> {
    let (mut consumer, mut producer) = (stage.unix(), stage.unix());
    producer.register("/x");
    for number in 0..count {
        consumer.send(&interest(&format!("/x/{number}"), number));
        producer.produce(8000);
        consumer.receive().expect("Data");
    }
    consumer
}

/// Sends the Interests of all stored Data at once. Returns the number of answers with a mark.
fn marks_of_burst(consumer: &mut App<UnixStream>, count: u32) -> usize {
    let burst: Vec<u8> = (0..count)
        .flat_map(|number| interest(&format!("/x/{number}"), count + number))
        .collect();
    consumer.send(&burst);
    let mut marks = 0;
    for _ in 0..count {
        let frame = consumer.receive().expect("Data");
        marks += usize::from(
            LpPacket::decode(&frame)
                .unwrap()
                .header
                .congestion_mark
                .is_some(),
        );
    }
    marks
}

/// NFD and RFC 8289 mark a queue that has been long for a whole interval.
#[test]
fn stored_data_that_is_asked_for_at_once_is_marked() {
    let stage = Stage::new();
    let mut consumer = stored(&stage, 50);
    for _ in 0..3 {
        assert_eq!(marks_of_burst(&mut consumer, 50), 0);
    }
}
