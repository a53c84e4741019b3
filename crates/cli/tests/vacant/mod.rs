//! Addresses for listeners of tests.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// The ports that tests take: below those that the system chooses for connections.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// Returns an address that no other call in this process returns. The system's own choice repeats,
/// and listeners share a port: a test would talk to the node of another one. Test programs that
/// run at once begin at different ports.
pub(crate) fn vacant() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id().wrapping_mul(97) % u32::from(COUNT);
    loop {
        let number = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + ((begin + number) % u32::from(COUNT)) as u16;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener.local_addr().unwrap();
        }
    }
}
