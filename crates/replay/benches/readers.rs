//! Requests a second of the trace readers, from memory, without a cache. libCacheSim 0.3.5 maps
//! oracleGeneral and reads 42.6 million a second.

use divan::Bencher;
use divan::counter::ItemsCount;
use larder_replay::{Trace, TraceWriter, Web, WriteFormat};
use larder_units::Streams;
use std::io::Cursor;

fn main() {
    divan::main();
}

const REQUESTS: usize = 2_000_000;

#[divan::bench(args = ["oracle-general", "text", "csv"], sample_count = 10, sample_size = 1)]
fn read(bencher: Bencher<'_, '_>, format: &str) {
    let bytes = trace(format);
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(|| Cursor::new(bytes.clone()))
        .bench_local_values(|bytes| {
            let trace = Trace::read(bytes, "bench", None).expect("a trace");
            trace.fold(0, |sum: u64, access| {
                sum.wrapping_add(access.expect("a request").id)
            })
        });
}

#[divan::bench(args = ["oracle-general", "text", "csv"], sample_count = 10, sample_size = 1)]
fn read_many(bencher: Bencher<'_, '_>, format: &str) {
    let bytes = trace(format);
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(|| Cursor::new(bytes.clone()))
        .bench_local_values(|bytes| {
            let mut trace = Trace::read(bytes, "bench", None).expect("a trace");
            let (mut accesses, mut sum) = (Vec::new(), 0_u64);
            loop {
                trace.read_many(&mut accesses, 1 << 14).expect("requests");
                if accesses.is_empty() {
                    return sum;
                }
                sum = accesses
                    .iter()
                    .fold(sum, |sum, access| sum.wrapping_add(access.id));
            }
        });
}

fn trace(format: &str) -> Vec<u8> {
    let format: WriteFormat = format.parse().expect("a format");
    let mut writer = TraceWriter::new(Vec::new(), format).expect("memory");
    let requests = Web::default().requests(&Streams::new(1)).expect("traffic");
    for access in requests.take(REQUESTS) {
        writer.write(&access).expect("memory");
    }
    writer.into_inner()
}
