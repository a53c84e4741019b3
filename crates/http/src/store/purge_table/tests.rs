//! Compares the table with a list of all purges.

use super::*;
use proptest::prelude::*;

const KEY: &[u8] = b"http example.com /a/b";
const TAGS: [&[u8]; 2] = [b"one", b"two"];

fn verdict(table: &PurgeTable, position: u64) -> PurgeVerdict {
    table.verdict(position, KEY, |look| TAGS.into_iter().for_each(look))
}

/// Failure: a purge misses a response that it names, or removes one that it does not name or that
/// is later.
#[test]
fn a_purge_concerns_another_response() {
    for (what, concerns) in [
        (Purged::Key(KEY), true),
        (Purged::Key(b"http example.com /a"), false),
        (Purged::Prefix(b"http example.com /a/"), true),
        (Purged::Prefix(KEY), true),
        (Purged::Prefix(b"http example.com /a/b/"), false),
        (Purged::Prefix(b"http example.org /"), false),
        (Purged::Tag(b"two"), true),
        (Purged::Tag(b"tw"), false),
        (Purged::Tag(KEY), false),
        (Purged::Everything, true),
    ] {
        for soft in [false, true] {
            let mut table = PurgeTable::default();
            table.note(10, what, soft);
            let found = if soft {
                PurgeVerdict::Expired
            } else {
                PurgeVerdict::Purged
            };
            let expected = if concerns { found } else { PurgeVerdict::Kept };
            assert_eq!(verdict(&table, 9), expected, "{what:?} {soft}");
            assert_eq!(verdict(&table, 10), PurgeVerdict::Kept, "{what:?} {soft}");
            table.retire(10);
            assert_eq!(verdict(&table, 9), expected, "{what:?} {soft}");
        }
    }
    let mut table = PurgeTable::default();
    table.note(5, Purged::Tag(b"one"), false);
    table.note(10, Purged::Everything, true);
    assert_eq!(
        verdict(&table, 4),
        PurgeVerdict::Purged,
        "the harder one counts"
    );
    assert_eq!(verdict(&table, 7), PurgeVerdict::Expired);
    table.retire(6);
    assert_eq!(table.names.len(), 0);
}

/// Failure: purges of other things remove a response, because there are many of them; or an early
/// purge of the response is forgotten.
#[test]
fn many_purges_of_other_things_remove_a_response_or_hide_its_own_purge() {
    let many = 2 * limits::PURGED_NAMES as u64 + 2;
    for own in [
        None,
        Some(Purged::Key(KEY)),
        Some(Purged::Tag(b"two")),
        Some(Purged::Prefix(b"http example.com /a/")),
    ] {
        for soft in [false, true] {
            let mut table = PurgeTable::default();
            if let Some(own) = own {
                table.note(10, own, soft);
            }
            for number in 0..many {
                let position = 20 + number;
                match number % 3 {
                    0 => table.note(
                        position,
                        Purged::Key(format!("http example.com /{number}").as_bytes()),
                        false,
                    ),
                    1 => table.note(
                        position,
                        Purged::Tag(format!("tag-{number}").as_bytes()),
                        false,
                    ),
                    _ => {
                        table.note(
                            position,
                            Purged::Prefix(format!("http example.org /{number}/").as_bytes()),
                            false,
                        );
                    }
                }
            }
            assert!(
                table.names.len() <= limits::PURGED_NAMES
                    && table.prefixes.len() <= limits::PURGED_PREFIXES
            );
            assert!(!table.forgotten.is_empty());
            let expected = match own {
                None => PurgeVerdict::Kept,
                Some(_) if soft => PurgeVerdict::Expired,
                Some(_) => PurgeVerdict::Purged,
            };
            assert_eq!(verdict(&table, 9), expected, "{own:?} {soft}");
            assert_eq!(verdict(&table, 10), PurgeVerdict::Kept, "{own:?} {soft}");
        }
    }
}

/// Failure: long prefixes fill the memory.
#[test]
fn prefixes_take_more_bytes_than_they_may() {
    let mut table = PurgeTable::default();
    let bytes = limits::PURGED_PREFIX_BYTES / 16;
    for number in 0..100 {
        let prefix = format!("http h /{number}{}", "x".repeat(bytes));
        table.note(number + 1, Purged::Prefix(prefix.as_bytes()), false);
        assert!(table.prefix_bytes <= limits::PURGED_PREFIX_BYTES);
    }
    assert_eq!(
        table.verdict(0, b"http h /any", |_| ()),
        PurgeVerdict::Purged,
        "the host's"
    );
    assert_eq!(
        table.verdict(0, b"http h2 /any", |_| ()),
        PurgeVerdict::Kept
    );
}

proptest! {
    /// Failure: a prefix of the key is missed.
    #[test]
    fn prefixes_are_found(
        prefixes in proptest::collection::vec("[ab]{0,5}", 0..12),
        key in "[ab]{0,7}",
        position in 0..14_u64,
    ) {
        let mut table = PurgeTable::default();
        let mut last = 0;
        for (number, prefix) in (1..).zip(&prefixes) {
            table.note(number, Purged::Prefix(prefix.as_bytes()), false);
            if key.starts_with(prefix.as_str()) {
                last = number;
            }
        }
        let expected = if position < last { PurgeVerdict::Purged } else { PurgeVerdict::Kept };
        prop_assert_eq!(table.verdict(position, key.as_bytes(), |_| ()), expected);
    }
}
