//! The fields by which the responses of a URL vary, remembered between its responses, so that
//! requests for different variants do not wait for each other. The store forgets these fields with
//! the responses, and never has those of responses that may not be stored.

use crate::limits;
use crate::rfc::vary;
use http::{HeaderMap, HeaderName};
use larder_units::Time;
use std::time::Duration;

/// The time for which the fields of a `Vary` count for a URL, after the last response with them. A
/// superfluous name only costs a request that could have been collapsed.
const NAME_LIFETIME: Duration = Duration::from_secs(600);

/// Bytes of the names for one URL. A list has about fifty.
const MAX_NAMES_BYTES: usize = 512;

/// The fields of the URLs with recent responses.
pub(crate) struct VaryMemory {
    /// By the hash of a key.
    places: Box<[Place]>,
}

#[derive(Clone, Default)]
struct Place {
    hash: u64,
    /// The names in recent `Vary` fields, and the time until which each counts. A URL may have
    /// responses with different lists. All of them count, so that no request waits for another
    /// variant.
    names: Vec<(HeaderName, Time)>,
}

impl VaryMemory {
    pub(crate) fn new(places: usize) -> VaryMemory {
        VaryMemory {
            places: vec![Place::default(); places].into_boxed_slice(),
        }
    }

    /// Records the list of a response.
    pub(crate) fn learn(&mut self, hash: u64, response: &HeaderMap, now: Time) {
        self.learn_names(hash, vary::names(response), now);
    }

    /// Records the names of a list.
    pub(crate) fn learn_names(
        &mut self,
        hash: u64,
        names: impl IntoIterator<Item = HeaderName>,
        now: Time,
    ) {
        let index = hash as usize % self.places.len();
        for name in names {
            let place = &mut self.places[index];
            if place.hash != hash {
                *place = Place {
                    hash,
                    names: Vec::new(),
                };
            }
            let until = now + NAME_LIFETIME;
            place
                .names
                .retain(|(other, until)| now < *until && *other != name);
            let bytes: usize = place
                .names
                .iter()
                .map(|(other, _)| other.as_str().len())
                .sum();
            if place.names.len() < limits::VARY_NAMES
                && bytes + name.as_str().len() <= MAX_NAMES_BYTES
            {
                place.names.push((name, until));
            }
        }
    }

    /// Returns the names for a key.
    pub(crate) fn names(&self, hash: u64, now: Time) -> impl Iterator<Item = &HeaderName> {
        let place = &self.places[hash as usize % self.places.len()];
        let names: &[(HeaderName, Time)] = if place.hash == hash {
            &place.names
        } else {
            &[]
        };
        names
            .iter()
            .filter(move |(_, until)| now < *until)
            .map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn names(memory: &VaryMemory, hash: u64, seconds: u64) -> Vec<&str> {
        memory
            .names(hash, Time::from_secs(seconds))
            .map(HeaderName::as_str)
            .collect()
    }

    fn learn(memory: &mut VaryMemory, hash: u64, list: &str, seconds: u64) {
        let headers =
            HeaderMap::from_iter([(http::header::VARY, HeaderValue::from_str(list).unwrap())]);
        memory.learn(hash, &headers, Time::from_secs(seconds));
    }

    /// Failure: a URL gets the names of another one, or names are kept for ever, or fill the
    /// memory.
    #[test]
    fn names_count_together_for_a_while() {
        let mut memory = VaryMemory::new(4);
        learn(&mut memory, 1, "cookie, accept", 0);
        learn(&mut memory, 1, "accept, *, origin", 300);
        assert_eq!(names(&memory, 1, 301), ["cookie", "accept", "origin"]);
        assert_eq!(names(&memory, 5, 301), [""; 0]);
        let end = NAME_LIFETIME.as_secs();
        assert_eq!(names(&memory, 1, end), ["accept", "origin"]);
        learn(&mut memory, 5, "x", 300);
        assert_eq!(
            (names(&memory, 1, 301), names(&memory, 5, 301)),
            (vec![], vec!["x"])
        );
        for number in 0..100 {
            learn(
                &mut memory,
                2,
                &format!("x-{number}-{}", "y".repeat(100)),
                0,
            );
        }
        let bytes: usize = names(&memory, 2, 1).iter().map(|name| name.len()).sum();
        assert!(bytes > 0 && bytes <= MAX_NAMES_BYTES);
    }
}
