//! Failure: put and get sign or check a file so that a consumer cannot validate it, or accepts what
//! the trusted key has not signed. Uses the real program, a real node and Unix sockets.

use crate::home::{Home, Running, assert_same, produce_plain, stderr};
use larder_packet::{Certificate, Data, InterestBuilder, KeyLocator, LpPacket, Name};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[test]
fn one_signature_for_a_file_is_checked_by_who_has_the_key() {
    let home = Home::new();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../packet/tests/keys");
    let (key, public) = (
        format!("{keys}/ed25519.pem"),
        format!("{keys}/ed25519.pub.pem"),
    );
    let file = home.file("file", 3_000_000);
    let (_server, _) = home.serve(&["put", "/signed", "file", "--key", &key, "--manifest"]);
    let output = home.run(&["get", "/signed", "-o", "out", "--json", "--trust", &public]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_same(&home.path("out"), &file);
    let got: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // 375 segments. A packet holds the digests of 249.
    assert_eq!(
        (
            &got["manifest_packets"],
            &got["unverified"],
            &got["segments"]
        ),
        (&2.into(), &0.into(), &375.into())
    );

    let strangers = format!("{keys}/p256.pub.pem");
    let output = home.run(&[
        "get",
        "/signed",
        "-o",
        "never",
        "--retries",
        "0",
        "--trust",
        &strangers,
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains(
            "is not accepted: it is signed with Ed25519, and the trusted key is for ECDSA"
        ),
        "{}",
        stderr(&output)
    );
    assert!(!home.path("never").exists());
    assert_eq!(
        home.run(&["put", "/x", "file", "--manifest"]).status.code(),
        Some(2),
        "nothing to sign with"
    );
}

/// Serves /ed with a signature for each segment, /manifest with one for all, and /digest without.
fn serve_signed(home: &Home, key: &str) -> [Running; 3] {
    home.file("file", 20_000);
    let serve = |name: &str, more: &[&str]| {
        let put = ["put", name, "file", "--version", "1"];
        home.serve(&[&put[..], more].concat()).0
    };
    [
        serve("/ed", &["--key", key]),
        serve("/manifest", &["--key", key, "--manifest"]),
        serve("/digest", &[]),
    ]
}

/// Failure: a name whose signature fails "does not exist", or is tried for long.
#[test]
fn a_failed_signature_hides_behind_a_missing_name() {
    let home = Home::new();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../packet/tests/keys");
    let key = |name: &str| format!("{keys}/{name}");
    let _servers = serve_signed(&home, &key("ed25519.pem"));
    produce_plain(&home, |asked| {
        // Its digest is wrong.
        let name: Name = asked.strip_suffix("/32=metadata")?.parse().unwrap();
        let mut metadata = name.clone();
        metadata
            .push_keyword(b"metadata")
            .push_version(1)
            .push_segment(0);
        Some((metadata, b"corrupt"))
    });
    let p256 = key("p256.pub.pem");
    let other = home.path("other.pem");
    let generated = Command::new("openssl")
        .args(["genpkey", "-algorithm", "ed25519", "-out"])
        .arg(&other)
        .output();
    assert!(generated.unwrap().status.success());
    let other = other.to_str().unwrap();
    let ed = key("ed25519.pub.pem");
    for (name, trust, expected) in [
        (
            "/ed",
            other,
            "/ed/32=metadata/v=1/seg=0 is not accepted: its signature is not by the trusted key",
        ),
        ("/ed", other, "(its key locator is /ed/KEY/larder)"),
        (
            "/ed/v=1",
            other,
            "/ed/v=1/seg=0 is not accepted: its signature is not by the trusted key",
        ),
        (
            "/ed",
            &p256,
            "it is signed with Ed25519, and the trusted key is for ECDSA",
        ),
        (
            "/manifest",
            other,
            "/manifest/32=metadata/v=1/seg=0 is not accepted: its signature is not by",
        ),
        (
            "/manifest/v=1",
            &ed,
            "/manifest/v=1/seg=0 is not accepted: it has only a SHA-256 digest",
        ),
        ("/manifest/v=1", &ed, "fetch the name without its version"),
        (
            "/digest",
            &ed,
            "/digest/32=metadata/v=1/seg=0 is not accepted: it has only a SHA-256 digest",
        ),
        (
            "/digest/v=1",
            &ed,
            "/digest/v=1/seg=0 is not accepted: it has only a SHA-256 digest",
        ),
    ] {
        let output = home.run(&["get", name, "-o", "never", "--trust", trust]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(expected), "{name} with {trust}: {said}");
        assert!(
            !said.contains("no answer") && !said.contains("no such"),
            "{said}"
        );
    }
    let exact = home.run(&["get", "/digest/v=1", "--exact", "--trust", &ed]);
    assert!(
        stderr(&exact).contains("/digest/v=1/seg=0 is not accepted: it has only"),
        "{}",
        stderr(&exact)
    );
    let output = home.run(&["get", "/plain/corrupt"]);
    assert!(
        stderr(&output).contains("its SHA-256 digest is wrong"),
        "{}",
        stderr(&output)
    );
    assert!(!home.path("never").exists() && home.leftovers().is_empty());
}

/// Sends an Interest, and returns the Data that answers it.
fn express(home: &Home, name: &Name, selectors: [bool; 2]) -> Vec<u8> {
    static NONCE: AtomicU32 = AtomicU32::new(1);
    let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
    let [can_be_prefix, must_be_fresh] = selectors;
    let mut stream = UnixStream::connect(home.path("nfd.sock")).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .write_all(
            &InterestBuilder::new(name)
                .can_be_prefix(can_be_prefix)
                .must_be_fresh(must_be_fresh)
                .nonce(nonce)
                .build(),
        )
        .unwrap();
    let (mut received, mut buffer) = (Vec::new(), [0; 9000]);
    loop {
        let read = stream
            .read(&mut buffer)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read > 0, "the node has closed the connection");
        received.extend_from_slice(&buffer[..read]);
        if let Some(length) = larder_packet::tlv::frame(&received, 9000).unwrap() {
            let packet = LpPacket::decode(&received[..length]).unwrap();
            assert!(
                packet.header.nack.is_none(),
                "{name}: {:?}",
                packet.header.nack
            );
            return packet.fragment.unwrap().to_vec();
        }
    }
}

/// Failure: segments name a key that nobody serves, so that no other library can validate them.
#[test]
fn a_key_is_named_and_nobody_serves_it() {
    let home = Home::new();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../packet/tests/keys");
    let key = |name: &str| format!("{keys}/{name}");
    home.file("file", 20_000);
    let made = home.run(&["certificate", &key("p256.pem"), "/alice/KEY/7"]);
    fs::write(home.path("alice.ndncert"), &made.stdout).unwrap();
    let ed = key("ed25519.pem");
    let p256 = key("p256.pem");
    for (name, more) in [
        ("/default", vec!["--key", ed.as_str()]),
        ("/manifest", vec!["--key", ed.as_str(), "--manifest"]),
        (
            "/elsewhere",
            vec!["--key", p256.as_str(), "--key-name", "/bob/KEY/1"],
        ),
        (
            "/certified",
            vec!["--key", p256.as_str(), "--certificate", "alice.ndncert"],
        ),
    ] {
        let (mut server, _) = home.serve(&[&["put", name, "file"], &more[..]].concat());
        let line = server.line();
        let mut metadata: Name = name.parse().unwrap();
        metadata.push_keyword(b"metadata");
        let signed = express(&home, &metadata, [true, false]);
        let signed = Data::decode(&signed).unwrap();
        let Some(KeyLocator::Name(locator)) = signed.signature_info().key_locator else {
            panic!("no key")
        };
        // As a validator of another library does.
        let wire = express(&home, &locator.to_name(), [true, true]);
        let certificate = Certificate::decode(&wire).unwrap();
        assert!(
            certificate.is_meant_by(locator),
            "{} of {locator}",
            certificate.name()
        );
        assert!(
            line.ends_with(&format!("{}\n", certificate.name())),
            "{line}"
        );
        signed.verify(&certificate).unwrap();
        Data::decode(&wire).unwrap().verify(&certificate).unwrap();
        // A consumer that looks for the newest version by the object's name does not get the
        // certificate from a cache for long.
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let object = express(&home, &name.parse().unwrap(), [true, true]);
            if Data::decode(&object).unwrap().content_type.is_none() {
                break;
            }
            assert!(Instant::now() < deadline, "{name}");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Its certificate is a key to trust.
        let exact = express(&home, certificate.name(), [false, false]);
        fs::write(
            home.path("served.ndncert"),
            larder_packet::to_base64(&exact),
        )
        .unwrap();
        assert_eq!(
            home.run(&["get", name, "--trust", "served.ndncert"]).stdout,
            fs::read(home.path("file")).unwrap()
        );
        server.signal(Signal::INT);
        server.end();
    }
    for (arguments, expected) in [
        (
            [
                "put",
                "/x",
                "file",
                "--key",
                &ed,
                "--certificate",
                "alice.ndncert",
            ],
            "is that of another key",
        ),
        (
            ["put", "/x", "file", "--key", &ed, "--certificate", "file"],
            "--certificate file: ",
        ),
        (
            ["put", "/x", "file", "--key", &ed, "--key-name", "/alice"],
            "/KEY/",
        ),
    ] {
        let output = home.run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            stderr(&output).contains(expected),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

/// Failure: a certificate is no key to trust.
#[test]
fn a_certificate_is_not_trusted() {
    let home = Home::new();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../packet/tests/keys");
    let (p256, public) = (format!("{keys}/p256.pem"), format!("{keys}/p256.pub.pem"));
    home.file("file", 20_000);
    let made = home.run(&["certificate", &p256, "/alice/KEY/7"]);
    fs::write(home.path("alice.ndncert"), &made.stdout).unwrap();
    let text = fs::read_to_string(home.path("alice.ndncert")).unwrap();
    let block = format!(
        "-----BEGIN NDN CERT-----\nName: /alice/KEY/7\nSigType: ECDSA\n\n{text}-----END NDN CERT-----\n"
    );
    fs::write(home.path("ndnd.cert"), block).unwrap();
    let (_server, _) = home.serve(&[
        "put",
        "/last",
        "file",
        "--key",
        &p256,
        "--certificate",
        "ndnd.cert",
    ]);
    fs::write(
        home.path("raw.ndncert"),
        express(&home, &"/alice/KEY/7".parse().unwrap(), [true, false]),
    )
    .unwrap();
    for trust in ["alice.ndncert", "ndnd.cert", "raw.ndncert", &public, &p256] {
        let output = home.run(&["get", "/last", "-o", "out", "--trust", trust]);
        assert!(output.status.success(), "{trust}: {}", stderr(&output));
    }
    fs::write(home.path("text"), "neither").unwrap();
    let output = home.run(&["get", "/last", "--trust", "text"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("neither a PEM key"),
        "{}",
        stderr(&output)
    );
}
