//! Data: a view over borrowed bytes, and its builder.
//!
//! NDN Packet Format Specification 0.3, section "Data Packet". Decoding checks the structure,
//! allocates nothing and hashes nothing.

use crate::name::{Component, NameRef};
use crate::plain;
use crate::sign::{
    SignError, SignatureFreshness, SignatureInfo, Signer, Verifier, VerifyError,
    write_signature_info,
};
use crate::tlv::{self, DecodeError, DecodeErrorKind, Tlv, TlvReader};
use crate::types;
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::time::Duration;

/// A decoded Data that borrows its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// The whole packet.
    pub wire: &'a [u8],
    /// The name.
    pub name: NameRef<'a>,
    /// The content type; `None` counts as [`types::CONTENT_BLOB`].
    pub content_type: Option<u64>,
    /// The time for which the Data counts as fresh after its arrival, in whole milliseconds on the
    /// wire; `None` counts as zero.
    pub freshness: Option<Duration>,
    /// The last name component of the last segment of the object that this Data belongs to.
    pub final_block_id: Option<Component<'a>>,
    /// The content; empty if the field is absent.
    pub content: &'a [u8],
    /// The signature.
    pub signature_value: &'a [u8],
    /// The validated element; see [`signature_info`](Self::signature_info).
    signature_info: &'a [u8],
    name_offset: usize,
    signature_value_offset: usize,
}

impl<'a> Data<'a> {
    /// Decodes `wire` as exactly one Data.
    ///
    /// # Errors
    /// [`DecodeError`] with the offset in `wire` if it is not a Data.
    // Inlined, so that both decoders write the result at its final address.
    #[inline(always)]
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        match Data::decode_plain(wire) {
            Some(data) => Ok(data),
            None => Data::decode_any(wire),
        }
    }

    /// Decodes a Data of the common form: ordinary name components, all elements in order and no
    /// other elements. Returns `None` if the bytes are not of this form; [`Data::decode_any`] then
    /// decides.
    #[inline(always)]
    fn decode_plain(wire: &'a [u8]) -> Option<Self> {
        const META_INFO: u8 = types::short(types::META_INFO);
        const CONTENT: u8 = types::short(types::CONTENT);
        const SIGNATURE_INFO: u8 = types::short(types::SIGNATURE_INFO);
        const SIGNATURE_VALUE: u8 = types::short(types::SIGNATURE_VALUE);
        const SIGNATURE_TYPE: u8 = types::short(types::SIGNATURE_TYPE);
        const _: () = assert!(types::DIGEST_SHA256 == 0);
        /// The SignatureInfo of a digest. It needs no decoding.
        const DIGEST_INFO: [u8; 5] = [SIGNATURE_INFO, 3, SIGNATURE_TYPE, 1, 0];
        let value = plain::only(wire, types::short(types::DATA))?;
        let (name, mut rest) = plain::name(value)?;
        let name_offset = plain::offset(wire, rest) - name.as_bytes().len();
        let mut meta_info = MetaInfo::default();
        if let [META_INFO, ..] = rest {
            let (value, after) = plain::element(rest, META_INFO)?;
            meta_info = MetaInfo::read(TlvReader::new(value)).ok()?;
            rest = after;
        }
        let (content, rest) = plain::element(rest, CONTENT)?;
        let (value, after) = plain::element(rest, SIGNATURE_INFO)?;
        let signature_info = &rest[..rest.len() - after.len()];
        if signature_info != DIGEST_INFO {
            SignatureInfo::read(TlvReader::new(value), signature_info).ok()?;
        }
        let signature_value = plain::only(after, SIGNATURE_VALUE)?;
        Some(Data {
            wire,
            name,
            content_type: meta_info.content_type,
            freshness: meta_info.freshness,
            final_block_id: meta_info.final_block_id,
            content,
            signature_value,
            signature_info,
            name_offset,
            signature_value_offset: plain::offset(wire, after),
        })
    }

    /// Decodes any valid Data, or returns the first error.
    #[inline(never)]
    fn decode_any(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let mut elements = Tlv::only(wire, types::DATA)?.children();
        let name_element = elements.require(types::NAME, "Name")?;
        let (name, _) = NameRef::validate(name_element.value, name_element.value_offset())?;
        let mut meta_info = MetaInfo::default();
        let mut content: &[u8] = &[];
        let mut signature_info = None;
        let mut signature_value = None;
        let mut last = rank(types::NAME);
        for element in elements {
            let element = element?;
            let rank = rank(element.typ);
            if rank <= last {
                element.skip(rank != 0)?;
                continue;
            }
            last = rank;
            match element.typ {
                types::META_INFO => meta_info = MetaInfo::read(element.children())?,
                types::CONTENT => content = element.value,
                types::SIGNATURE_INFO => {
                    signature_info = Some(SignatureInfo::of_element(&element)?.wire)
                }
                types::SIGNATURE_VALUE => signature_value = Some(element),
                _ => {}
            }
        }
        let missing = |what| DecodeErrorKind::Missing(what).at(wire.len());
        let signature_value = signature_value.ok_or(missing("SignatureValue"))?;
        Ok(Data {
            wire,
            name,
            content_type: meta_info.content_type,
            freshness: meta_info.freshness,
            final_block_id: meta_info.final_block_id,
            content,
            signature_value: signature_value.value,
            signature_info: signature_info.ok_or(missing("SignatureInfo"))?,
            name_offset: name_element.value_offset(),
            signature_value_offset: signature_value.offset,
        })
    }

    /// Returns the position of the name's TLV-VALUE in `wire`. A store that keeps the packet needs
    /// no copy of the name.
    pub fn name_range(&self) -> Range<usize> {
        self.name_offset..self.name_offset + self.name.as_bytes().len()
    }

    /// Returns the signature fields.
    pub fn signature_info(&self) -> SignatureInfo<'a> {
        SignatureInfo::decode(self.signature_info).expect("it was read when the packet was")
    }

    /// Returns the SHA-256 digest of the whole packet. As a component it completes the full name.
    pub fn implicit_digest(&self) -> [u8; 32] {
        Sha256::digest(self.wire).into()
    }

    /// Returns the bytes that the signature covers: from the name up to the signature.
    pub fn signed_portion(&self) -> &'a [u8] {
        let name_header =
            tlv::tlv_len(types::NAME, self.name.as_bytes().len()) - self.name.as_bytes().len();
        &self.wire[self.name_offset - name_header..self.signature_value_offset]
    }

    /// Checks the signature.
    ///
    /// # Errors
    /// [`VerifyError`] if the signature does not match this key.
    pub fn verify(&self, verifier: &dyn Verifier) -> Result<(), VerifyError> {
        verifier.verify(
            self.signature_info().signature_type,
            &[self.signed_portion()],
            self.signature_value,
        )
    }
}

/// Returns the position of an element type in the order of a Data; 0 for unknown types.
#[inline]
fn rank(typ: u32) -> u8 {
    match typ {
        types::NAME => 1,
        types::META_INFO => 2,
        types::CONTENT => 3,
        types::SIGNATURE_INFO => 4,
        types::SIGNATURE_VALUE => 5,
        _ => 0,
    }
}

#[derive(Default)]
struct MetaInfo<'a> {
    content_type: Option<u64>,
    freshness: Option<Duration>,
    final_block_id: Option<Component<'a>>,
}

impl<'a> MetaInfo<'a> {
    #[inline]
    fn read(elements: TlvReader<'a>) -> Result<Self, DecodeError> {
        let mut meta_info = MetaInfo::default();
        let mut last = 0;
        for element in elements {
            let element = element?;
            // These three types have consecutive numbers in their order on the wire.
            let known = (types::CONTENT_TYPE..=types::FINAL_BLOCK_ID).contains(&element.typ);
            if !known || element.typ <= last {
                element.skip(known)?;
                continue;
            }
            last = element.typ;
            match element.typ {
                types::CONTENT_TYPE => meta_info.content_type = Some(element.number()?),
                types::FRESHNESS_PERIOD => {
                    meta_info.freshness = Some(Duration::from_millis(element.number()?))
                }
                _ => {
                    let name = NameRef::validate(element.value, element.value_offset())?.0;
                    let mut components = name.components();
                    meta_info.final_block_id = components.next();
                    if meta_info.final_block_id.is_none() || components.next().is_some() {
                        return Err(element.bad_length());
                    }
                }
            }
        }
        Ok(meta_info)
    }
}

/// Builds a Data packet.
///
/// ```
/// use larder_packet::{Data, DataBuilder, DigestSigner, DigestVerifier, Name};
/// use std::time::Duration;
///
/// let name: Name = "/video/v=7/seg=0".parse().unwrap();
/// let wire = DataBuilder::new(&name).freshness(Duration::from_secs(10)).content(b"hello").build(&DigestSigner).unwrap();
/// let data = Data::decode(&wire).unwrap();
/// assert_eq!(data.content, b"hello");
/// assert!(data.verify(&DigestVerifier).is_ok());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DataBuilder<'a> {
    name: NameRef<'a>,
    content_type: Option<u64>,
    freshness: Option<Duration>,
    final_block_id: Option<Component<'a>>,
    content: &'a [u8],
}

impl<'a> DataBuilder<'a> {
    /// Starts a Data with this name and no content.
    pub fn new(name: impl Into<NameRef<'a>>) -> Self {
        DataBuilder {
            name: name.into(),
            content_type: None,
            freshness: None,
            final_block_id: None,
            content: &[],
        }
    }

    /// Sets the content type: see [`types::CONTENT_BLOB`] and its neighbours.
    #[must_use]
    pub fn content_type(mut self, content_type: u64) -> Self {
        self.content_type = Some(content_type);
        self
    }

    /// Sets the time for which the Data counts as fresh. It is cut to whole milliseconds.
    #[must_use]
    pub fn freshness(mut self, freshness: Duration) -> Self {
        self.freshness = Some(freshness);
        self
    }

    /// Sets the last component of the last segment's name.
    #[must_use]
    pub fn final_block_id(mut self, component: Component<'a>) -> Self {
        self.final_block_id = Some(component);
        self
    }

    /// Sets the content.
    #[must_use]
    pub fn content(mut self, content: &'a [u8]) -> Self {
        self.content = content;
        self
    }

    /// Returns the signed packet.
    ///
    /// # Errors
    /// [`SignError`] if the signer fails.
    pub fn build(self, signer: &dyn Signer) -> Result<Vec<u8>, SignError> {
        let mut out = Vec::new();
        self.build_into(signer, &mut out)?;
        Ok(out)
    }

    /// Appends the signed packet to `out`. If signing fails, `out` is unchanged.
    ///
    /// # Errors
    /// [`SignError`] if the signer fails.
    pub fn build_into(self, signer: &dyn Signer, out: &mut Vec<u8>) -> Result<(), SignError> {
        let start = out.len();
        // Name, content, and about 64 bytes of signature with the name of its key.
        let expected = self.name.as_bytes().len() + self.content.len() + 128;
        out.reserve(expected + 64);
        let signed = tlv::write_nested(out, types::DATA, expected, |out| {
            let portion = out.len();
            self.write_unsigned(out, signer);
            let signature = signer.sign(&[&out[portion..]])?;
            tlv::write_tlv(out, types::SIGNATURE_VALUE, &signature);
            Ok(())
        });
        if signed.is_err() {
            out.truncate(start);
        }
        signed
    }

    fn write_unsigned(&self, out: &mut Vec<u8>, signer: &dyn Signer) {
        tlv::write_tlv(out, types::NAME, self.name.as_bytes());
        if self.content_type.is_some() || self.freshness.is_some() || self.final_block_id.is_some()
        {
            tlv::write_nested(out, types::META_INFO, 0, |out| self.write_meta_info(out));
        }
        tlv::write_tlv(out, types::CONTENT, self.content);
        write_signature_info(
            out,
            types::SIGNATURE_INFO,
            signer,
            SignatureFreshness::default(),
        );
    }

    fn write_meta_info(&self, out: &mut Vec<u8>) {
        if let Some(content_type) = self.content_type {
            tlv::write_nni(out, types::CONTENT_TYPE, content_type);
        }
        if let Some(freshness) = self.freshness {
            tlv::write_nni(
                out,
                types::FRESHNESS_PERIOD,
                freshness.as_millis().try_into().unwrap_or(u64::MAX),
            );
        }
        if let Some(component) = self.final_block_id {
            tlv::write_nested(out, types::FINAL_BLOCK_ID, 0, |out| {
                tlv::write_tlv(out, u32::from(component.typ), component.value);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DigestSigner, Name};
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let value = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            prop::collection::vec(any::<u8>(), 240..260),
            // Elements of MetaInfo and SignatureInfo; some of them are valid.
            prop_oneof![Just(24u8), Just(25), Just(26), Just(27), Just(28)]
                .prop_map(|typ| vec![typ, 1, 0]),
            Just(vec![24, 1, 0, 25, 2, 1, 0]),
            Just(vec![27, 1, 3, 28, 5, 7, 3, 8, 1, 65]),
        ];
        let element = (
            prop_oneof![Just(20), Just(21), Just(22), Just(23), 1u32..300],
            value,
        );
        let elements = prop::collection::vec(element, 0..6);
        let name = prop::collection::vec(
            (
                prop_oneof![Just(8), Just(1), 0u32..300],
                prop::collection::vec(any::<u8>(), 0..40),
            ),
            0..4,
        );
        (name, elements, any::<bool>(), 0usize..4).prop_map(
            |(name, mut elements, in_order, cut)| {
                if in_order {
                    elements.sort_by_key(|(typ, _)| (rank(*typ), *typ));
                    elements.dedup_by_key(|(typ, _)| *typ);
                }
                let mut wire = Vec::new();
                tlv::write_nested(&mut wire, types::DATA, 0, |out| {
                    tlv::write_nested(out, types::NAME, 0, |out| {
                        for (typ, value) in &name {
                            tlv::write_tlv(out, *typ, value);
                        }
                    });
                    for (typ, value) in &elements {
                        tlv::write_tlv(out, *typ, value);
                    }
                });
                wire.truncate(wire.len().saturating_sub(cut.saturating_sub(2)));
                wire
            },
        )
    }

    proptest! {
        #[test]
        fn a_plain_data_is_read_otherwise(wire in bytes()) {
            if let Some(plain) = Data::decode_plain(&wire) {
                let any = Data::decode_any(&wire);
                prop_assert_eq!(format!("{:?}", Ok::<_, DecodeError>(plain)), format!("{any:?}"));
            }
        }
    }

    proptest! {
        /// Random packets rarely have the common form. This test starts from a packet of that form
        /// and changes a few bytes.
        #[test]
        fn a_plain_data_with_wrong_bytes_is_read_otherwise(
            name in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            (content, freshness, last) in (0usize..600, prop::option::of(0u64..100_000), any::<bool>()),
            edits in prop::collection::vec(plain::a_change(), 0..4),
        ) {
            let name = name.iter().fold(Name::root(), |name, value| name.clone().push_generic(value).clone());
            let content = vec![7; content];
            let mut data = DataBuilder::new(&name).content(&content);
            if let Some(milliseconds) = freshness {
                data = data.freshness(Duration::from_millis(milliseconds));
            }
            if last {
                data = data.final_block_id(Component::generic(b"x"));
            }
            let mut wire = data.build(&DigestSigner).unwrap();
            let same = |wire: &[u8]| {
                Data::decode_plain(wire).map(|plain| {
                    (format!("{:?}", Ok::<_, DecodeError>(plain)), format!("{:?}", Data::decode_any(wire)))
                })
            };
            let (plain, any) = same(&wire).expect("it is plain");
            prop_assert_eq!(plain, any);
            for edit in edits {
                plain::change(&mut wire, &edit);
                if let Some((plain, any)) = same(&wire) {
                    prop_assert_eq!(plain, any);
                }
            }
        }
    }

    #[test]
    fn most_data_go_the_slow_way() {
        let name: Name = "/a/b/v=7/seg=0".parse().unwrap();
        for content in [&b""[..], &[7; 252], &[7; 253], &[7; 8000]] {
            let component = Component::generic(b"x");
            let plain = [
                DataBuilder::new(&name)
                    .content(content)
                    .build(&DigestSigner)
                    .unwrap(),
                DataBuilder::new(&name)
                    .freshness(Duration::from_secs(1))
                    .final_block_id(component)
                    .content(content)
                    .build(&DigestSigner)
                    .unwrap(),
            ];
            assert!(plain.iter().all(|wire| Data::decode_plain(wire).is_some()));
        }
    }
}
