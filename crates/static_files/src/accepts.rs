//! The codings that a client accepts (RFC 9110 §12.5.3), and those that files may have.

/// A coding of a precompressed file beside the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `.br` (RFC 7932).
    Brotli,
    /// `.zst` (RFC 8878).
    Zstd,
    /// `.gz` (RFC 1952).
    Gzip,
}

impl Coding {
    /// All of them, the preferred one first.
    pub const ALL: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// Returns its name in `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// Returns the end of the names of its files.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }
}

/// The weights of the codings that a client accepts, in thousandths; 0: not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    identity: u16,
    /// In the order of [`Coding::ALL`].
    codings: [u16; 3],
}

impl Default for Accepts {
    /// A client without `Accept-Encoding`: it gets the plain file.
    fn default() -> Self {
        Accepts {
            identity: 1,
            codings: [0; 3],
        }
    }
}

impl Accepts {
    /// Reads the lines of `Accept-Encoding`. Members that it cannot read count as not there.
    pub fn of<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Accepts {
        let (mut named, mut star) = ([None; 4], None);
        for member in lines
            .into_iter()
            .flat_map(|line| line.split(|byte| *byte == b','))
        {
            let Ok(member) = std::str::from_utf8(member) else {
                continue;
            };
            let mut parts = member.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let Some(weight) = parts.next().map_or(Some(1000), weight) else {
                continue;
            };
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let place = Coding::ALL
                .iter()
                .position(|coding| is(coding.name()))
                .or_else(|| is("x-gzip").then_some(2))
                .or_else(|| is("identity").then_some(3));
            match place {
                Some(place) => named[place] = Some(weight),
                None if name == "*" => star = Some(weight),
                None => {}
            }
        }
        let [brotli, zstd, gzip, identity] = named;
        Accepts {
            // It is acceptable unless it is excluded, but nobody prefers what it does not name.
            identity: identity.or(star.filter(|weight| *weight == 0)).unwrap_or(1),
            codings: [brotli, zstd, gzip].map(|weight| weight.or(star).unwrap_or(0)),
        }
    }

    /// Returns true if it accepts another coding than that of the plain file.
    pub(crate) fn has_codings(&self) -> bool {
        self.codings != [0; 3]
    }

    /// Returns those of these codings that the client accepts no less than the plain file, the best
    /// one first; of equal ones, in their order.
    pub(crate) fn choose(&self, offered: &[Coding]) -> impl Iterator<Item = Coding> {
        let weight = |coding: Coding| self.codings[coding as usize];
        let mut found: Vec<Coding> = offered
            .iter()
            .copied()
            .filter(|coding| weight(*coding) > 0 && weight(*coding) >= self.identity)
            .collect();
        found.sort_by_key(|coding| std::cmp::Reverse(weight(*coding)));
        found.into_iter()
    }
}

/// Parses `q=0.5` to thousandths.
fn weight(text: &str) -> Option<u16> {
    let number = text
        .strip_prefix(['q', 'Q'])?
        .trim_start()
        .strip_prefix('=')?
        .trim();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths: u16 = format!("{fraction:0<3}")
        .parse()
        .ok()
        .filter(|_| is_number)?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str) -> Vec<&'static str> {
        let accepts = Accepts::of([text.as_bytes()]);
        accepts.choose(&Coding::ALL).map(Coding::name).collect()
    }

    /// Failure: a client gets a coding that it refuses, or the one that it likes less.
    #[test]
    fn codings_of_clients() {
        for (text, expected) in [
            ("gzip, deflate, br, zstd", &["br", "zstd", "gzip"][..]),
            ("gzip", &["gzip"]),
            ("X-GZIP", &["gzip"]),
            ("", &[]),
            ("identity", &[]),
            ("br;q=0, gzip", &["gzip"]),
            ("gzip;q=0", &[]),
            ("br;q=0.5, gzip;q=0.8", &["gzip", "br"]),
            ("identity, br;q=0.5", &[]),
            ("*", &["br", "zstd", "gzip"]),
            ("*;q=0, gzip", &["gzip"]),
            ("*;q=0", &[]),
            ("gzip; q = 0.001", &["gzip"]),
            ("gzip;q=2, br;q=x", &[]),
        ] {
            assert_eq!(chosen(text), expected, "{text}");
        }
        assert!(Accepts::default().choose(&Coding::ALL).next().is_none());
    }
}
