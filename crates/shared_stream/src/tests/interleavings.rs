//! The flags and the bell in every order of steps that the memory model allows, by loom.

use crate::flag::{Word, begins_to_wait, wake};
use loom::sync::atomic::{AtomicU32, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::sync::atomic::Ordering::{self, Acquire, Release};

/// Changes between the threads at any step, in each run of a model. Without this bound the second
/// model takes 20 s; a wake-up is lost with two.
const PREEMPTIONS: usize = 3;

/// A word of memory as loom models it. `FENCES` decides whether [`Word::fence`] does something.
struct Modelled<const FENCES: bool>(AtomicU32);

impl<const FENCES: bool> Word for Modelled<FENCES> {
    fn load(&self, ordering: Ordering) -> u32 {
        self.0.load(ordering)
    }

    /// A swap, because loom does not place a plain store behind a swap of the other thread that has
    /// read an earlier value, and so reports orders that the memory model forbids.
    fn store(&self, value: u32, ordering: Ordering) {
        self.0.swap(value, ordering);
    }

    fn swap(&self, value: u32, ordering: Ordering) -> u32 {
        self.0.swap(value, ordering)
    }

    fn fence(&self, ordering: Ordering) {
        if FENCES {
            fence(ordering);
        }
    }
}

/// A pipe with an edge-triggered epoll, which raises an event only for a write to an empty pipe, as
/// Linux 5.5 to 5.13 do.
#[derive(Default)]
struct Pipe {
    /// Bytes in the pipe, and events that were not reported.
    state: Mutex<(usize, bool)>,
    rung: Condvar,
}

impl Pipe {
    fn ring(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 |= state.0 == 0;
        state.0 += 1;
        self.rung.notify_one();
    }

    /// Waits for an event, and empties the pipe later.
    fn wait(&self) {
        let mut state = self.state.lock().unwrap();
        while !state.1 {
            state = self.rung.wait(state).unwrap();
        }
        state.1 = false;
        drop(state);
        self.state.lock().unwrap().0 = 0;
    }
}

/// What one end changes and the other waits for: bytes in one ring, and room in the other.
struct Shared<const FENCES: bool> {
    indices: [AtomicU32; 2],
    flags: [Modelled<FENCES>; 2],
    ear: Pipe,
}

/// Lets one end change each index `changes` times. The other end waits, with one ear, until it has
/// seen all. Loom panics if it waits for ever.
fn model<const FENCES: bool>(indices: usize, changes: u32) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        let shared = Arc::new(Shared::<FENCES> {
            indices: [AtomicU32::new(0), AtomicU32::new(0)],
            flags: [Modelled(AtomicU32::new(0)), Modelled(AtomicU32::new(0))],
            ear: Pipe::default(),
        });
        let other = shared.clone();
        let changing = thread::spawn(move || {
            for change in 1..=changes {
                for index in 0..indices {
                    other.indices[index].store(change, Release);
                    wake(&other.flags[index], || other.ear.ring());
                }
            }
        });
        let mut seen = [0; 2];
        while seen[..indices].iter().any(|seen| *seen < changes) {
            let mut waits = true;
            for (seen, (index, flag)) in seen
                .iter_mut()
                .zip(shared.indices.iter().zip(&shared.flags))
                .take(indices)
            {
                let waits_here = begins_to_wait(flag, || index.load(Acquire) != *seen);
                if !waits_here {
                    *seen = index.load(Acquire);
                }
                waits &= waits_here;
            }
            if waits {
                shared.ear.wait();
            }
        }
        changing.join().unwrap();
    });
}

#[test]
fn a_wake_up_is_lost_in_some_order_of_steps() {
    model::<true>(1, 2);
    model::<true>(2, 1);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_does_not_find_a_wake_up_that_is_lost_without_fences() {
    model::<false>(1, 2);
}
