//! Policy specs: any text parses or is refused with a byte offset. A parsed spec prints text that
//! parses to the same spec, builds an engine within little memory, and the engine keeps its
//! invariants over any requests. The input is a spec, a newline, and three bytes for each request.
#![no_main]

use larder_policy::{Engine, Spec};
use larder_units::{ByteSize, Streams, Time};
use libfuzzer_sys::fuzz_target;

const CAPACITY_BYTES: u64 = 16 << 10;

fuzz_target!(|bytes: &[u8]| {
    let end = bytes
        .iter()
        .position(|&b| b == b'\n')
        .unwrap_or(bytes.len());
    let (text, requests) = (&bytes[..end], &bytes[end..]);
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let spec: Spec = match text.parse() {
        Ok(spec) => spec,
        Err(error) => {
            assert!(error.at() <= text.len(), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
            return;
        }
    };
    let printed = spec.to_string();
    assert_eq!(
        printed.parse::<Spec>().map(|again| again.to_string()),
        Ok(printed)
    );
    if let Ok(engine) = Engine::new(
        &spec,
        ByteSize::from_bytes(CAPACITY_BYTES),
        &Streams::new(1),
    ) {
        replayed(engine, requests);
    }
});

fn replayed(mut engine: Engine, requests: &[u8]) {
    let mut stored = std::collections::HashMap::new();
    let mut victims = Vec::new();
    for (i, request) in requests.chunks_exact(3).enumerate() {
        let (id, now) = (u64::from(request[0]), Time::from_millis(i as u64));
        let size = u64::from(u16::from_be_bytes([request[1], request[2]]));
        if let Some(&slot) = stored.get(&id) {
            engine.hit(slot, id, now);
            continue;
        }
        engine.miss(id, now);
        if engine.admit(id, size, now) {
            let slot = engine.insert(id, size, now, &mut victims);
            // The newcomer may have a victim's slot.
            for victim in victims.drain(..) {
                stored.retain(|_, slot| *slot != victim);
            }
            stored.extend(slot.map(|slot| (id, slot)));
        }
        while let Some(job) = engine.job() {
            engine.complete(job.run());
        }
        engine.check_invariants();
        assert!(engine.used().bytes() <= CAPACITY_BYTES);
        assert_eq!(engine.len(), stored.len());
    }
}
