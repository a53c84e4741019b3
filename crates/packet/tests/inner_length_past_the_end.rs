//! A length that reaches past the bytes that are there must be an error at an offset: one NDN
//! library panics on ten bytes.

use crate::generators;
use larder_packet::tlv::TlvReader;
use larder_packet::{ControlParameters, Data, DecodeErrorKind, Interest, LpPacket, NameRef};
use proptest::prelude::*;

#[test]
fn ten_bytes() {
    let wire = [0x05, 0x08, 0x24, 0x7f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00];
    let error = Interest::decode(&wire).unwrap_err();
    assert_eq!((error.offset, error.kind), (2, DecodeErrorKind::Truncated));
    assert_eq!(error.to_string(), "truncated at byte 2");
}

#[test]
fn at_every_depth() {
    // Name; its component; the SignatureInfo's KeyLocator's name's component.
    assert_eq!(
        Interest::decode(&[5, 4, 7, 3, 8, 0])
            .unwrap_err()
            .to_string(),
        "truncated at byte 2"
    );
    assert_eq!(
        Interest::decode(&[5, 4, 7, 2, 8, 1])
            .unwrap_err()
            .to_string(),
        "truncated at byte 4"
    );
    let data = [6, 16, 7, 0, 22, 9, 27, 1, 0, 28, 4, 7, 2, 8, 1, 23, 1, 0];
    assert_eq!(
        Data::decode(&data).unwrap_err().to_string(),
        "truncated at byte 13"
    );
    assert_eq!(
        LpPacket::decode(&[100, 4, 0xFD, 3, 0x20, 1])
            .unwrap_err()
            .to_string(),
        "truncated at byte 2"
    );
    assert_eq!(
        ControlParameters::decode(&[104, 4, 7, 2, 8, 1])
            .unwrap_err()
            .to_string(),
        "truncated at byte 4"
    );
    assert_eq!(
        NameRef::from_value(&[8, 2, 0]).unwrap_err().to_string(),
        "truncated at byte 0"
    );
}

#[test]
fn the_largest_length_that_can_be_stated() {
    let wire = [
        5, 11, 7, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0,
    ];
    assert_eq!(
        Interest::decode(&wire).unwrap_err().to_string(),
        "truncated at byte 2"
    );
    assert!(TlvReader::new(&wire[2..]).next().unwrap().is_err());
}

proptest! {
    #[test]
    fn no_packet_is_whole_before_its_last_byte(interest in generators::interest(), data in generators::data()) {
        let (interest, data) = (interest.build(), data.build());
        for cut in 0..interest.len() {
            let error = Interest::decode(&interest[..cut]).unwrap_err();
            prop_assert!(error.offset <= cut);
        }
        for cut in 0..data.len() {
            let error = Data::decode(&data[..cut]).unwrap_err();
            prop_assert!(error.offset <= cut);
        }
    }
}
