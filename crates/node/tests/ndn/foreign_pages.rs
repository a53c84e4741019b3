//! Web pages that a browser lets connect to the node, and that must not register prefixes.

use super::{Stage, interest};
use larder_packet::ControlParameters;
use std::io::Write;

#[test]
fn a_page_of_a_stranger_becomes_a_local_application() {
    let stage = Stage::with("websocket_origins = [\"https://app.example\"]");
    let port = stage.address("ws").rsplit_once(':').unwrap().1.to_owned();
    let foreign = [
        format!("http://evil.example:{port}"),
        "https://evil.example".into(),
        "null".into(),
        "http://app.example".into(),
    ];
    for (count, origin) in foreign.iter().enumerate() {
        let mut page = stage.websocket(&format!("Origin: {origin}\r\n"));
        assert!(
            page.head.starts_with("HTTP/1.1 403 "),
            "{origin}: {}",
            page.head
        );
        page.send_frame(0x82, &super::interest("/no/route", 1), 19);
        stage.await_figure("/ndn/drops/foreign_origin", |refused| {
            refused == count as u64 + 1
        });
    }
    let own = [
        "",
        "Origin: https://app.example\r\n",
        "Origin: http://localhost:3000\r\n",
        "Origin: http://127.0.0.1\r\n",
    ];
    for more in own {
        let mut page = stage.websocket(more);
        assert!(
            page.head.starts_with("HTTP/1.1 101 "),
            "{more}: {}",
            page.head
        );
        assert!(page.is_answered(1), "{more}");
    }
    assert_eq!(
        stage.figure("/ndn/drops/foreign_origin"),
        foreign.len() as u64
    );
}

/// The head of `fetch("http://127.0.0.1:6363/", { method: "POST", mode: "no-cors", body })` as
/// Chrome sends it, for a body of a `Uint8Array`.
fn chrome(address: &str, length: usize) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nConnection: keep-alive\r\nContent-Length: {length}\r\n\
         sec-ch-ua-platform: \"Linux\"\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 \
         Safari/537.36\r\nsec-ch-ua: \"Google Chrome\";v=\"131\", \"Chromium\";v=\"131\", \"Not_A Brand\";v=\"24\"\r\n\
         sec-ch-ua-mobile: ?0\r\nAccept: */*\r\nOrigin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n\
         Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: empty\r\nReferer: https://evil.example/\r\n\
         Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\n\r\n"
    )
}

/// The same as Firefox sends it.
fn firefox(address: &str, length: usize) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\r\nAccept: */*\r\n\
         Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
         Referer: https://evil.example/\r\nContent-Length: {length}\r\nOrigin: https://evil.example\r\n\
         Connection: keep-alive\r\nSec-Fetch-Dest: empty\r\nSec-Fetch-Mode: no-cors\r\n\
         Sec-Fetch-Site: cross-site\r\nPriority: u=4\r\n\r\n"
    )
}

/// A head that a page can send to its own name, which its name server leads to this machine: there
/// the method is free. `d~P|` begins an LpPacket with a Fragment.
fn rebound(address: &str, length: usize) -> String {
    let filler = "d~P|".to_owned() + &"x".repeat(124);
    let mut head = format!("d~P| /{} HTTP/1.1\r\nHost: {address}\r\n", filler.repeat(4));
    head.push_str(&format!("Content-Length: {length}\r\n\r\n"));
    head
}

/// Commands without a key, as a page writes them into a body. `filler` bytes come first, so that a
/// reader which skips the head as elements meets the commands.
fn commands(filler: usize, prefix: &str) -> Vec<u8> {
    let create = ControlParameters {
        uri: Some("udp4://192.0.2.1:6363".into()),
        ..Default::default()
    };
    let register = ControlParameters {
        name: Some(prefix.parse().unwrap()),
        ..Default::default()
    };
    let mut body = vec![b'x'; filler];
    for (verb, parameters) in [("faces/create", create), ("rib/register", register)] {
        body.extend(super::command(verb, &parameters));
    }
    body
}

#[test]
fn a_web_page_commands_the_forwarder_over_its_stream() {
    let stage = Stage::new();
    let mut app = stage.unix();
    let (address, mut refused) = (stage.address("tcp"), 0);
    for (browser, head) in [
        ("chrome", chrome as fn(&str, usize) -> String),
        ("firefox", firefox),
        ("rebound", rebound),
    ] {
        // One of the fillers brings a reader that skips elements exactly to the commands.
        for filler in 0..130 {
            let body = commands(filler, "/page");
            let mut page = stage.tcp();
            let request = [head(&address, body.len()).into_bytes(), body].concat();
            // The node may close the connection before all has left.
            let _ = page.stream.write_all(&request);
            assert_eq!(
                page.receive(),
                None,
                "{browser} with {filler} bytes before the commands"
            );
            refused += 1;
        }
        stage.await_figure("/ndn/drops/not_ndn", |drops| drops == refused);
        assert!(!app.has_face_to("udp4://192.0.2.1:6363"), "{browser}");
    }
    assert!(app.is_answered(1));
}

#[test]
fn an_element_that_is_no_packet_is_skipped() {
    let stage = Stage::new();
    let packet = interest("/no/route", 1);
    let register = ControlParameters {
        name: Some("/page".parse().unwrap()),
        ..Default::default()
    };
    let command = super::command("rib/register", &register);
    // One byte is enough, and so is an element of an unassigned type, also after a valid packet.
    let foreign: [(&str, Vec<u8>); 9] = [
        ("one byte", b"P".to_vec()),
        ("an unassigned type", vec![0x50, 1, 0]),
        (
            "a large element",
            [&[0x47, 0xfd, 0xff, 0x00][..], &[0; 100]].concat(),
        ),
        ("a name", vec![7, 3, 8, 1, b'a']),
        ("a type of three bytes", vec![0xfd, 0x03, 0x20, 0]),
        ("a TLS handshake", vec![0x16, 3, 1, 0, 2, 1, 0]),
        ("a TURN request", vec![0, 3, 0, 8, 0x21, 0x12, 0xa4, 0x42]),
        ("a link packet that is none", vec![0x64, 2, 0x47, 0]),
        (
            "a link packet with text",
            [&[0x64, 7, 0x50, 5][..], b"hello"].concat(),
        ),
    ];
    let mut refused = 0;
    for (what, bytes) in &foreign {
        for after_a_packet in [false, true] {
            if after_a_packet && bytes[0] == 0x64 {
                // A peer that speaks NDN may send a malformed link packet.
                continue;
            }
            let (mut unix, mut tcp) = (stage.unix(), stage.tcp());
            if after_a_packet {
                assert!(unix.is_answered(1) && tcp.is_answered(1));
            }
            let _ = unix.stream.write_all(&[&bytes[..], &command].concat());
            let _ = tcp.stream.write_all(&[&bytes[..], &command].concat());
            assert_eq!(unix.receive(), None, "{what} on the Unix socket");
            assert_eq!(tcp.receive(), None, "{what} on TCP");
            refused += 2;
            stage.await_figure("/ndn/drops/not_ndn", |drops| drops == refused);
        }
    }
    // A byte alone ends the connection at once, without waiting for the rest of an element.
    let mut app = stage.tcp();
    app.send(b"G");
    assert_eq!(app.receive(), None);
    // Packets of every kind go on.
    let mut app = stage.tcp();
    app.send(&[0x64, 0]);
    app.send(
        &[
            &[0x64, 2 + packet.len() as u8, 0x50, packet.len() as u8][..],
            &packet,
        ]
        .concat(),
    );
    assert!(app.receive().is_some_and(|frame| super::is_refusal(&frame)));
}

/// A datagram is one packet; whatever stands behind or around a packet makes it none.
#[test]
fn a_datagram_with_more_than_a_packet_is_read() {
    let stage = Stage::new();
    let packet = interest("/no/route", 1);
    let foreign: [Vec<u8>; 5] = [
        [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &packet].concat(),
        [&packet[..], b"more"].concat(),
        [&packet[..], &packet].concat(),
        [&[0x50, 1, 0][..], &packet].concat(),
        [&[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &packet].concat(),
    ];
    for datagram in &foreign {
        stage.udp().send(datagram).unwrap();
    }
    stage.await_figure("/ndn/drops/malformed", |drops| {
        drops == foreign.len() as u64
    });
    let mut app = stage.unix();
    assert!(
        app.faces().iter().all(|face| !face.uri.starts_with("udp")),
        "none became a face"
    );
}

/// A page cannot leave out the Origin of its own handshake, but it writes the body of a POST.
#[test]
fn a_page_smuggles_a_handshake_without_an_origin() {
    let stage = Stage::new();
    let address = stage.address("ws");
    let handshake = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let get = format!("GET / HTTP/1.1\r\nHost: {address}\r\nOrigin: https://evil.example\r\n\r\n");
    for head in [
        chrome(&address, handshake.len()),
        firefox(&address, handshake.len()),
        get,
    ] {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
        stream
            .write_all(format!("{head}{handshake}").as_bytes())
            .unwrap();
        let mut answer = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.contains("101 Switching"), "{head} got {answer}");
    }
}
