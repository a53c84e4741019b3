//! Names must sort in canonical order, component by component, though they are compared as bytes;
//! and print as the specification says.

use crate::generators;
use larder_packet::{Name, NameRef};
use proptest::prelude::*;

/// The definition: the first component that differs decides, by type, then length, then bytes; a
/// proper prefix comes first.
fn slow_order(a: NameRef<'_>, b: NameRef<'_>) -> std::cmp::Ordering {
    let order = a.components().zip(b.components()).map(|(x, y)| {
        x.typ
            .cmp(&y.typ)
            .then(x.value.len().cmp(&y.value.len()))
            .then(x.value.cmp(y.value))
    });
    order
        .into_iter()
        .find(|order| order.is_ne())
        .unwrap_or(a.component_count().cmp(&b.component_count()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn bytes_sort_as_components_do(shared in generators::name(), a in generators::name(), b in generators::name()) {
        let (mut left, mut right) = (shared.clone(), shared);
        left.append(a.as_name());
        right.append(b.as_name());
        prop_assert_eq!(left.cmp(&right), slow_order(left.as_name(), right.as_name()));
        prop_assert_eq!(left.as_name().cmp(&right.as_name()), left.cmp(&right));
    }

    #[test]
    fn components_sort_as_one_component_names_do(a in generators::component(), b in generators::component()) {
        let (a, b) = (generators::name_of(&[a]), generators::name_of(&[b]));
        prop_assert_eq!(a.as_name().last().cmp(&b.as_name().last()), a.cmp(&b));
    }

    #[test]
    fn a_prefix_is_one_of_components(a in generators::name(), b in generators::name()) {
        let by_components = a.as_name().component_count() <= b.as_name().component_count()
            && a.as_name().components().zip(b.as_name().components()).all(|(x, y)| x == y);
        prop_assert_eq!(b.as_name().starts_with(a.as_name()), by_components);
    }
}

#[test]
fn by_hand() {
    let sorted = [
        "/",
        "/sha256digest=0000000000000000000000000000000000000000000000000000000000000000",
        "/...",
        "/z",
        "/z/a",
        "/aa",
        "/v=1",
        "/v=256",
        "/300=a",
    ];
    let names: Vec<Name> = sorted.iter().map(|text| text.parse().unwrap()).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn uris_as_the_specification_writes_them() {
    let cases: [(&str, &[u8], &str); 12] = [
        ("/", &[], "/"),
        ("ndn:/a", &[8, 1, b'a'], "/a"),
        ("ndn://authority/a/b/", &[8, 1, b'a', 8, 1, b'b'], "/a/b"),
        ("ndn://authority", &[], "/"),
        ("/...", &[8, 0], "/..."),
        ("/....", &[8, 1, b'.'], "/...."),
        (
            "/a%20%2fB-_~.",
            &[8, 8, b'a', b' ', b'/', b'B', b'-', b'_', b'~', b'.'],
            "/a%20%2FB-_~.",
        ),
        ("/32=metadata", b"\x20\x08metadata", "/32=metadata"),
        ("/8=a", &[8, 1, b'a'], "/a"),
        (
            "/v=300/seg=0/off=5/t=1/seq=65536",
            &[
                54, 2, 1, 44, 50, 1, 0, 52, 1, 5, 56, 1, 1, 58, 4, 0, 1, 0, 0,
            ],
            "/v=300/seg=0/off=5/t=1/seq=65536",
        ),
        // Not the shortest number, and none at all.
        (
            "/54=%00%01/50=...",
            &[54, 2, 0, 1, 50, 0],
            "/54=%00%01/50=...",
        ),
        ("/65535=%C3", &[0xFD, 0xFF, 0xFF, 1, 0xC3], "/65535=%C3"),
    ];
    for (text, bytes, printed) in cases {
        let name: Name = text.parse().unwrap();
        assert_eq!(name.as_bytes(), bytes, "{text}");
        assert_eq!(name.to_string(), printed);
    }
    let digests = format!(
        "/sha256digest={}/params-sha256={}",
        "ab".repeat(32),
        "0f".repeat(32)
    );
    assert_eq!(digests.parse::<Name>().unwrap().to_string(), digests);
}

#[test]
fn texts_that_are_no_names_say_why() {
    let cases = [
        ("a/b", "\"a/b\" is not a name: a name starts with \"/\""),
        ("", "\"\" is not a name: a name starts with \"/\""),
        (
            "/a//b",
            "\"\" has too few periods: write \"...\" for an empty component",
        ),
        (
            "/a/..",
            "\"..\" has too few periods: write \"...\" for an empty component",
        ),
        ("/a%2", "\"a%2\" needs two hexadecimal digits after \"%\""),
        ("/a%+1", "\"a%+1\" needs two hexadecimal digits after \"%\""),
        (
            "/v=x",
            "\"v=x\" needs a number from 0 to 2^64 - 1 after \"=\"",
        ),
        (
            "/v=+1",
            "\"v=+1\" needs a number from 0 to 2^64 - 1 after \"=\"",
        ),
        (
            "/v=",
            "\"v=\" needs a number from 0 to 2^64 - 1 after \"=\"",
        ),
        (
            "/v=18446744073709551616",
            "\"v=18446744073709551616\" needs a number from 0 to 2^64 - 1 after \"=\"",
        ),
        (
            "/sha256digest=00",
            "\"sha256digest=00\" needs 64 hexadecimal digits after \"=\"",
        ),
        ("/1=a", "\"1=a\" is a digest, which has 32 bytes"),
    ];
    for (text, message) in cases {
        assert_eq!(text.parse::<Name>().unwrap_err().to_string(), message);
    }
    for text in ["/a=b", "/0=a", "/65536=a", "/08=a", "/+8=a", "/=a"] {
        let message = text.parse::<Name>().unwrap_err().to_string();
        assert!(
            message.contains("component type from 1 to 65535"),
            "{message}"
        );
    }
}
