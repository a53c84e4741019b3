//! `Accept-Encoding` (RFC 9110 §12.5.3): one spelling for requests with the same meaning, and few
//! meanings.
//!
//! - [`canonical`] is the spelling that variants are compared by. Letters, spaces, the order of
//!   codings and the digits of a weight mean nothing (RFC 9111 §4.1 allows to normalize fields "in
//!   ways that are known to have identical semantics"). `x-gzip` is `gzip`, and `x-compress` is
//!   `compress` (RFC 9110 §8.4.1).
//! - [`Codings::reduce`] goes further: it changes the request, before the cache and the origin see
//!   it, to those codings of a list that the client accepts, without weights. So each URL has at
//!   most one variant for each set of them. A response to the new request is acceptable for the
//!   client, because the new request accepts less than the client does.

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};
use std::fmt;
use std::sync::LazyLock;

/// A set of content codings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codings(u8);

/// The field value for each set. Its spelling is canonical.
static VALUES: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| {
    let value =
        |set: u8| HeaderValue::try_from(Codings(set).to_string()).expect("names are visible ASCII");
    (0..1 << Codings::NAMES.len()).map(value).collect()
});

impl Codings {
    /// The codings of the IANA registry that servers of pages use.
    pub const NAMES: [&str; 5] = ["br", "compress", "deflate", "gzip", "zstd"];

    /// `br`, `gzip` and `zstd`: those that browsers accept and servers produce.
    pub const OF_BROWSERS: Codings = Codings(1 | 1 << 3 | 1 << 4);

    /// Returns the number that stands for the set.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set with the number that [`Codings::bits`] returned.
    pub fn from_bits(bits: u8) -> Codings {
        Codings(bits & ((1 << Codings::NAMES.len()) - 1))
    }

    /// Returns the set of the codings with these names.
    ///
    /// # Errors
    /// The first name that is none of [`Codings::NAMES`].
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Codings, &'a str> {
        names.into_iter().try_fold(Codings(0), |set, name| {
            Ok(Codings(set.0 | bit(name.as_bytes()).ok_or(name)?))
        })
    }

    /// Changes `Accept-Encoding` to the codings of this set that the client accepts, or to
    /// `identity`. Without the field, nothing changes, nor if the client refuses `identity`, or if
    /// the set is empty.
    pub fn reduce(self, request: &mut HeaderMap) {
        let mut lines = request.get_all(ACCEPT_ENCODING).iter();
        let Some(first) = lines.next() else { return };
        let is_alone = lines.next().is_none();
        if self.0 == 0 || is_alone && first == VALUES[usize::from(self.0)] {
            return;
        }
        let mut accepted = Accepted::default();
        for line in &request.get_all(ACCEPT_ENCODING) {
            accepted.read(line.as_bytes());
        }
        if let Some(codings) = accepted.of(self) {
            request.insert(ACCEPT_ENCODING, VALUES[usize::from(codings.0)].clone());
        }
    }
}

impl fmt::Display for Codings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("identity");
        }
        let named = Codings::NAMES
            .iter()
            .enumerate()
            .filter(|(number, _)| self.0 & 1 << number != 0);
        for (count, (_, name)) in named.enumerate() {
            f.write_str(if count > 0 { ", " } else { "" })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

fn bit(name: &[u8]) -> Option<u8> {
    let number = Codings::NAMES
        .iter()
        .position(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
    Some(1 << number)
}

/// The codings that a client accepts.
#[derive(Clone, Copy, Debug, Default)]
struct Accepted {
    /// Codings with a weight above 0.
    named: u8,
    /// Codings with a weight of 0, or with a wrong one.
    refused: u8,
    /// True if `*` has a weight above 0; `None` without `*`.
    others: Option<bool>,
    /// True if `identity` has a weight above 0; `None` without it.
    identity: Option<bool>,
}

impl Accepted {
    fn read(&mut self, line: &[u8]) {
        for (name, weight) in members(line) {
            let is_accepted = weight.is_some_and(Weight::is_positive);
            let of_name = |before: Option<bool>| Some(before.unwrap_or(true) && is_accepted);
            match (bit(current(name)), is_accepted) {
                (Some(bit), true) => self.named |= bit,
                (Some(bit), false) => self.refused |= bit,
                (None, _) if name == b"*" => self.others = of_name(self.others),
                (None, _) if name.eq_ignore_ascii_case(b"identity") => {
                    self.identity = of_name(self.identity)
                }
                (None, _) => {}
            }
        }
    }

    /// Returns the codings of `set` that are accepted. `None` if `identity` is refused, because the
    /// server must know that.
    fn of(self, set: Codings) -> Option<Codings> {
        if !self.identity.or(self.others).unwrap_or(true) {
            return None;
        }
        let others = if self.others == Some(true) {
            !self.refused
        } else {
            0
        };
        Some(Codings((self.named & !self.refused | others) & set.0))
    }
}

/// A weight (RFC 9110 §12.4.2): the digits after its point, without zeros at the end; `None` is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight<'a>(Option<&'a [u8]>);

impl<'a> Weight<'a> {
    /// `None` if it is malformed.
    fn parse(text: &'a [u8]) -> Option<Weight<'a>> {
        let (whole, digits) = match text {
            [whole] => (whole, &[][..]),
            [whole, b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
            _ => return None,
        };
        let end = digits
            .iter()
            .rposition(|digit| *digit != b'0')
            .map_or(0, |last| last + 1);
        match (whole, &digits[..end]) {
            (b'1', []) => Some(Weight(None)),
            (b'0', digits) if digits.iter().all(u8::is_ascii_digit) => Some(Weight(Some(digits))),
            _ => None,
        }
    }

    fn is_positive(self) -> bool {
        self.0 != Some(&[])
    }

    /// Returns the weight in thousandths, from 0 to 1000.
    pub(crate) fn thousandths(self) -> u16 {
        let Some(digits) = self.0 else { return 1000 };
        let digit = |place| u16::from(digits.get(place).map_or(0, |digit| digit - b'0'));
        digit(0) * 100 + digit(1) * 10 + digit(2)
    }
}

/// Returns the members of a list, each with its weight; `None` for a malformed one.
pub(crate) fn members(line: &[u8]) -> impl Iterator<Item = (&[u8], Option<Weight<'_>>)> {
    let members = line
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty());
    members.map(|member| {
        let mut parts = member
            .splitn(2, |byte| *byte == b';')
            .map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let weight = match parts.next() {
            None => Some(Weight(None)),
            Some([b'q' | b'Q', rest @ ..]) => {
                // Spaces around the sign are malformed, and harmless.
                rest.trim_ascii()
                    .strip_prefix(b"=")
                    .map(<[u8]>::trim_ascii)
                    .and_then(Weight::parse)
            }
            Some(_) => None,
        };
        (name, weight)
    })
}

/// Returns the name without the `x-` of old programs.
pub(crate) fn current(name: &[u8]) -> &[u8] {
    let is_old = [&b"x-gzip"[..], b"x-compress"]
        .iter()
        .any(|old| name.eq_ignore_ascii_case(old));
    if is_old { &name[2..] } else { name }
}

/// Returns the canonical spelling of a value. Malformed parts stay, except for case and white
/// space.
pub(crate) fn canonical(value: &[u8]) -> Vec<u8> {
    if value.contains(&b'"') || members(value).any(|(_, weight)| weight.is_none()) {
        let mut kept = value.to_ascii_lowercase();
        kept.retain(|byte| !byte.is_ascii_whitespace());
        return kept;
    }
    let mut all: Vec<Vec<u8>> = members(value)
        .map(|(name, weight)| spell(name, weight))
        .collect();
    all.sort_unstable();
    all.dedup();
    all.join(&b", "[..])
}

fn spell(name: &[u8], weight: Option<Weight<'_>>) -> Vec<u8> {
    let mut text = current(name).to_ascii_lowercase();
    match weight {
        Some(Weight(Some([]))) => text.extend(b";q=0"),
        Some(Weight(Some(digits))) => {
            text.extend(b";q=0.");
            text.extend(digits);
        }
        Some(Weight(None)) | None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn request(lines: &[impl AsRef<str>]) -> HeaderMap {
        let mut request = HeaderMap::new();
        for line in lines {
            request.append(
                ACCEPT_ENCODING,
                HeaderValue::from_str(line.as_ref()).unwrap(),
            );
        }
        request
    }

    fn reduced(set: &[&str], lines: &[impl AsRef<str>]) -> Vec<String> {
        let mut request = request(lines);
        Codings::of(set.iter().copied())
            .unwrap()
            .reduce(&mut request);
        request
            .get_all(ACCEPT_ENCODING)
            .iter()
            .map(|line| line.to_str().unwrap().to_owned())
            .collect()
    }

    const SET: [&str; 3] = ["zstd", "gzip", "br"];

    /// Failure: a reduced request has another meaning, or two spellings of one meaning stay
    /// different.
    #[test]
    fn requests_are_reduced_to_another_meaning() {
        for (sent, expected) in [
            ("gzip, deflate, br, zstd", "br, gzip, zstd"),
            ("br;q=1.0, gzip", "br, gzip"),
            ("GZIP;Q=0.001", "gzip"),
            ("x-gzip ; q = 1.000", "gzip"),
            ("gzip;q=0, br", "br"),
            ("gzip, gzip;q=0", "identity"),
            ("gzip;q=0.0000", "identity"),
            ("gzip;q=2, gzip;level=9", "identity"),
            ("deflate", "identity"),
            ("", "identity"),
            ("identity", "identity"),
            ("*", "br, gzip, zstd"),
            ("*;q=0.5, br;q=0", "gzip, zstd"),
            ("gzip, identity;q=0", "gzip, identity;q=0"),
            ("gzip, *;q=0", "gzip, *;q=0"),
            ("gzip, *;q=0, identity", "gzip"),
        ] {
            assert_eq!(reduced(&SET, &[sent]), [expected], "{sent}");
            assert_eq!(reduced(&[], &[sent]), [sent], "without a list");
        }
        assert_eq!(reduced(&SET, &["br", "gzip"]), ["br, gzip"]);
        assert_eq!(reduced(&["gzip"], &["br, gzip"]), ["gzip"]);
        assert!(
            reduced(&SET, &[""; 0]).is_empty(),
            "no field accepts everything"
        );
        assert_eq!(Codings::of(["gzip", "brotli"]), Err("brotli"));
        assert_eq!(Codings::of(SET), Ok(Codings::OF_BROWSERS));
    }

    /// A weight, with a wrong one among them.
    const WEIGHTS: [(&str, bool); 9] = [
        ("", true),
        (";q=1", true),
        ("; q=0.5", true),
        (";Q=0.010", true),
        (" ;q=0.000", false),
        (";q=0", false),
        (";q=0.", false),
        (";q=7", false),
        (";x=1", false),
    ];

    /// Returns the codings that RFC 9110 §12.5.3 lets a server use, for a request of these parts.
    /// Malformed or contradictory parts count as refused.
    fn acceptable(members: &[(&str, usize)]) -> BTreeSet<&'static str> {
        let all = ["br", "compress", "deflate", "gzip", "zstd", "identity"];
        let of = |name: &str| -> Option<bool> {
            let same = members
                .iter()
                .filter(|(other, _)| other.to_lowercase().trim_start_matches("x-") == name);
            same.map(|(_, weight)| WEIGHTS[*weight].1)
                .reduce(|one, other| one && other)
        };
        all.into_iter()
            .filter(|name| of(name).or(of("*")).unwrap_or(*name == "identity"))
            .collect()
    }

    proptest! {
        /// Failure: a client gets a coding that it refuses, or a coding that both support is not
        /// used.
        #[test]
        fn a_reduced_request_accepts_more_than_the_client(
            members in proptest::collection::vec((
                proptest::sample::select(vec!["br", "BR", "gzip", "x-gzip", "zstd", "deflate", "identity", "*", "exi"]),
                0..WEIGHTS.len(),
            ), 0..6),
            set in 1_u8..32,
        ) {
            let text: Vec<String> = members.iter().map(|(name, weight)| format!("{name}{}", WEIGHTS[*weight].0)).collect();
            let line = text.join(",");
            let mut request = request(&[&line]);
            let codings = Codings::from_bits(set);
            codings.reduce(&mut request);
            let sent = request[ACCEPT_ENCODING].to_str().unwrap();
            let expected = acceptable(&members);
            if !expected.contains("identity") {
                prop_assert_eq!(sent, line);
            } else {
                let now: BTreeSet<&str> = sent.split(", ").chain(["identity"]).collect();
                let of_set = |name: &&str| *name == "identity" || codings.to_string().split(", ").any(|one| one == *name);
                let expected: BTreeSet<&str> = expected.into_iter().filter(of_set).collect();
                prop_assert_eq!(now, expected, "{}", line);
                prop_assert_eq!(canonical(sent.as_bytes()), sent.as_bytes(), "it is compared without a copy");
            }
        }

        /// Failure: requests with one meaning have different spellings, or those with different
        /// meanings the same one.
        #[test]
        fn the_canonical_spelling_depends_on_what_means_nothing(
            members in proptest::collection::vec(("(x-)?(gzip|br|compress|\\*|identity)", 0_u32..1001), 1..5),
            seed in any::<u64>(),
        ) {
            let weight = |weight: u32, long: bool| match (weight, long) {
                (1000, true) => ";q=1.000".to_owned(),
                (1000, false) => String::new(),
                (weight, true) => format!(" ; Q=0.{weight:03}"),
                (weight, false) => format!(";q=0.{weight:03}").trim_end_matches('0').to_owned(),
            };
            let plain: Vec<String> = members.iter().map(|(name, it)| format!("{name}{}", weight(*it, false))).collect();
            let mut odd: Vec<String> =
                members.iter().map(|(name, it)| format!("{}{}", name.to_uppercase(), weight(*it, true))).collect();
            odd.rotate_left((seed % members.len() as u64) as usize);
            prop_assert_eq!(canonical(plain.join(",").as_bytes()), canonical(odd.join(" , ,").as_bytes()));
            let (name, it) = &members[0];
            let other = format!("{name}{}", weight((it + 1) % 1001, false));
            let changed = [&[other][..], &plain[1..]].concat();
            let meaning = |members: &[String]| members.iter().map(|one| canonical(one.as_bytes())).collect::<BTreeSet<_>>();
            let same = meaning(&plain) == meaning(&changed);
            prop_assert_eq!(canonical(plain.join(",").as_bytes()) == canonical(changed.join(",").as_bytes()), same);
        }
    }

    /// Failure: spellings multiply the variants of a URL.
    #[test]
    fn a_thousand_spellings_make_many_variants() {
        let names = [
            "gzip", "deflate", "br", "zstd", "X-GZIP", "identity", "*", "compress", "exi",
        ];
        let spellings: BTreeSet<String> = (0..3000_usize)
            .map(|number| {
                let member = |at: usize| {
                    format!(
                        "{};q=0.{}",
                        names[(number / (at + 1) + at * 5) % names.len()],
                        number % 7
                    )
                };
                (0..1 + number % 5)
                    .map(member)
                    .collect::<Vec<_>>()
                    .join(if number.is_multiple_of(2) { ", " } else { "," })
            })
            .collect();
        assert!(spellings.len() >= 1000, "{}", spellings.len());
        let kept = |line: &String| !acceptable_identity(line);
        let variants: BTreeSet<_> = spellings
            .iter()
            .filter(|line| !kept(line))
            .flat_map(|line| reduced(&SET, &[line]))
            .collect();
        assert!(variants.len() <= 8, "{variants:?}");
    }

    fn acceptable_identity(line: &str) -> bool {
        let mut accepted = Accepted::default();
        accepted.read(line.as_bytes());
        accepted.identity.or(accepted.others).unwrap_or(true)
    }
}
