//! Failure: large bodies, and clients that leave in the middle of them, fill the memory. Alone in
//! its file, since memory is the process's.

mod wire;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use wire::Node;

/// Peak resident memory of this process since the last reset, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn reset_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// 200 MB through the proxy, with and without a declared length, take none of it.
#[test]
fn large_bodies_stream_at_the_clients_pace() {
    let node = Node::generated();
    for target in ["/200MB/a", "/200MB/a?chunked"] {
        reset_peak();
        let before = peak_kib();
        let mut stream = TcpStream::connect(node.address).unwrap();
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        // Nobody reads for a moment: the proxy may not read on from the origin meanwhile.
        std::thread::sleep(Duration::from_millis(300));
        let mut read = 0;
        let mut buffer = vec![0; 1 << 20];
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            read += bytes as u64;
        }
        assert!(read >= 200_000_000, "{read}");
        let grown = peak_kib() - before;
        // The limit of an object is 8 MiB, doubled while it grows.
        assert!(grown < 32 * 1024, "{target} took {grown} KiB");
    }
    assert_eq!(node.status()["objects"], 0);
    assert_eq!(node.status()["filling_bytes"], 0);

    // A thousand clients ask for an object each and leave: nothing stays behind.
    for number in 0..1000 {
        let mut stream = TcpStream::connect(node.address).unwrap();
        write!(
            stream,
            "GET /8MiB/{number}?chunked HTTP/1.1\r\nhost: a\r\n\r\n"
        )
        .unwrap();
        if number % 2 == 0 {
            let _ = stream.read(&mut [0; 1000]);
        }
    }
    node.await_figure("filling_bytes", 0);
    assert!(node.status()["used_bytes"].as_u64() <= node.status()["capacity_bytes"].as_u64());
}
