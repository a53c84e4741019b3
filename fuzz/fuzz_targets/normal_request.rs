//! The normal form of a request: it is its own normal form, no server reads a way up in it, and a
//! server that reads a path below `/admin` gets it only if the rules for `/admin` hold. The input
//! is a target, and a host on the next line.
#![no_main]

use http::Method;
use larder_proxy::rules::{RequestFields, Rule, RuleRequest, Rules};
use larder_proxy::{normal_authority, normal_target};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let file = "[[http.rules]]\npath = [\"/admin\", \"/admin/*\"]\ndeny = \"all\"";
    let config = larder_node::Config::parse(file, "node.toml").expect("a configuration");
    let rules: Vec<Rule> = config.http.proxy.rules;
    Rules::new(rules).expect("rules")
});

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (target, host) = text.split_once('\n').unwrap_or((&text, "a.test"));
    for scheme in ["http", "https"] {
        if let Ok(normal) = normal_authority(scheme, host) {
            assert_eq!(normal_authority(scheme, &normal).as_deref(), Ok(&*normal));
            assert!(
                !normal.ends_with('.')
                    && !normal.contains([',', '/', '@', '%', ' '])
                    && normal.is_ascii()
            );
            assert!(!normal.bytes().any(|byte| byte.is_ascii_uppercase()));
        }
    }
    let Ok(normal) = normal_target(target) else {
        return;
    };
    assert_eq!(normal_target(&normal).as_deref(), Ok(&*normal));
    assert!(normal.is_ascii() && !normal.contains(['#', ' ', '"', '<', '>']));
    let (path, _) = normal.split_once('?').unwrap_or((&normal, ""));
    let request = RuleRequest {
        scheme: "http",
        host: "a.test",
        target: (&*normal).into(),
        method: &Method::GET,
        client: [192, 0, 2, 1].into(),
        fields: RequestFields::Parsed(&[]),
    };
    let is_denied = !RULES.of_request(&request).is_empty();
    for read in [raw, decoded, as_windows, as_reference, as_java] {
        let segments = read(path);
        assert!(
            !segments
                .iter()
                .any(|segment| segment == b".." || segment == b"."),
            "{normal}"
        );
        let is_admin = segments.first().is_some_and(|first| first == b"admin");
        assert!(!is_admin || is_denied, "{normal}");
    }
});

/// Compares the bytes.
fn raw(path: &str) -> Vec<Vec<u8>> {
    split(path.as_bytes(), b"/")
}

/// Decodes, and merges slashes, as nginx and most frameworks.
fn decoded(path: &str) -> Vec<Vec<u8>> {
    merged(split(&decode(path), b"/"))
}

/// Decodes, and takes backslashes for slashes, as servers on Windows.
fn as_windows(path: &str) -> Vec<Vec<u8>> {
    merged(split(&decode(path), b"/\\"))
}

/// Takes a path with two slashes for a host and a path, as `new URL(path, base)`; a backslash is a
/// slash (WHATWG URL).
fn as_reference(path: &str) -> Vec<Vec<u8>> {
    let slashes = path.replace('\\', "/");
    let rest = match slashes.strip_prefix("//") {
        Some(rest) => rest.split_once('/').map_or("", |(_, path)| path),
        None => slashes.trim_start_matches('/'),
    };
    rest.split('/')
        .map(|segment| segment.replace("%2e", ".").replace("%2E", ".").into_bytes())
        .collect()
}

/// Decodes, and cuts parameters off dot segments, as Tomcat.
fn as_java(path: &str) -> Vec<Vec<u8>> {
    let cut = |segment: Vec<u8>| match segment.iter().position(|byte| *byte == b';') {
        Some(at) if segment[..at].iter().all(|byte| *byte == b'.') => segment[..at].to_vec(),
        _ => segment,
    };
    merged(split(&decode(path), b"/").into_iter().map(cut).collect())
}

fn split(path: &[u8], separators: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| separators.contains(byte))
        .skip(1)
        .map(<[u8]>::to_vec)
        .collect()
}

fn merged(segments: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    segments
        .into_iter()
        .filter(|segment| !segment.is_empty())
        .collect()
}

fn decode(path: &str) -> Vec<u8> {
    let (bytes, mut all, mut at) = (path.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let digits = bytes
            .get(at + 1..at + 3)
            .and_then(|two| std::str::from_utf8(two).ok());
        match digits
            .and_then(|two| u8::from_str_radix(two, 16).ok())
            .filter(|_| bytes[at] == b'%')
        {
            Some(byte) => {
                all.push(byte);
                at += 3;
            }
            None => {
                all.push(bytes[at]);
                at += 1;
            }
        }
    }
    all
}
