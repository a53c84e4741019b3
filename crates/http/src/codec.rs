//! Numbers and texts as bytes that outlive the process; all numbers little-endian.
//!
//! A name has its length before it as u16, a value as u32.

use http::HeaderName;

/// Appends numbers and texts.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Returns a writer that appends to `bytes`.
    pub(crate) fn after(bytes: Vec<u8>) -> Writer {
        Writer(bytes)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn u16(&mut self, number: u16) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes the name of a field: `HeaderName` has at most 64 KiB less one.
    pub(crate) fn name(&mut self, name: &[u8]) {
        self.u16(name.len() as u16);
        self.0.extend_from_slice(name);
    }

    pub(crate) fn value(&mut self, value: &[u8]) {
        self.0
            .extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.0.extend_from_slice(value);
    }
}

/// Reads the output of a [`Writer`]; `None` if the bytes end or are malformed.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Returns the bytes that were not read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.u16()?;
        std::str::from_utf8(self.bytes(usize::from(length))?).ok()
    }

    pub(crate) fn name(&mut self) -> Option<HeaderName> {
        HeaderName::from_bytes(self.text()?.as_bytes()).ok()
    }

    pub(crate) fn value(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.array()?);
        self.bytes(usize::try_from(length).ok()?)
    }
}
