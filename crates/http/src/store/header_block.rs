//! The header fields of a stored response, in one piece of memory: the lines that HTTP/1.1 sends.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Header fields as lines, `name: value\r\n`. A name is in lower case. A value has no line break,
/// because it was a [`HeaderValue`].
#[derive(Clone, Debug, Default)]
pub(crate) struct HeaderBlock {
    /// The lines. Those of sensitive fields (HPACK must not index them, RFC 7541 §7.1.3) are the
    /// last.
    lines: Box<[u8]>,
    /// The position of the first sensitive line.
    sensitive_from: u32,
    /// The number of lines.
    count: u16,
}

/// One line of a [`HeaderBlock`].
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// The position of the value in the block.
    start: usize,
    pub is_sensitive: bool,
}

impl HeaderBlock {
    /// Returns the block of all fields of `headers` but those in `left_out`. It takes exactly the
    /// memory of its lines; a received value is a slice of a connection's read buffer, and would
    /// keep all of it.
    pub(crate) fn new(headers: &HeaderMap, left_out: &[HeaderName]) -> HeaderBlock {
        let kept = || headers.iter().filter(|(name, _)| !left_out.contains(name));
        let length = kept().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let mut lines = Vec::with_capacity(length);
        let mut count = 0;
        // A field is sensitive if one of its lines is, so that its lines keep their order.
        let has_sensitive = headers.values().any(HeaderValue::is_sensitive);
        let is_sensitive =
            |name: &HeaderName| has_sensitive && headers.get_all(name).iter().any(HeaderValue::is_sensitive);
        let mut append = |sensitive: bool| {
            for (name, value) in kept().filter(|(name, _)| is_sensitive(name) == sensitive) {
                lines.extend_from_slice(name.as_str().as_bytes());
                lines.extend_from_slice(b": ");
                lines.extend_from_slice(value.as_bytes());
                lines.extend_from_slice(b"\r\n");
                count += 1;
            }
            lines.len()
        };
        let sensitive_from = append(false);
        if has_sensitive {
            append(true);
        }
        HeaderBlock { lines: lines.into(), sensitive_from: sensitive_from as u32, count }
    }

    /// Returns the lines as HTTP/1.1 sends them.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.lines
    }

    /// Returns the number of lines.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Returns the lines in the order of their fields.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = self.lines.get(at..).filter(|rest| !rest.is_empty())?;
            let colon = rest.iter().position(|byte| *byte == b':')?;
            let value = rest.get(colon + 2..)?;
            let length = value.iter().position(|byte| *byte == b'\r')?;
            let is_sensitive = at >= self.sensitive_from as usize;
            let line = Line { name: &rest[..colon], value: &value[..length], start: at + colon + 2, is_sensitive };
            at = line.start + length + 2;
            Some(line)
        })
    }

    /// Returns the values of the field `name`, in lower case, line by line.
    pub(crate) fn values(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        self.lines().filter(move |line| line.name == name.as_str().as_bytes()).map(|line| line.value)
    }

    /// Returns the fields as a map, with room for `more` fields. Its values share one copy of the
    /// block.
    pub(crate) fn to_map(&self, more: usize) -> HeaderMap {
        let shared = Bytes::copy_from_slice(&self.lines);
        let mut map = HeaderMap::with_capacity(self.len() + more);
        for line in self.lines() {
            let name = HeaderName::from_bytes(line.name).expect("was a field's name");
            let value = shared.slice(line.start..line.start + line.value.len());
            let mut value = HeaderValue::from_maybe_shared(value).expect("was a field's value");
            value.set_sensitive(line.is_sensitive);
            map.append(name, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{AGE, ETAG, SET_COOKIE};
    use proptest::prelude::*;

    fn fields() -> impl Strategy<Value = HeaderMap> {
        let name = prop_oneof![Just("etag"), Just("age"), Just("set-cookie"), Just("x-a"), Just("x-b")];
        let value = proptest::collection::vec(prop_oneof![32..127_u8, 128..=255_u8, Just(b'\t')], 0..40);
        proptest::collection::vec((name, value, any::<bool>()), 0..20).prop_map(|fields| {
            let mut map = HeaderMap::new();
            for (name, value, is_sensitive) in fields {
                let mut value = HeaderValue::from_bytes(&value).expect("a value");
                value.set_sensitive(is_sensitive);
                map.append(name, value);
            }
            map
        })
    }

    proptest! {
        /// Failure: a stored response comes back with another field, value, order of lines or mark.
        #[test]
        fn all_fields_come_back(map in fields()) {
            let block = HeaderBlock::new(&map, &[AGE]);
            let mut expected = map.clone();
            expected.remove(AGE);
            let back = block.to_map(2);
            prop_assert_eq!(&back, &expected);
            prop_assert_eq!(block.len(), expected.len());
            for name in expected.keys() {
                let is_sensitive = map.get_all(name).iter().any(HeaderValue::is_sensitive);
                prop_assert!(back.get_all(name).iter().all(|value| value.is_sensitive() == is_sensitive));
                let values: Vec<_> = expected.get_all(name).iter().map(HeaderValue::as_bytes).collect();
                prop_assert_eq!(block.values(name).collect::<Vec<_>>(), values);
            }
        }
    }

    #[test]
    fn the_lines_are_those_of_http_1() {
        let mut map = HeaderMap::new();
        map.append(SET_COOKIE, HeaderValue::from_static("a=1"));
        map.append(ETAG, HeaderValue::from_static("\"x\""));
        map.append(SET_COOKIE, HeaderValue::from_static(""));
        let block = HeaderBlock::new(&map, &[]);
        assert_eq!(block.as_bytes(), b"set-cookie: a=1\r\nset-cookie: \r\netag: \"x\"\r\n");
    }
}
