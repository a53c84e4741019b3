//! Elements that are unknown or out of place: the critical ones refuse the packet, the others are
//! skipped; the specification's rule for each kind of packet.

use larder_packet::{
    Data, DecodeErrorKind, Interest, LpHeader, LpPacket, NackReason, SignatureInfo,
};

/// An Interest for /a with these elements after the name.
fn interest(elements: &[u8]) -> Vec<u8> {
    let mut wire = vec![5, 5 + elements.len() as u8, 7, 3, 8, 1, b'a'];
    wire.extend_from_slice(elements);
    wire
}

/// A Data called /a with these elements after the name, and a signature unless one is among them.
fn data(elements: &[u8]) -> Vec<u8> {
    const SIGNATURE: [u8; 8] = [22, 3, 27, 1, 0, 23, 1, 0];
    let mut wire = vec![6, (13 + elements.len()) as u8, 7, 3, 8, 1, b'a'];
    wire.extend_from_slice(elements);
    wire.extend(SIGNATURE);
    wire
}

fn lp(fields: &[u8]) -> Vec<u8> {
    let mut wire = vec![100, fields.len() as u8];
    wire.extend_from_slice(fields);
    wire
}

#[test]
fn in_an_interest() {
    let kind = |elements: &[u8]| {
        Interest::decode(&interest(elements))
            .map(|_| ())
            .map_err(|error| (error.offset, error.kind))
    };
    assert_eq!(kind(&[]), Ok(()));
    assert_eq!(
        kind(&[31, 0]),
        Err((7, DecodeErrorKind::UnknownCritical(31)))
    );
    assert_eq!(
        kind(&[127, 0]),
        Err((7, DecodeErrorKind::UnknownCritical(127)))
    );
    assert_eq!(kind(&[128, 0, 33, 0]), Ok(()));
    // Out of order: CanBePrefix after MustBeFresh; a second Nonce; Nonce after HopLimit.
    assert_eq!(
        kind(&[18, 0, 33, 0]),
        Err((9, DecodeErrorKind::OutOfOrder(33)))
    );
    assert_eq!(
        kind(&[10, 4, 0, 0, 0, 1, 10, 4, 0, 0, 0, 2]),
        Err((13, DecodeErrorKind::OutOfOrder(10)))
    );
    assert_eq!(
        kind(&[34, 1, 9, 10, 4, 0, 0, 0, 1]),
        Err((10, DecodeErrorKind::OutOfOrder(10)))
    );
    // HopLimit and ApplicationParameters are not critical: a second one is skipped.
    let wire = interest(&[34, 1, 9, 34, 1, 8]);
    assert_eq!(Interest::decode(&wire).unwrap().hop_limit, Some(9));
    let wire = interest(&[36, 1, 9, 36, 1, 8, 34, 1, 1]);
    let decoded = Interest::decode(&wire).unwrap();
    assert_eq!(
        (decoded.application_parameters, decoded.hop_limit),
        (Some(&[9][..]), None)
    );
    // A second Name is critical; another element in the Name's place is no Interest.
    assert_eq!(kind(&[7, 0]), Err((7, DecodeErrorKind::OutOfOrder(7))));
    assert_eq!(
        Interest::decode(&[5, 2, 128, 0]).unwrap_err().kind,
        DecodeErrorKind::Missing("Name")
    );
    assert_eq!(
        Interest::decode(&[5, 0]).unwrap_err().to_string(),
        "Name missing at byte 2"
    );
}

#[test]
fn an_interests_values() {
    let kind = |elements: &[u8]| Interest::decode(&interest(elements)).unwrap_err().kind;
    assert_eq!(
        kind(&[33, 1, 0]),
        DecodeErrorKind::BadLength { typ: 33, length: 1 }
    );
    assert_eq!(
        kind(&[18, 1, 0]),
        DecodeErrorKind::BadLength { typ: 18, length: 1 }
    );
    assert_eq!(
        kind(&[10, 3, 0, 0, 0]),
        DecodeErrorKind::BadLength { typ: 10, length: 3 }
    );
    assert_eq!(
        kind(&[12, 3, 0, 0, 0]),
        DecodeErrorKind::BadLength { typ: 12, length: 3 }
    );
    assert_eq!(
        kind(&[34, 0]),
        DecodeErrorKind::BadLength { typ: 34, length: 0 }
    );
    assert_eq!(kind(&[30, 2, 31, 0]), DecodeErrorKind::UnknownCritical(31));
    assert_eq!(kind(&[30, 4, 7, 2, 0, 0]), DecodeErrorKind::TypeOutOfRange);
    assert_eq!(
        Interest::decode(&[5, 2, 7, 0]).unwrap_err().kind,
        DecodeErrorKind::BadLength { typ: 7, length: 0 }
    );
    assert_eq!(
        Interest::decode(&[5, 5, 7, 3, 1, 1, 0]).unwrap_err().kind,
        DecodeErrorKind::BadLength { typ: 1, length: 1 }
    );
    assert_eq!(
        Interest::decode(&data(&[])).unwrap_err().kind,
        DecodeErrorKind::Unexpected(6)
    );
    let mut longer = interest(&[]);
    longer.push(0);
    assert_eq!(
        Interest::decode(&longer).unwrap_err().kind,
        DecodeErrorKind::TrailingBytes
    );
}

#[test]
fn two_parameters_digests() {
    let digest = || [2, 32].into_iter().chain([0; 32]);
    let name: Vec<u8> = digest().chain(digest()).collect();
    let wire: Vec<u8> = [5, 70, 7, 68].into_iter().chain(name).collect();
    assert_eq!(
        Interest::decode(&wire).unwrap_err().kind,
        DecodeErrorKind::BadValue(7)
    );
}

#[test]
fn a_signature_without_parameters_is_no_signature() {
    let wire = interest(&[44, 3, 27, 1, 0, 46, 1, 0]);
    let decoded = Interest::decode(&wire).unwrap();
    assert!(
        decoded.signature_info().is_none()
            && decoded.signature_value.is_none()
            && decoded.signed_portion().is_none()
    );
}

#[test]
fn in_a_data() {
    let kind = |elements: &[u8]| {
        Data::decode(&data(elements))
            .map(|_| ())
            .map_err(|error| (error.offset, error.kind))
    };
    assert_eq!(kind(&[]), Ok(()));
    assert_eq!(kind(&[20, 0, 128, 0, 21, 0]), Ok(()));
    assert_eq!(
        kind(&[129, 0]),
        Err((7, DecodeErrorKind::UnknownCritical(129)))
    );
    assert_eq!(
        kind(&[21, 0, 20, 0]),
        Err((9, DecodeErrorKind::OutOfOrder(20)))
    );
    assert_eq!(kind(&[7, 0]), Err((7, DecodeErrorKind::OutOfOrder(7))));
    assert_eq!(
        kind(&[22, 3, 27, 1, 0]),
        Err((12, DecodeErrorKind::OutOfOrder(22)))
    );
    // MetaInfo: an unknown even type is an application's; order; FinalBlockId holds one component.
    assert_eq!(kind(&[20, 5, 25, 1, 9, 200, 0]), Ok(()));
    assert_eq!(
        kind(&[20, 2, 201, 0]),
        Err((9, DecodeErrorKind::UnknownCritical(201)))
    );
    assert_eq!(
        kind(&[20, 6, 25, 1, 9, 24, 1, 0]),
        Err((12, DecodeErrorKind::OutOfOrder(24)))
    );
    assert_eq!(
        kind(&[20, 2, 26, 0]),
        Err((9, DecodeErrorKind::BadLength { typ: 26, length: 0 }))
    );
    assert_eq!(
        kind(&[20, 6, 26, 4, 8, 0, 8, 0]),
        Err((9, DecodeErrorKind::BadLength { typ: 26, length: 4 }))
    );
    assert_eq!(kind(&[20, 2, 25, 1]), Err((9, DecodeErrorKind::Truncated)));
}

#[test]
fn a_data_without_signature() {
    let kind = |wire: &[u8]| Data::decode(wire).unwrap_err().kind;
    assert_eq!(
        kind(&[6, 4, 7, 0, 21, 0]),
        DecodeErrorKind::Missing("SignatureValue")
    );
    assert_eq!(
        kind(&[6, 5, 7, 0, 23, 1, 0]),
        DecodeErrorKind::Missing("SignatureInfo")
    );
    assert_eq!(
        kind(&[6, 7, 7, 0, 22, 3, 27, 1, 0]),
        DecodeErrorKind::Missing("SignatureValue")
    );
    assert_eq!(kind(&[6, 2, 21, 0]), DecodeErrorKind::Missing("Name"));
    // The empty name is a Data's right.
    assert!(Data::decode(&[6, 10, 7, 0, 22, 3, 27, 1, 0, 23, 1, 0]).is_ok());
}

#[test]
fn in_a_signature_info() {
    let kind = |inside: &[u8]| {
        let wire: Vec<u8> = [22, inside.len() as u8]
            .iter()
            .chain(inside)
            .copied()
            .collect();
        SignatureInfo::decode(&wire)
            .map(|info| info.key_locator.is_some())
            .map_err(|error| error.kind)
    };
    assert_eq!(kind(&[27, 1, 0]), Ok(false));
    // An empty KeyLocator, as some libraries write for digests; one with a name; with a digest;
    // with both.
    assert_eq!(kind(&[27, 1, 0, 28, 0]), Ok(false));
    assert_eq!(kind(&[27, 1, 0, 28, 2, 7, 0]), Ok(true));
    assert_eq!(kind(&[27, 1, 0, 28, 3, 29, 1, 9]), Ok(true));
    assert_eq!(
        kind(&[27, 1, 0, 28, 5, 7, 0, 29, 1, 9]),
        Err(DecodeErrorKind::OutOfOrder(29))
    );
    assert_eq!(
        kind(&[27, 1, 0, 28, 5, 29, 1, 9, 7, 0]),
        Err(DecodeErrorKind::OutOfOrder(7))
    );
    // A KeyLocator too late or twice is critical; of two times, which are not, the first counts.
    assert_eq!(
        kind(&[27, 1, 0, 40, 1, 7, 28, 0]),
        Err(DecodeErrorKind::OutOfOrder(28))
    );
    assert_eq!(
        kind(&[27, 1, 0, 28, 0, 28, 0]),
        Err(DecodeErrorKind::OutOfOrder(28))
    );
    assert_eq!(
        kind(&[27, 1, 0, 27, 1, 0]),
        Err(DecodeErrorKind::OutOfOrder(27))
    );
    assert_eq!(
        SignatureInfo::decode(&[44, 9, 27, 1, 0, 40, 1, 7, 40, 1, 8])
            .unwrap()
            .time,
        Some(7)
    );
    // A certificate's ValidityPeriod is known, though of a critical number; AdditionalDescription
    // is skipped.
    assert_eq!(kind(&[27, 1, 0, 0xFD, 0, 253, 0, 0xFD, 1, 2, 0]), Ok(false));
    assert_eq!(
        kind(&[27, 1, 0, 0xFD, 0, 255, 0]),
        Err(DecodeErrorKind::UnknownCritical(255))
    );
    assert_eq!(kind(&[27, 1, 0, 40, 1, 7, 38, 1, 7]), Ok(false));
    assert_eq!(
        kind(&[28, 0, 27, 1, 0]),
        Err(DecodeErrorKind::Missing("SignatureType"))
    );
}

#[test]
fn in_a_link_packet() {
    let header = |fields: &[u8]| {
        LpPacket::decode(&lp(fields))
            .map(|packet| packet.header)
            .map_err(|error| (error.offset, error.kind))
    };
    assert_eq!(header(&[]), Ok(LpHeader::default()));
    // Skipped: 800 to 959, a multiple of four. Refused: everything else, low or high, even or odd.
    assert_eq!(header(&[0xFD, 3, 0xBC, 0]), Ok(LpHeader::default()));
    assert_eq!(
        header(&[0xFD, 3, 0xBE, 0]),
        Err((2, DecodeErrorKind::UnknownCritical(958)))
    );
    assert_eq!(
        header(&[0xFD, 3, 0xBD, 0]),
        Err((2, DecodeErrorKind::UnknownCritical(957)))
    );
    assert_eq!(
        header(&[0xFD, 3, 0xC0, 0]),
        Err((2, DecodeErrorKind::UnknownCritical(960)))
    );
    assert_eq!(
        header(&[84, 0]),
        Err((2, DecodeErrorKind::UnknownCritical(84)))
    );
    // Any order of header fields, but each once and none after the fragment.
    let mark = [0xFD, 3, 0x40, 1, 1];
    let token = [98, 1, 7];
    assert_eq!(
        header(&[&mark[..], &token].concat()),
        header(&[&token[..], &mark].concat())
    );
    assert_eq!(
        header(&[token, token].concat()),
        Err((5, DecodeErrorKind::OutOfOrder(98)))
    );
    assert_eq!(
        header(&[&[80, 1, 0][..], &token].concat()),
        Err((5, DecodeErrorKind::OutOfOrder(98)))
    );
    assert_eq!(
        header(&[80, 1, 0, 80, 1, 0]),
        Err((5, DecodeErrorKind::OutOfOrder(80)))
    );
}

#[test]
fn a_link_headers_values() {
    let header = |fields: &[u8]| {
        LpPacket::decode(&lp(fields))
            .map(|packet| packet.header)
            .map_err(|error| error.kind)
    };
    assert_eq!(
        header(&[98, 0]),
        Err(DecodeErrorKind::BadLength { typ: 98, length: 0 })
    );
    let long: Vec<u8> = [98, 33].into_iter().chain([1; 33]).collect();
    assert_eq!(
        header(&long),
        Err(DecodeErrorKind::BadLength {
            typ: 98,
            length: 33
        })
    );
    assert_eq!(
        header(&[81, 1, 7]),
        Err(DecodeErrorKind::BadLength { typ: 81, length: 1 })
    );
    assert_eq!(
        header(&[82, 1, 2, 83, 1, 2]),
        Err(DecodeErrorKind::BadValue(82))
    );
    assert_eq!(header(&[83, 1, 0]), Err(DecodeErrorKind::BadValue(82)));
    let nack = |fields: &[u8]| header(fields).map(|header| header.nack);
    assert_eq!(nack(&[0xFD, 3, 0x20, 0]), Ok(Some(NackReason::None)));
    assert_eq!(
        nack(&[0xFD, 3, 0x20, 5, 0xFD, 3, 0x21, 1, 150]),
        Ok(Some(NackReason::NoRoute))
    );
    assert_eq!(
        nack(&[0xFD, 3, 0x20, 5, 0xFD, 3, 0x21, 1, 151]),
        Ok(Some(NackReason::Other(151)))
    );
    let no_cache =
        |value| header(&[0xFD, 3, 0x34, 5, 0xFD, 3, 0x35, 1, value]).map(|header| header.no_cache);
    assert_eq!((no_cache(1), no_cache(2)), (Ok(true), Ok(false)));
    assert_eq!(
        LpPacket::decode(&[7, 0]).unwrap_err().kind,
        DecodeErrorKind::Unexpected(7)
    );
    assert_eq!(
        LpPacket::decode(&[]).unwrap_err().kind,
        DecodeErrorKind::Truncated
    );
    // IDLE has no fragment; an empty one is a fragment, which no decoder of packets will take.
    assert_eq!(LpPacket::decode(&[100, 0]).unwrap().fragment, None);
    assert_eq!(
        LpPacket::decode(&[100, 2, 80, 0]).unwrap().fragment,
        Some(&[][..])
    );
}
