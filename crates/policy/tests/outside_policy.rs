//! Policies that this crate does not know: registered ones, and objects that an engine gets.

use larder_policy::{
    Admit, Arguments, Build, BuildContext, Cache, Engine, Evict, Policy, PolicyEntry, Registry,
    Request, Slot, Spec, registry,
};
use larder_units::{ByteSize, Streams, Time};
use std::collections::VecDeque;

/// Evicts what was stored last.
#[derive(Default)]
struct Lifo(Vec<Slot>);

impl Policy for Lifo {}

impl Evict for Lifo {
    fn on_hit(&mut self, _: Slot, _: &Request) {}

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        self.0.push(slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.0.pop()
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let mut order = self.0.iter().rev().copied();
        match after {
            None => order.next(),
            Some(after) => order.skip_while(|slot| *slot != after).nth(1),
        }
    }

    fn on_remove(&mut self, slot: Slot) {
        self.0.retain(|other| *other != slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// Admits every second object, and only near the source if there is a path.
#[derive(Default)]
struct EverySecond(bool);

impl Policy for EverySecond {}

impl Admit for EverySecond {
    fn on_request(&mut self, _: &Request, _: bool) {}

    fn admit(&mut self, _: &Request, cache: &mut Cache<'_>) -> bool {
        self.0 = !self.0;
        self.0 && cache.path().is_none_or(|path| path.hops_from_source == 1)
    }
}

const LIFO: PolicyEntry = PolicyEntry {
    name: "lifo",
    citation: "none",
    summary: "evicts what was stored last",
    parameters: &[],
    complexity: "O(1)",
    bytes_an_object: 4,
    needs_path: false,
    build: Build::Eviction(|_, _| Ok(Box::<Lifo>::default())),
};

const EVERY_SECOND: PolicyEntry = PolicyEntry {
    name: "every-second",
    summary: "admits every second object",
    needs_path: true,
    build: Build::Admission(every_second),
    ..LIFO
};

fn every_second(_: &Arguments<'_>, context: &BuildContext<'_>) -> Result<Box<dyn Admit>, String> {
    match context.capacity {
        0 => Err("`every-second` needs a capacity".to_owned()),
        _ => Ok(Box::<EverySecond>::default()),
    }
}

fn with_both() -> Registry {
    Registry::builtin()
        .register(&LIFO)
        .unwrap()
        .register(&EVERY_SECOND)
        .unwrap()
}

/// Returns what is stored after requests for objects 0 to 9, of 10 bytes each.
fn stored(mut engine: Engine) -> Vec<u64> {
    let mut victims = Vec::new();
    let mut slots = VecDeque::new();
    for id in 0..10 {
        engine.miss(id, Time::ZERO);
        if engine.admit(id, 10, Time::ZERO) {
            slots.extend(engine.insert(id, 10, Time::ZERO, &mut victims));
        }
        engine.check_invariants();
    }
    slots.make_contiguous().sort_unstable();
    let mut ids: Vec<u64> = slots
        .iter()
        .filter_map(|slot| Some(engine.object(*slot)?.0))
        .collect();
    ids.dedup();
    ids
}

const CAPACITY: ByteSize = ByteSize::from_bytes(30);

#[test]
fn a_registered_policy_is_not_the_one_that_runs() {
    let spec = Spec::parse(" every-second + lifo", &with_both()).unwrap();
    assert_eq!(spec.to_string(), "every-second+lifo");
    assert!(spec.needs_path() && !spec.is_offline());
    let engine = Engine::new(&spec, CAPACITY, &Streams::new(1)).unwrap();
    assert_eq!(stored(engine), [0, 2, 8]);
    let error = Engine::new(&spec, ByteSize::from_bytes(0), &Streams::new(1))
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "policy `every-second+lifo`, byte 0: `every-second` needs a capacity"
    );
}

#[test]
fn policies_that_are_objects_decide_otherwise() {
    let engine = Engine::with(
        CAPACITY,
        vec![Box::<EverySecond>::default()],
        Box::<Lifo>::default(),
    );
    assert_eq!(
        (engine.spec().to_string().as_str(), engine.capacity()),
        ("custom+custom", CAPACITY)
    );
    let error = Engine::new(engine.spec(), CAPACITY, &Streams::new(1))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("byte 0: `custom` is an object"), "{error}");
    assert_eq!(stored(engine), [0, 2, 8]);
}

/// Failure: a program that registers a policy cannot name it, or others can.
#[test]
fn a_name_is_known_without_its_registry() {
    let error = "every-second+lifo".parse::<Spec>().unwrap_err().to_string();
    assert!(error.contains("unknown policy `every-second`"), "{error}");
    let error = Spec::parse("lif", &with_both()).unwrap_err();
    assert_eq!(error.suggestion(), Some("lifo"));
    assert!(
        with_both().iter().map(|entry| entry.name).eq(registry()
            .iter()
            .map(|entry| entry.name)
            .chain(["lifo", "every-second"]))
    );
}

#[test]
#[should_panic(expected = "the eviction policy keeps as many objects")]
fn a_policy_that_forgets_an_object_goes_unnoticed() {
    struct Forgetful(Lifo);
    impl Policy for Forgetful {}
    impl Evict for Forgetful {
        fn on_hit(&mut self, slot: Slot, _: &Request) {
            self.0.on_remove(slot);
        }
        fn on_insert(&mut self, slot: Slot, request: &Request) {
            self.0.on_insert(slot, request);
        }
        fn victim(&mut self, incoming: Option<&Request>) -> Option<Slot> {
            self.0.victim(incoming)
        }
        fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
            self.0.peek(after)
        }
        fn on_remove(&mut self, slot: Slot) {
            self.0.on_remove(slot);
        }
        fn object_count(&self) -> Option<usize> {
            self.0.object_count()
        }
    }
    let mut engine = Engine::with(CAPACITY, Vec::new(), Box::new(Forgetful(Lifo::default())));
    let slot = engine.insert(1, 10, Time::ZERO, &mut Vec::new()).unwrap();
    engine.check_invariants();
    engine.hit(slot, 1, Time::ZERO);
    engine.check_invariants();
}
