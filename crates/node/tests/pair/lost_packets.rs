//! Failure: packets that the link loses are bytes that the client misses, or the far node's end is
//! the client's patience.

use super::{Place, noise, pair};
use crate::wire::{Origin, say};
use larder_units::{Stream, Streams};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// A way to a node that loses every tenth datagram, each way. Where to send to, as a route has it.
fn lossy(to: &str) -> String {
    let target: SocketAddr = to.trim_start_matches("udp://").parse().unwrap();
    let near = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let far = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = near.local_addr().unwrap();
    far.connect(target).unwrap();
    let (peer, peer_known) = std::sync::mpsc::channel();
    let (from, to) = (Arc::clone(&near), Arc::clone(&far));
    std::thread::spawn(move || {
        let mut losses = Streams::new(1).stream("out");
        let mut buffer = [0; 65_536];
        while let Ok((length, sender)) = from.recv_from(&mut buffer) {
            let _ = peer.send(sender);
            pass(&mut losses, || drop(to.send(&buffer[..length])));
        }
    });
    std::thread::spawn(move || {
        let mut losses = Streams::new(1).stream("back");
        let mut buffer = [0; 65_536];
        let Ok(mut sender) = peer_known.recv() else {
            return;
        };
        while let Ok(length) = far.recv(&mut buffer) {
            for latest in peer_known.try_iter() {
                sender = latest;
            }
            pass(&mut losses, || {
                drop(near.send_to(&buffer[..length], sender))
            });
        }
    });
    format!("udp://{address}")
}

fn pass(losses: &mut Stream, send: impl FnOnce()) {
    if !losses.chance(0.1) {
        send();
    }
}

#[test]
fn every_byte_arrives_over_a_link_that_loses_a_tenth() {
    let (large, small) = (noise(300_000), noise(3000));
    let (a, b) = (large.clone(), small.clone());
    let origin = Origin::new(move |asked, stream| {
        let body = if asked.line.contains("large") { &a } else { &b };
        say(
            stream,
            &format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()),
        ) && stream.write_all(body).is_ok()
    });
    let far = Place::far(origin.address, "");
    let edge = Place::edge(&lossy(&far.udp()), "");
    let mut client = edge.client();
    let seen = client.get("/large");
    assert!(seen.body == large && !seen.cut, "{} bytes", seen.body.len());
    for number in 0..3 {
        let seen = client.get(&format!("/small/{number}"));
        assert!(seen.body == small, "{number}: {seen:?}");
    }
    assert!(
        edge.figure("/upstream/retransmissions") > 0,
        "the link has lost nothing"
    );
}

/// Failure: what a bad link loses is asked for by the client's end alone, time-out after time-out,
/// where the link's own ends could have sent it again.
#[test]
fn a_reliable_link_leaves_the_loss_to_time_outs_of_the_whole_way() {
    let large = noise(400_000);
    let body = large.clone();
    let origin = Origin::new(move |_, stream| {
        say(
            stream,
            &format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()),
        ) && stream.write_all(&body).is_ok()
    });
    let far = Place::far(origin.address, "");
    let edge = Place::reliable_edge(&lossy(&far.udp()), "");
    // Of the hundred packets and more of a page, twenty are lost; each of those again with a
    // tenth's chance. A thread that a busy machine lets wait for longer than a time-out asks again
    // too: the best of three pages tells.
    let mut before = 0;
    let again = [1, 2, 3].map(|page| {
        let seen = edge.client().get(&format!("/large/{page}"));
        assert!(seen.body == large && !seen.cut, "{} bytes", seen.body.len());
        let total = edge.figure("/upstream/retransmissions");
        total - std::mem::replace(&mut before, total)
    });
    assert!(
        again.iter().any(|again| *again < 8),
        "{again:?} were asked for again by the edge"
    );
}

#[test]
fn who_is_gone_is_asked_until_the_patience_ends() {
    let origin =
        Origin::new(|_, stream| say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"));
    let (edge, far) = pair(&origin);
    assert_eq!(edge.client().get("/a").status, 200);
    far.stop();
    let before = edge.figure("/upstream/retransmissions");
    let seen = edge.client().get("/a");
    assert!(matches!(seen.status, 502 | 504), "{seen:?}");
    let again = edge.figure("/upstream/retransmissions") - before;
    assert!(
        again < 5,
        "asked {again} times more, where no route is known at once: ten and more until it is given up"
    );
}

#[test]
fn an_origin_that_is_not_there_is_a_bad_gateway() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let far = Place::far(nobody, "");
    let edge = Place::edge(&far.tcp(), "");
    let seen = edge.client().get("/a");
    assert_eq!(
        (
            seen.status,
            seen.text().contains("does not reach the origin")
        ),
        (502, true),
        "{seen:?}"
    );
}
