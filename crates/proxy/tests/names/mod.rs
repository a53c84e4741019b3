//! A name server on loopback, which answers every question about addresses with one set of them.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

/// What the server says about a name.
#[derive(Clone, Debug)]
pub enum Says {
    /// These addresses: those of the other family are none.
    Addresses(Vec<IpAddr>),
    /// The name does not exist.
    NxDomain,
    /// It cannot tell.
    ServFail,
    /// These addresses; questions for AAAA get no answer.
    NothingForIpv6(Vec<IpAddr>),
}

/// The largest answer over UDP without EDNS (RFC 1035 §4.2.1).
const UDP_BYTES: usize = 512;

const A: u16 = 1;
const AAAA: u16 = 28;

/// The TTL of all answers, in seconds.
const TTL: u32 = 1;

/// The running server.
pub struct NameServer {
    pub address: SocketAddr,
    says: Arc<Mutex<Says>>,
}

impl NameServer {
    pub fn new(says: Says) -> NameServer {
        let (tcp, udp) = (0..100)
            .find_map(|_| {
                let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
                UdpSocket::bind(tcp.local_addr().unwrap())
                    .ok()
                    .map(|udp| (tcp, udp))
            })
            .expect("a port that is free for both");
        let address = udp.local_addr().unwrap();
        let says = Arc::new(Mutex::new(says));
        let (for_udp, for_tcp) = (Arc::clone(&says), Arc::clone(&says));
        std::thread::spawn(move || {
            let mut question = [0; 1500];
            while let Ok((length, peer)) = udp.recv_from(&mut question) {
                let says = for_udp.lock().unwrap().clone();
                let _ = answer(&question[..length], &says, UDP_BYTES)
                    .map(|answer| udp.send_to(&answer, peer));
            }
        });
        std::thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let says = Arc::clone(&for_tcp);
                std::thread::spawn(move || converse(stream, &says));
            }
        });
        NameServer { address, says }
    }

    pub fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }
}

/// Answers one question after another; each has its length before it.
fn converse(mut stream: TcpStream, says: &Mutex<Says>) -> Option<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length).ok()?;
        let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut question).ok()?;
        let says = says.lock().unwrap().clone();
        let Some(answer) = answer(&question, &says, usize::from(u16::MAX)) else {
            continue;
        };
        let length = u16::try_from(answer.len()).unwrap();
        stream
            .write_all(&[&length.to_be_bytes()[..], &answer].concat())
            .ok()?;
    }
}

/// Returns the answer to a message with one question; one that is too long is truncated. `None`:
/// there is no answer.
fn answer(question: &[u8], says: &Says, most: usize) -> Option<Vec<u8>> {
    let name_end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let kind = u16::from_be_bytes([question[name_end], question[name_end + 1]]);
    let (code, addresses) = match says {
        Says::Addresses(all) => (0, all.clone()),
        Says::NothingForIpv6(_) if kind == AAAA => return None,
        Says::NothingForIpv6(all) => (0, all.clone()),
        Says::NxDomain => (3, Vec::new()),
        Says::ServFail => (2, Vec::new()),
    };
    let records: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|address| record(*address, kind))
        .collect();
    let is_too_long = name_end + 4 + records.iter().map(Vec::len).sum::<usize>() > most;
    let records = if is_too_long { Vec::new() } else { records };
    let mut message = question[..2].to_vec();
    // A response, with recursion.
    message.extend([0x81 | if is_too_long { 0x02 } else { 0 }, 0x80 | code]);
    let count = u16::try_from(records.len()).unwrap();
    for count in [1, count, 0, 0] {
        message.extend(count.to_be_bytes());
    }
    message.extend(&question[12..name_end + 4]);
    for record in records {
        message.extend(record);
    }
    Some(message)
}

/// Returns a record for the name of the question; `None` if it has another type.
fn record(address: IpAddr, kind: u16) -> Option<Vec<u8>> {
    let (own_kind, data) = match address {
        IpAddr::V4(address) => (A, address.octets().to_vec()),
        IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
    };
    let mut record = vec![0xc0, 12];
    for field in [kind, 1] {
        record.extend(field.to_be_bytes());
    }
    record.extend(TTL.to_be_bytes());
    record.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    record.extend(data);
    (own_kind == kind).then_some(record)
}
