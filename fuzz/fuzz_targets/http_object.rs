#![no_main]
//! An object of the third tier is any bytes: another program may have written into the bucket.

use http::{HeaderMap, Method, Version};
use larder_http::{
    Cache, Config, Now, ObjectTier, OfferedObject, ReadObject, RequestHead, Step, object_head_bytes,
};
use larder_units::{ByteSize, Streams, Time};
use libfuzzer_sys::fuzz_target;

struct Nothing;

impl ObjectTier for Nothing {
    fn is_worth(&self, _: u64) -> bool {
        true
    }

    fn was_fetched(&mut self, _: u64) -> bool {
        false
    }

    fn offer(&mut self, _: OfferedObject) -> bool {
        false
    }

    fn remove(&mut self, _: &[u8]) {}
}

fuzz_target!(|input: (Vec<u8>, u64, bool)| {
    let (mut bytes, whole, is_framed) = input;
    if is_framed && bytes.len() > 53 {
        // A right frame, so that the record is read.
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(b"LRO1");
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..25].fill(0);
        let key = b"http a /";
        bytes[49..53].copy_from_slice(&(key.len() as u32).to_le_bytes());
        if bytes.len() > 53 + key.len() {
            bytes[53..53 + key.len()].copy_from_slice(key);
        }
    }
    let mut cache = Cache::new(&Config::default(), &Streams::new(1)).expect("a default");
    cache.set_objects(Box::new(Nothing), [0; 16], ByteSize::from_bytes(0));
    let now = Now {
        time: Time::from_secs(5),
        unix_seconds: 1_700_000_000,
    };
    let headers = HeaderMap::new();
    let request = RequestHead {
        method: &Method::GET,
        scheme: "http",
        authority: "a",
        target: "/",
        version: Version::HTTP_11,
        headers: &headers,
        has_body: false,
        coding: None,
        confirmed: None,
    };
    let Step::Forward(exchange) = cache.on_request(&request, now) else {
        panic!("nothing is stored");
    };
    let _ = object_head_bytes(&bytes);
    match cache.read_object(&exchange, &bytes, whole, now) {
        ReadObject::Fresh(mut head, _) | ReadObject::Stale(mut head) => {
            assert_eq!(head.start as u64 + head.body_bytes, whole);
            head.set_validators(&mut HeaderMap::new());
            head.confirm(&HeaderMap::new());
        }
        ReadObject::Unusable | ReadObject::Variant(_) => {}
    }
});
