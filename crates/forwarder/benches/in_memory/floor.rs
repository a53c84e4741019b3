//! The floor: the cache lines that an exchange must touch, with the forwarder's prefetching and the
//! copies to the socket's buffer, and nothing else. No decoding, no hashing, no comparison, no
//! policy: what every forwarder with tables of these sizes pays.
//!
//! A line holds the place of the next one, so a row is not known before its index was read, as in
//! the forwarder. The requests follow the same law, and as many of them are hits and insertions as
//! Filter has.

use crate::world::{CONTENT, thread_nanos, write_components};
use larder_forwarder::limits::DEAD_NONCES;
use larder_policy::{grow, prefetch};
use larder_replay::Zipf;
use larder_units::{Stream, Streams};
use std::hint::black_box;

/// Exchanges between two readings of the clock.
const ROUND: usize = 256;
/// Frames in progress at once, as in the forwarder.
const FRAMES: usize = 32;
const INTEREST_BYTES: usize = 93;
const DATA_BYTES: usize = CONTENT.len() + 129;
const LINE: usize = 64;
/// Bytes of a stored packet's buffer.
const BUFFER_BYTES: usize = DATA_BYTES.next_multiple_of(LINE);
/// Lines at each end of a stored packet that are prefetched.
const PREFETCHED_LINES: usize = 4;
/// Lines of a pending Interest: entry, name, consumer, upstream.
const PENDING_LINES: usize = 6;

/// Filter's hits of all requests, and its insertions of all misses.
pub const HIT: f64 = 0.315;
const INSERTION: f64 = 0.05;
/// The requests for as many objects as the store has packets, the most popular ones.
const POPULAR: f64 = 0.398;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

pub struct Floor {
    names: Zipf,
    stream: Stream,
    capacity: u64,
    prefixes: u64,
    nonces: Vec<Line>,
    counters: Vec<Line>,
    store_index: Vec<Line>,
    entries: Vec<Line>,
    packets: Vec<u8>,
    pit_index: Vec<Line>,
    pending: Vec<Line>,
    filter: Vec<Line>,
    index: Vec<Line>,
    rows: Vec<Line>,
    wire: Vec<u8>,
}

#[derive(Clone)]
struct Exchange {
    interest: [u8; INTEREST_BYTES],
    data: [u8; DATA_BYTES],
    /// Uniform, of the name and of its prefix.
    hash: u64,
    prefix: u64,
    is_hit: bool,
    is_insertion: bool,
    /// Places that were read from other lines.
    entry: usize,
    row: usize,
}

impl Floor {
    /// Tables for `prefixes` prefixes and a store of `capacity` packets.
    pub fn new(objects: u64, prefixes: u64, capacity: u64) -> Floor {
        let mut stream = Streams::new(1).stream("floor");
        // Every line has a place among `next` lines.
        let mut table = |lines: u64, next: u64| {
            let mut table = Vec::new();
            grow(&mut table, lines as usize);
            table.extend((0..lines).map(|_| Line([stream.bits() % next; 8])));
            table
        };
        // Eight places a line, three quarters of them full at most.
        let index_lines = |entries: u64| (entries / 6).next_power_of_two();
        let mut packets = Vec::new();
        grow(&mut packets, capacity as usize * BUFFER_BYTES);
        packets.resize(capacity as usize * BUFFER_BYTES, 7);
        Floor {
            nonces: table(DEAD_NONCES as u64 / 8, 1),
            // 128 counters of two bytes for each packet of the window.
            counters: table((capacity * 128).next_power_of_two() / 32, 1),
            store_index: table(index_lines(capacity), capacity),
            entries: table(capacity, 1),
            packets,
            pit_index: table(32, 1),
            pending: table((FRAMES * PENDING_LINES) as u64, 1),
            filter: table((prefixes / 48).next_power_of_two(), 1),
            index: table(index_lines(prefixes), prefixes),
            rows: table(prefixes, 1),
            names: Zipf::new(objects, 0.8).expect("a law"),
            wire: Vec::new(),
            capacity,
            prefixes,
            stream,
        }
    }

    /// Nanoseconds of processor time that an exchange takes, the median over rounds.
    pub fn run(&mut self, exchanges: usize) -> f64 {
        let rounds = exchanges.div_ceil(ROUND);
        let blank = Exchange {
            interest: [0; INTEREST_BYTES],
            data: [0; DATA_BYTES],
            hash: 0,
            prefix: 0,
            is_hit: false,
            is_insertion: false,
            entry: 0,
            row: 0,
        };
        let mut round = vec![blank; ROUND];
        let mut nanos = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            self.ask(&mut round);
            let begun = thread_nanos();
            for batch in round.chunks_mut(2 * FRAMES) {
                for batch in batch.chunks_mut(FRAMES) {
                    self.interests(batch);
                }
                for batch in batch.chunks_mut(FRAMES) {
                    self.data(batch);
                }
                black_box(&self.wire);
                self.wire.clear();
            }
            nanos.push((thread_nanos() - begun) as f64 / ROUND as f64);
        }
        nanos.sort_by(f64::total_cmp);
        nanos[rounds / 2]
    }

    fn ask(&mut self, round: &mut [Exchange]) {
        for exchange in round {
            let rank = self.names.draw(&mut self.stream);
            exchange.hash = scatter(rank);
            exchange.prefix = scatter(rank * 7_368_787 % self.prefixes);
            exchange.is_hit = rank <= self.capacity && self.stream.chance(HIT / POPULAR);
            exchange.is_insertion = self.stream.chance(INSERTION);
            write_components(&mut exchange.interest[4..], 0..7, rank);
            write_components(&mut exchange.data[8..], 0..7, rank);
        }
    }

    /// The passes over Interests.
    fn interests(&mut self, batch: &mut [Exchange]) {
        for Exchange { interest, hash, .. } in batch.iter() {
            read(interest);
            let tables = [
                &self.pit_index,
                &self.store_index,
                &self.nonces,
                &self.counters,
            ];
            for table in tables {
                prefetch(table, place(table, *hash));
            }
        }
        for exchange in batch.iter_mut() {
            exchange.entry = value(&self.store_index, exchange.hash);
            if exchange.is_hit {
                prefetch(&self.entries, exchange.entry)
            } else {
                prefetch(&self.filter, place(&self.filter, exchange.prefix))
            }
        }
        for exchange in batch.iter().filter(|exchange| !exchange.is_hit) {
            black_box(value(&self.filter, exchange.prefix));
            prefetch(&self.index, place(&self.index, exchange.prefix));
        }
        for exchange in batch.iter_mut() {
            if exchange.is_hit {
                let first = exchange.entry * BUFFER_BYTES;
                for line in 0..PREFETCHED_LINES {
                    prefetch(&self.packets, first + line * LINE);
                    prefetch(&self.packets, first + DATA_BYTES - 1 - line * LINE);
                }
            } else {
                exchange.row = value(&self.index, exchange.prefix);
                prefetch(&self.rows, exchange.row);
            }
        }
        for (at, exchange) in batch.iter().enumerate() {
            touch(&mut self.counters, exchange.hash);
            black_box(value(&self.nonces, exchange.hash));
            if exchange.is_hit {
                self.entries[exchange.entry].0[1] += 1;
                self.wire.extend_from_slice(
                    &self.packets[exchange.entry * BUFFER_BYTES..][..DATA_BYTES],
                );
            } else {
                black_box(self.rows[exchange.row].0[0]);
                touch(&mut self.pit_index, exchange.hash);
                for line in &mut self.pending[at * PENDING_LINES..][..PENDING_LINES] {
                    line.0[0] += 1;
                }
                self.wire.extend_from_slice(&exchange.interest);
            }
        }
    }

    /// The passes over the Data of misses.
    fn data(&mut self, batch: &[Exchange]) {
        let misses = || {
            batch
                .iter()
                .enumerate()
                .filter(|(_, exchange)| !exchange.is_hit)
        };
        for (_, Exchange { data, hash, .. }) in misses() {
            read(&data[..2 * LINE]);
            let tables = [&self.pit_index, &self.nonces, &self.counters];
            for table in tables {
                prefetch(table, place(table, *hash));
            }
        }
        for (at, exchange) in misses() {
            touch(&mut self.pit_index, exchange.hash);
            for line in &mut self.pending[at * PENDING_LINES..][..PENDING_LINES] {
                line.0[0] += 1;
            }
            touch(&mut self.nonces, exchange.hash);
            black_box(value(&self.counters, exchange.hash));
            if exchange.is_insertion {
                // The packet that leaves, in both tables; this one takes its place.
                touch(&mut self.store_index, exchange.prefix);
                touch(&mut self.store_index, exchange.hash);
                self.entries[exchange.entry].0[1] += 1;
                self.packets[exchange.entry * BUFFER_BYTES..][..DATA_BYTES]
                    .copy_from_slice(&exchange.data);
            }
            self.wire.extend_from_slice(&exchange.data);
        }
    }
}

/// A uniform number for each number.
fn scatter(number: u64) -> u64 {
    // The finisher of MurmurHash3.
    let mixed = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
}

fn place(table: &[Line], hash: u64) -> usize {
    ((u128::from(hash) * table.len() as u128) >> 64) as usize
}

fn value(table: &[Line], hash: u64) -> usize {
    table[place(table, hash)].0[0] as usize
}

fn touch(table: &mut [Line], hash: u64) {
    let place = place(table, hash);
    table[place].0[1] += 1;
}

/// Reads a byte of each line.
fn read(bytes: &[u8]) {
    black_box(
        bytes
            .iter()
            .step_by(LINE)
            .fold(0u8, |sum, byte| sum.wrapping_add(*byte)),
    );
}
