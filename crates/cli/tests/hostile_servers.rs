//! Failure: a server controls the terminal or takes the memory of who asks it. Uses the real
//! program.

use larder_packet::mgmt::{Element, FaceStatus};
use larder_packet::{
    Component, ControlResponse, DataBuilder, DigestSigner, Interest, LpPacket, Name, tlv, types,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Clears the screen, sets a title, reorders text, ends a line, and hides.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}txet\u{2066}\r\nroot# \u{8}\u{200b}\u{e0041}\u{7f}";

fn larder(arguments: &[&str], forwarder: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(arguments)
        .env("NDN_CLIENT_TRANSPORT", forwarder)
        .env("LARDER_TOKEN", "secret")
        .output()
        .unwrap()
}

/// Returns all that a command has printed, after it was looked at.
fn clean(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8(text).unwrap();
    let hidden = |char: char| {
        char.is_control() && !"\n\t".contains(char)
            || "\u{202e}\u{2066}\u{200b}\u{e0041}".contains(char)
    };
    assert!(!text.contains(hidden), "{text:?}");
    assert!(
        !text
            .lines()
            .any(|line| line.starts_with("root#") || line.starts_with("larder: root#")),
        "{text:?}"
    );
    text
}

/// An admin server that answers every request by `answer`.
fn admin(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut line).unwrap();
            let mut field = String::new();
            while reader.read_line(&mut field).unwrap() > 2 {
                field.clear();
            }
            answer(&line, &mut stream);
        }
    });
    address
}

fn reply(stream: &mut TcpStream, status: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body.as_bytes()))
        .unwrap();
}

const NOBODY: &str = "unix:///nonexistent/larder.sock";

#[test]
fn an_admin_server_controls_the_terminal() {
    let page = serde_json::json!({
        "larder": HOSTILE, "uptime_seconds": 1, "node": { "configuration": HOSTILE, "pid": HOSTILE },
        "http": { "listen": [HOSTILE], "origin": { HOSTILE: HOSTILE }, "policy": { "spec": HOSTILE }, "objects": HOSTILE,
                  "disk": { "failure": HOSTILE } },
    });
    // As other programs write JSON: without escapes that are not needed.
    let page = page.to_string();
    let address = admin(move |line, stream| match line {
        line if line.contains("/status") => reply(stream, "200 OK", &page),
        _ => reply(
            stream,
            "403 Forbidden",
            &format!("larder: {HOSTILE}\n{}", "long ".repeat(100_000)),
        ),
    });
    let address = address.to_string();
    let text = clean(&larder(&["ctl", "status", "--admin", &address], NOBODY));
    assert!(
        text.contains("version") && text.contains("\\u001b[2J"),
        "{text}"
    );
    let json = larder(&["ctl", "status", "--json", "--admin", &address], NOBODY);
    let value: serde_json::Value = serde_json::from_str(&clean(&json)).unwrap();
    assert_eq!(value["version"], HOSTILE, "the JSON has another meaning");
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let refused = [
        &["ctl", "purge", "--everything", "--admin", &address][..],
        &[
            "ctl", "capture", "-o", path, "--to", "csv", "--admin", &address,
        ],
    ];
    for arguments in refused {
        let output = larder(arguments, NOBODY);
        let text = clean(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.contains("403") && text.lines().count() == 1 && text.len() < 4_000,
            "{text}"
        );
    }
}

#[test]
fn an_endless_page_takes_the_memory() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let address = admin(move |_, stream| {
        let mut write = |bytes: &[u8]| {
            counter.fetch_add(bytes.len(), Ordering::SeqCst);
            stream.write_all(bytes)
        };
        let _ = write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"larder\":\"");
        while write(&[b'a'; 64 << 10]).is_ok() {}
    });
    let address = address.to_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let commands = [
        &["ctl", "status", "--admin", &address][..],
        &["ctl", "purge", "--everything", "--admin", &address],
        &[
            "ctl", "capture", "-o", path, "--to", "csv", "--admin", &address,
        ],
    ];
    for arguments in commands {
        let before = sent.load(Ordering::SeqCst);
        let output = larder(arguments, NOBODY);
        let text = clean(&output);
        let read = sent.load(Ordering::SeqCst) - before;
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.contains("sends more than") || text.contains("too early"),
            "{text}"
        );
        assert!(read < 64 << 20, "{read} bytes");
    }
}

/// A forwarder that answers every Interest by `answer`.
fn forwarder(
    answer: impl Fn(&Interest<'_>) -> Vec<u8> + Send + 'static,
) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            serve(stream, &answer);
        }
    });
    let uri = format!("unix://{}", path.display());
    (directory, uri)
}

fn serve(mut stream: UnixStream, answer: &impl Fn(&Interest<'_>) -> Vec<u8>) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..count]);
        while let Some(length) = tlv::frame(&bytes, 10_000).unwrap() {
            let frame: Vec<u8> = bytes.drain(..length).collect();
            let Some(fragment) = LpPacket::decode(&frame)
                .unwrap()
                .fragment
                .map(<[u8]>::to_vec)
            else {
                continue;
            };
            if stream
                .write_all(&answer(&Interest::decode(&fragment).unwrap()))
                .is_err()
            {
                return;
            }
        }
    }
}

#[test]
fn a_forwarder_controls_the_terminal() {
    let (_directory, uri) = forwarder(|interest| {
        let content = match interest.name.to_string() {
            name if name.contains("faces/list") => {
                let face = FaceStatus {
                    uri: HOSTILE.to_owned(),
                    local_uri: HOSTILE.to_owned(),
                    ..FaceStatus::default()
                };
                face.encode()
            }
            _ => ControlResponse {
                status_code: 403,
                status_text: HOSTILE.to_owned(),
                body: None,
            }
            .encode(),
        };
        let mut name = interest.name.to_name();
        if interest.can_be_prefix {
            name.push_version(1).push_segment(0);
        }
        DataBuilder::new(&name)
            .content(&content)
            .build(&DigestSigner)
            .unwrap()
    });
    let text = clean(&larder(&["ctl", "face", "list"], &uri));
    assert!(text.contains("\\u001b[2J"), "{text}");
    for arguments in [
        &["ctl", "face", "create", "udp://127.0.0.1:1"][..],
        &["ctl", "strategy", "set", "/a", "multicast"],
        &["ping-server", "/a"],
    ] {
        let text = clean(&larder(arguments, &uri));
        assert!(text.contains("403") && text.lines().count() == 1, "{text}");
    }
}

/// Failure: what a producer serves controls the terminal that shows it; or another program gets
/// other bytes.
#[test]
fn a_producer_controls_the_terminal() {
    let (_directory, uri) = forwarder(|interest| {
        DataBuilder::new(interest.name)
            .content(HOSTILE.as_bytes())
            .build(&DigestSigner)
            .unwrap()
    });
    let output = larder(&["get", "/a"], &uri);
    assert_eq!(output.stdout, HOSTILE.as_bytes());
    let command = format!("{} get /a", env!("CARGO_BIN_EXE_larder"));
    // It runs the command on a terminal.
    let on_a_terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("NDN_CLIENT_TRANSPORT", &uri)
        .stderr(std::process::Stdio::null())
        .output();
    let Ok(output) = on_a_terminal else { return };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("\\u001b[2J\\u001b]0;title\\u0007\\u009b31m\\u202etxet\\u2066"),
        "{text:?}"
    );
    assert!(!text.contains("\u{1b}[2J"), "{text:?}");
}

#[test]
fn an_endless_dataset_takes_the_memory() {
    let (_directory, uri) = forwarder(|interest| {
        let mut name: Name = interest.name.to_name();
        if interest.can_be_prefix {
            name.push_version(1).push_segment(0);
        }
        let last = u64::MAX.to_be_bytes();
        let last = Component {
            typ: types::SEGMENT,
            value: &last,
        };
        DataBuilder::new(&name)
            .content(&[0; 8000])
            .final_block_id(last)
            .build(&DigestSigner)
            .unwrap()
    });
    let output = larder(&["ctl", "face", "list"], &uri);
    let text = clean(&output);
    assert!(
        output.status.code() == Some(1) && text.contains("more than 67108864 bytes"),
        "{text}"
    );
}
