//! Datasets whose fields are not where NFD's own clients look for them: ndn-cxx's decoders want
//! each field in its place, and refuse the dataset otherwise. The orders here are those of the NFD
//! management protocol's pages.

use larder_packet::mgmt::{
    ChannelStatus, CsInfo, CsObject, Element, FaceEventNotification, FaceQueryFilter, FaceStatus,
    FibEntry, ForwarderStatus, NextHopRecord, PrefixAnnouncement, RibEntry, RouteRecord,
    StrategyChoice,
};
use larder_packet::tlv::{self, Tlv, TlvReader};
use larder_packet::{ControlParameters, ControlResponse, Data, DataBuilder, DigestSigner, Name};
use std::fmt::Debug;
use std::time::Duration;

/// The element's type and those of its fields, in order; it must read back as it was.
fn types<T: Element + PartialEq + Debug>(element: &T) -> (u32, Vec<u32>) {
    let wire = element.encode();
    assert_eq!(&T::decode(&wire).unwrap(), element);
    let outer = Tlv::only(&wire, T::TYPE).unwrap();
    (
        outer.typ,
        outer.children().map(|field| field.unwrap().typ).collect(),
    )
}

fn name() -> Name {
    "/a/b".parse().unwrap()
}

#[test]
fn a_face_says_all_of_itself_in_order() {
    let face = FaceStatus {
        expiration: Some(Duration::from_secs(9)),
        base_congestion_marking_interval: Some(Duration::from_millis(100)),
        default_congestion_threshold: Some(65_536),
        mtu: Some(1452),
        uri: "udp4://192.0.2.1:6363".into(),
        ..FaceStatus::default()
    };
    let (typ, fields) = types(&face);
    assert_eq!(typ, 128);
    let counters = [144, 145, 151, 146, 147, 152, 148, 149];
    let around = [105, 114, 129, 109, 132, 133, 134, 135, 136, 137]
        .into_iter()
        .chain(counters)
        .chain([108]);
    assert_eq!(fields, around.collect::<Vec<u32>>());
    let (_, bare) = types(&FaceStatus::default());
    let around = [105, 114, 129, 132, 133, 134]
        .into_iter()
        .chain(counters)
        .chain([108]);
    assert_eq!(bare, around.collect::<Vec<u32>>());
}

#[test]
fn the_general_status_is_bare_fields_in_order() {
    let status = ForwarderStatus {
        version: "larder".into(),
        fib_entries: 3,
        ..ForwarderStatus::default()
    };
    let mut content = Vec::new();
    status.encode_fields(&mut content);
    let fields: Vec<u32> = TlvReader::new(&content)
        .map(|field| field.unwrap().typ)
        .collect();
    assert_eq!(
        fields,
        [
            128, 129, 130, 131, 132, 133, 134, 135, 144, 145, 151, 146, 147, 152, 153, 154
        ]
    );
    assert_eq!(
        ForwarderStatus::decode_fields(TlvReader::new(&content)).unwrap(),
        status
    );
}

#[test]
fn the_other_datasets_are_in_order() {
    let event = FaceEventNotification {
        kind: 1,
        ..FaceEventNotification::default()
    };
    assert_eq!(
        types(&event),
        (192, vec![193, 105, 114, 129, 132, 133, 134, 108])
    );
    assert_eq!(
        types(&ChannelStatus {
            local_uri: "tcp4://0.0.0.0:6363".into()
        }),
        (130, vec![129])
    );
    let hop = NextHopRecord {
        face_id: 256,
        cost: 10,
    };
    assert_eq!(
        types(&FibEntry {
            name: name(),
            next_hops: vec![hop.clone(), hop]
        }),
        (128, vec![7, 129, 129])
    );
    let route = RouteRecord {
        expiration: Some(Duration::from_secs(1)),
        ..RouteRecord::default()
    };
    assert_eq!(types(&route), (129, vec![105, 111, 106, 108, 109]));
    assert_eq!(
        types(&RibEntry {
            name: name(),
            routes: vec![route]
        }),
        (128, vec![7, 129])
    );
    assert_eq!(
        types(&StrategyChoice {
            name: name(),
            strategy: name()
        }),
        (128, vec![7, 107])
    );
    assert_eq!(
        types(&CsInfo::default()),
        (128, vec![131, 108, 135, 129, 130])
    );
    let filter = FaceQueryFilter {
        uri_scheme: Some("udp4".into()),
        ..FaceQueryFilter::default()
    };
    assert_eq!(types(&filter), (150, vec![131]));
}

#[test]
fn parameters_stand_in_the_order_of_nfds() {
    // NDNts passes over a field that comes before its turn.
    let all = ControlParameters {
        name: Some(name()),
        strategy: Some(name()),
        uri: Some(String::new()),
        local_uri: Some(String::new()),
        expiration: Some(Duration::ZERO),
        base_congestion_marking_interval: Some(Duration::ZERO),
        face_id: Some(1),
        origin: Some(1),
        cost: Some(1),
        capacity: Some(1),
        count: Some(1),
        flags: Some(1),
        mask: Some(1),
        face_persistency: Some(1),
        default_congestion_threshold: Some(1),
        mtu: Some(1),
        policy: None,
        capacity_bytes: None,
    };
    assert_eq!(
        types(&all),
        (
            104,
            vec![
                7, 105, 114, 129, 111, 106, 131, 132, 108, 112, 107, 109, 133, 135, 136, 137
            ]
        )
    );
}

#[test]
fn what_larder_adds_can_be_skipped() {
    // NFD's decoders skip what follows the fields that they know only where the type is not
    // critical.
    let info = CsInfo {
        used_bytes: Some(7),
        policy: Some("lru".into()),
        ..CsInfo::default()
    };
    let (_, fields) = types(&info);
    assert_eq!(fields[..5], [131, 108, 135, 129, 130]);
    assert!(
        fields[5..].iter().all(|typ| !tlv::is_critical(*typ)),
        "{fields:?}"
    );
    types(&CsObject {
        name: name(),
        fresh: Some(Duration::from_secs(1)),
        ..CsObject::default()
    });
}

#[test]
fn a_missing_field_is_an_error_and_a_strange_one_is_not() {
    assert_eq!(
        FaceStatus::decode(&[128, 3, 105, 1, 1])
            .unwrap_err()
            .to_string(),
        "uri missing at byte 5"
    );
    let strange = [130, 8, 0xFD, 1, 1, 1, 9, 129, 1, b'x'];
    assert_eq!(ChannelStatus::decode(&strange).unwrap().local_uri, "x");
    assert!(ControlResponse::decode(&[101, 3, 102, 1, 200]).is_err());
    assert_eq!(
        ChannelStatus::decode_all(&[130, 3, 129, 1, b'x', 131, 0])
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn only_a_prefix_announcement_announces() {
    let build = |uri: &str, content_type, content: &[u8]| {
        let name: Name = uri.parse().unwrap();
        DataBuilder::new(&name)
            .content_type(content_type)
            .content(content)
            .build(&DigestSigner)
            .unwrap()
    };
    let read = |wire: &[u8]| PrefixAnnouncement::of_data(&Data::decode(wire).unwrap());
    let good = build("/a/b/32=PA/v=1/seg=0", 5, &[109, 2, 0x0E, 0x10]);
    assert_eq!(
        read(&good),
        Ok(PrefixAnnouncement {
            prefix: name(),
            expiration: Duration::from_millis(3600)
        })
    );
    assert!(read(&build("/a/b/32=PA/v=1/seg=1", 5, &[109, 1, 9])).is_err());
    assert!(read(&build("/a/b/PA/v=1/seg=0", 5, &[109, 1, 9])).is_err());
    assert!(read(&build("/v=1/seg=0", 5, &[109, 1, 9])).is_err());
    assert!(read(&build("/a/b/32=PA/v=1/seg=0", 0, &[109, 1, 9])).is_err());
    assert!(read(&build("/a/b/32=PA/v=1/seg=0", 5, &[])).is_err());
}
