//! One reader that does not read must not take memory without bound, nor anything from the others.

use super::{Stage, interest};
use larder_node::limits::SEND_QUEUE_BYTES;
use larder_packet::{Interest, LpPacket};

#[test]
fn a_reader_that_does_not_read_loses_its_own_packets_only() {
    let stage = Stage::new();
    let mut producer = stage.unix();
    producer.register("/a");
    let (mut slow, mut quick) = (stage.tcp(), stage.unix());
    // Far more than the queue and the kernel's buffers hold: the same Data, from the Content Store.
    slow.send(&interest("/a/large", 1));
    producer.produce(8000);
    let copies = 4 * SEND_QUEUE_BYTES / 8000 + 4000;
    for nonce in 0..copies as u32 {
        slow.send(&interest("/a/large", nonce + 2));
    }
    quick.send(&interest("/a/small", 1));
    producer.produce(100);
    let frame = quick.receive().expect("the others are served");
    assert_eq!(frame[0], 6);
    // Sent first, so it was handled first: what the slow reader lost is counted by now, or soon.
    let patience = std::time::Instant::now();
    while stage.figure("/ndn/drops/queue_full") == 0 {
        assert!(patience.elapsed() < super::PATIENCE, "nothing was dropped");
        std::thread::yield_now();
    }
    // It reads at last: what had been queued comes whole, marked as congested.
    let mut marked = 0;
    for _ in 0..SEND_QUEUE_BYTES / 8100 {
        let frame = slow.receive().expect("whole packets");
        let packet = LpPacket::decode(&frame).unwrap();
        marked += u64::from(packet.header.congestion_mark == Some(1));
        assert!(larder_packet::Data::decode(packet.fragment.unwrap()).is_ok());
    }
    assert!(marked > 0);
}

#[test]
fn an_application_that_dies_takes_its_routes_with_it() {
    let stage = Stage::new();
    let mut consumer = stage.unix();
    let mut producer = stage.tcp();
    producer.register("/a");
    consumer.send(&interest("/a/1", 1));
    let frame = producer.receive().unwrap();
    assert_eq!(Interest::decode(&frame).unwrap().name.to_string(), "/a/1");
    drop(producer);
    // The node learns of it in its own time.
    let patience = std::time::Instant::now();
    while stage.figure("/ndn/rib_routes") > 0 {
        assert!(patience.elapsed() < super::PATIENCE, "the route stands");
        std::thread::yield_now();
    }
    consumer.send(&interest("/a/2", 2));
    assert!(super::is_refusal(&consumer.receive().unwrap()));
}
