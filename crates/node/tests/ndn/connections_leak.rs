//! Connections that come and go by the thousand must leave nothing behind.

use super::{Stage, interest};
use std::io::Write;

/// Descriptors of this process; other tests have some meanwhile.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn connections_that_end_leave_faces_or_memory_or_descriptors() {
    let stage = Stage::new();
    let mut app = stage.unix();
    assert!(app.is_answered(1));
    for round in 0..3000 {
        let cut = round % 40;
        // Some end within a packet, some with a packet pending, some within a handshake.
        match round % 4 {
            0 => stage
                .unix()
                .send(&interest("/some/name", round)[..cut as usize % 20]),
            1 => stage.tcp().send(&interest("/localhost/nobody", round)),
            2 => stage
                .websocket("")
                .send_frame(0x82, &[5; 10], 100 + cut as usize),
            _ => {
                let mut stream = std::net::TcpStream::connect(stage.address("ws")).unwrap();
                stream
                    .write_all(
                        &b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"[..cut as usize],
                    )
                    .unwrap();
            }
        }
    }
    let deadline = std::time::Instant::now() + super::PATIENCE;
    while app.faces().len() > 1 {
        assert!(
            std::time::Instant::now() < deadline,
            "{} faces are left",
            app.faces().len()
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(stage.figure("/ndn/partial_input_bytes"), 0);
    stage.await_figure("/ndn/pit_entries", |entries| entries <= 1);
    assert!(
        descriptors() < 1500,
        "{} descriptors are open",
        descriptors()
    );
    assert!(app.is_answered(2));
}
