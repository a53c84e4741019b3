//! Formats of the access log, and what they write of any exchange: a format is refused with one
//! line, or every record is one line; `json` is one object with the values of the record. The input
//! is a format, a newline, a target, a newline, and the value of a field.
#![no_main]

use larder_host::Peer;
use larder_proxy::access_log::{
    Attempt, CacheResult, Escape, Fields, Protocol, Record, Template, TimeText,
};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (format, target, value) = (part(), part(), part());
    let (Ok(format), Ok(target)) = (std::str::from_utf8(format), std::str::from_utf8(target))
    else {
        return;
    };
    let number = u64::from_le_bytes(std::array::from_fn(|at| {
        value.get(at).copied().unwrap_or_default()
    }));
    let attempt = Attempt {
        server: "a:80".to_owned(),
        status: None,
        head: None,
        total: Duration::from_nanos(number),
    };
    let (upstream, places) = (vec![attempt; number as usize % 3], [0..value.len()]);
    let record = Record {
        client: Peer::Tcp(([192, 0, 2, 1], number as u16).into()),
        scheme: "http",
        method: "GET",
        target,
        host: target,
        protocol: Protocol::Http11,
        status: number as u16,
        body_bytes: number,
        cache: CacheResult::of(value),
        first_byte: (number % 2 == 0).then(|| Duration::from_nanos(number)),
        total: Duration::from_nanos(number),
        is_complete: number % 5 == 0,
        upstream: &upstream,
        tls: None,
        request_id: Some(value),
        refusal: (number % 3 == 0).then_some(target),
        request_fields: Fields::Places(&places, value),
        response_fields: Fields::Places(&places, value),
    };
    let write = |template: &Template| {
        let mut line = Vec::new();
        template.write(
            &record,
            Duration::from_secs(number % 253_402_300_800),
            &mut TimeText::default(),
            &mut line,
        );
        line
    };
    for escape in [Escape::Default, Escape::Json] {
        match Template::parse(format, escape) {
            Ok(template) => {
                let line = write(&template);
                assert!(!line.iter().any(|byte| *byte < 0x20), "{line:?}");
                // The text of a format may be any text; values are visible ASCII.
                assert!(
                    escape == Escape::Json || std::str::from_utf8(&line).is_ok(),
                    "{line:?}"
                );
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
    let json = Template::parse("json", Escape::Default).expect("a known format");
    let object: serde_json::Value = serde_json::from_slice(&write(&json)).expect("a line is JSON");
    assert_eq!(
        (&object["request_uri"], &object["body_bytes_sent"]),
        (&target.into(), &number.into())
    );
});
