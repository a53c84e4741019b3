//! The account of cycles passes the same packets through the same tables as forwarding does: else
//! it would measure something else.

use larder_forwarder::account::{self, Exchange, STAGES, Stage};
use larder_forwarder::{Config, FaceConfig, FaceId, Forwarder, Outbox, Stats};
use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams, Time};

const EXCHANGES: u32 = 3000;

fn world(policy: &str) -> (Forwarder, (FaceId, FaceId)) {
    let streams = Streams::new(1);
    let engine = Engine::new(&policy.parse().unwrap(), ByteSize::from_bytes(16 << 10), &streams).unwrap();
    let mut forwarder = Forwarder::new(Config::new([1, 2], streams), engine);
    let faces = ["consumer", "producer"].map(|face| forwarder.add_face(FaceConfig::local(face)));
    let prefix: Name = "/a".parse().unwrap();
    account::add_next_hop(&mut forwarder, prefix.as_name(), faces[1]);
    (forwarder, (faces[0], faces[1]))
}

fn exchange(number: u32) -> Exchange {
    // Some names are asked for often.
    let object = number.wrapping_mul(2_654_435_761) % 200;
    let name: Name = format!("/a/{}", object * object / 400).parse().unwrap();
    let data = DataBuilder::new(name.as_name()).content(&[7; 300]).build(&DigestSigner).unwrap();
    Exchange { interest: InterestBuilder::new(name).nonce(number).build(), data }
}

fn stats_of(policy: &str, mut pass: impl FnMut(&mut Forwarder, Time, (FaceId, FaceId), Exchange)) -> Stats {
    let (mut forwarder, faces) = world(policy);
    for number in 0..EXCHANGES {
        pass(&mut forwarder, Time::from_nanos(u64::from(number) * 1000), faces, exchange(number));
    }
    forwarder.stats()
}

#[test]
fn stages_do_other_work_than_packets() {
    for policy in ["fifo", "arc", "filter(theta=2,window=64,table=1024)+fifo", "tinylfu(window=640)+random"] {
        let mut out = Outbox::new();
        let mut passed = [0; STAGES];
        let staged = stats_of(policy, |forwarder, now, faces, exchange| {
            let ledger = account::run(forwarder, now, faces, &mut [exchange], &mut out, || 0);
            passed.iter_mut().zip(ledger.packets).for_each(|(all, packets)| *all += packets);
        });
        let forwarded = stats_of(policy, |forwarder, now, (consumer, producer), mut exchange| {
            forwarder.on_packet(now, consumer, &mut exchange.interest, &mut out).unwrap();
            let is_hit = out.drain().any(|send| send.face == consumer);
            if !is_hit {
                forwarder.on_packet(now, producer, &mut exchange.data, &mut out).unwrap();
                assert_eq!(out.drain().count(), 1);
            }
        });
        let passed = |stage: Stage| u64::from(passed[stage as usize]);
        let store = forwarded.content_store;
        assert_eq!(passed(Stage::Fetch), store.hits, "{policy}");
        assert_eq!(passed(Stage::PitDelete), store.misses, "{policy}");
        assert_eq!(passed(Stage::Insertion), store.insertions, "{policy}");
        assert_eq!(passed(Stage::DataSend), u64::from(EXCHANGES), "{policy}");
        let same = |stats: &Stats| {
            let store = stats.content_store;
            let stored = (store.insertions, store.rejections, store.evictions, stats.content_store_entries);
            (stored, stats.content_store_bytes, stats.pit_entries, stats.packets.in_bytes)
        };
        assert_eq!(same(&staged), same(&forwarded), "{policy}");
        assert!(store.hits > 100 && store.evictions > 100 && staged.pit_entries == 0, "{policy}: {store:?}");
    }
}
