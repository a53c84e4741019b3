//! Interest: a view over borrowed bytes, and its builder.
//!
//! NDN Packet Format Specification 0.3, section "Interest Packet". Decoding checks the structure,
//! allocates nothing and hashes nothing. [`Interest::check_parameters_digest`] is a separate check,
//! because only Interests with parameters need it.

use crate::name::{Name, NameRef};
use crate::plain;
use crate::sign::{
    SignError, SignatureFreshness, SignatureInfo, Signer, Verifier, VerifyError,
    write_signature_info,
};
use crate::tlv::{self, DecodeError, DecodeErrorKind, Tlv, TlvReader};
use crate::types;
use sha2::{Digest, Sha256};
use std::fmt;
use std::time::Duration;

/// The lifetime of an Interest without InterestLifetime.
pub const DEFAULT_INTEREST_LIFETIME: Duration = Duration::from_millis(4000);

/// A decoded Interest that borrows its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Interest<'a> {
    /// The whole packet.
    pub wire: &'a [u8],
    /// The name. It has at least one component.
    pub name: NameRef<'a>,
    /// True if Data with a longer name may answer.
    pub can_be_prefix: bool,
    /// True if stale Data may not answer.
    pub must_be_fresh: bool,
    /// The validated list of Name elements: see [`forwarding_hints`](Self::forwarding_hints).
    pub forwarding_hint: Option<&'a [u8]>,
    /// A random number that identifies this Interest among those with the same name.
    pub nonce: Option<u32>,
    /// The lifetime, in whole milliseconds on the wire; see
    /// [`lifetime_or_default`](Self::lifetime_or_default).
    pub lifetime: Option<Duration>,
    /// The number of hops that remain.
    pub hop_limit: Option<u8>,
    /// The position of the hop limit in `wire`. A forwarder decrements it in place.
    pub hop_limit_offset: Option<usize>,
    /// Opaque bytes for the producer.
    pub application_parameters: Option<&'a [u8]>,
    /// The signature, if the Interest is signed.
    pub signature_value: Option<&'a [u8]>,
    /// The validated element; see [`signature_info`](Self::signature_info).
    signature_info: Option<&'a [u8]>,
    name_offset: usize,
    parameters_offset: usize,
    signature_value_offset: usize,
    has_parameters_digest: bool,
}

impl<'a> Interest<'a> {
    /// Decodes `wire` as exactly one Interest.
    ///
    /// # Errors
    /// [`DecodeError`] with the offset in `wire` if it is not an Interest.
    // Inlined, so that both decoders write the result at its final address.
    #[inline(always)]
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        match Interest::decode_plain(wire) {
            Some(interest) => Ok(interest),
            None => Interest::decode_any(wire),
        }
    }

    /// Decodes an Interest of the common form: ordinary name components, only elements that
    /// forwarders use, no forwarding hint and no parameters. Returns `None` if the bytes are not of
    /// this form; [`Interest::decode_any`] then decides.
    #[inline(always)]
    fn decode_plain(wire: &'a [u8]) -> Option<Self> {
        const CAN_BE_PREFIX: u8 = types::short(types::CAN_BE_PREFIX);
        const MUST_BE_FRESH: u8 = types::short(types::MUST_BE_FRESH);
        const NONCE: u8 = types::short(types::NONCE);
        const LIFETIME: u8 = types::short(types::INTEREST_LIFETIME);
        const HOP_LIMIT: u8 = types::short(types::HOP_LIMIT);
        let value = plain::only(wire, types::short(types::INTEREST))?;
        let (name, mut rest) = plain::name(value)?;
        if name.is_empty() {
            return None;
        }
        let mut interest = Interest::named(
            wire,
            name,
            plain::offset(wire, rest) - name.as_bytes().len(),
        );
        if let [CAN_BE_PREFIX, 0, after @ ..] = rest {
            (interest.can_be_prefix, rest) = (true, after);
        }
        if let [MUST_BE_FRESH, 0, after @ ..] = rest {
            (interest.must_be_fresh, rest) = (true, after);
        }
        if let [NONCE, 4, a, b, c, d, after @ ..] = rest {
            (interest.nonce, rest) = (Some(u32::from_be_bytes([*a, *b, *c, *d])), after);
        }
        let millis = match rest {
            [LIFETIME, 1, a, after @ ..] => Some((u64::from(*a), after)),
            [LIFETIME, 2, a, b, after @ ..] => {
                Some((u64::from(u16::from_be_bytes([*a, *b])), after))
            }
            _ => None,
        };
        if let Some((millis, after)) = millis {
            (interest.lifetime, rest) = (Some(Duration::from_millis(millis)), after);
        }
        if let [HOP_LIMIT, 1, hops, after @ ..] = rest {
            interest.hop_limit = Some(*hops);
            interest.hop_limit_offset = Some(plain::offset(wire, after) - 1);
            rest = after;
        }
        rest.is_empty().then_some(interest)
    }

    /// Decodes any valid Interest, or returns the first error.
    #[inline(never)]
    fn decode_any(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let mut elements = Tlv::only(wire, types::INTEREST)?.children();
        let mut interest = Interest::of_name(wire, &elements.require(types::NAME, "Name")?)?;
        let mut last = rank(types::NAME);
        for element in elements {
            let element = element?;
            let rank = rank(element.typ);
            let follows = match element.typ {
                // A signature whose preceding element is missing signs nothing, so it is ignored.
                types::INTEREST_SIGNATURE_INFO | types::INTEREST_SIGNATURE_VALUE => {
                    last == rank - 1
                }
                _ => rank > last,
            };
            if !follows {
                element.skip(rank != 0)?;
                continue;
            }
            last = rank;
            interest.set(&element)?;
        }
        Ok(interest)
    }

    #[inline]
    fn of_name(wire: &'a [u8], element: &Tlv<'a>) -> Result<Self, DecodeError> {
        let (name, digests) = NameRef::validate(element.value, element.value_offset())?;
        if name.is_empty() {
            return Err(element.bad_length());
        }
        if digests > 1 {
            return Err(DecodeErrorKind::BadValue(types::NAME).at(element.offset));
        }
        let interest = Interest::named(wire, name, element.value_offset());
        Ok(Interest {
            has_parameters_digest: digests > 0,
            ..interest
        })
    }

    /// Returns an Interest with this name and no other fields.
    #[inline(always)]
    fn named(wire: &'a [u8], name: NameRef<'a>, name_offset: usize) -> Self {
        Interest {
            wire,
            name,
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: None,
            nonce: None,
            lifetime: None,
            hop_limit: None,
            hop_limit_offset: None,
            application_parameters: None,
            signature_value: None,
            signature_info: None,
            name_offset,
            parameters_offset: 0,
            signature_value_offset: 0,
            has_parameters_digest: false,
        }
    }

    #[inline]
    fn set(&mut self, element: &Tlv<'a>) -> Result<(), DecodeError> {
        match element.typ {
            types::CAN_BE_PREFIX => self.can_be_prefix = element.array::<0>().map(|_| true)?,
            types::MUST_BE_FRESH => self.must_be_fresh = element.array::<0>().map(|_| true)?,
            types::FORWARDING_HINT => {
                self.forwarding_hint = Some(validate_forwarding_hint(element)?)
            }
            types::NONCE => self.nonce = Some(u32::from_be_bytes(element.array()?)),
            types::INTEREST_LIFETIME => {
                self.lifetime = Some(Duration::from_millis(element.number()?))
            }
            types::HOP_LIMIT => {
                let [hops] = element.array()?;
                self.hop_limit = Some(hops);
                self.hop_limit_offset = Some(element.value_offset());
            }
            types::APPLICATION_PARAMETERS => {
                self.application_parameters = Some(element.value);
                self.parameters_offset = element.offset;
            }
            types::INTEREST_SIGNATURE_INFO => {
                self.signature_info = Some(SignatureInfo::of_element(element)?.wire)
            }
            types::INTEREST_SIGNATURE_VALUE => {
                self.signature_value = Some(element.value);
                self.signature_value_offset = element.offset;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the signature fields, if the Interest is signed.
    pub fn signature_info(&self) -> Option<SignatureInfo<'a>> {
        // The element was validated when the packet was decoded.
        self.signature_info
            .and_then(|wire| SignatureInfo::decode(wire).ok())
    }

    /// Returns the InterestLifetime, or 4 s if the field is absent.
    pub fn lifetime_or_default(&self) -> Duration {
        self.lifetime.unwrap_or(DEFAULT_INTEREST_LIFETIME)
    }

    /// Returns the position of the name's TLV-VALUE in `wire`.
    pub fn name_range(&self) -> std::ops::Range<usize> {
        self.name_offset..self.name_offset + self.name.as_bytes().len()
    }

    /// Returns the names of the forwarding hint, in order.
    pub fn forwarding_hints(&self) -> impl Iterator<Item = NameRef<'a>> + use<'a> {
        let names = TlvReader::new(self.forwarding_hint.unwrap_or_default());
        names
            .flatten()
            .filter(|name| name.typ == types::NAME)
            .flat_map(|name| NameRef::from_value(name.value))
    }

    /// Checks that the name holds the digest of the parameters, or that both are absent.
    ///
    /// # Errors
    /// [`ParametersDigestError`] if one of them is missing, or the digest differs.
    #[inline]
    pub fn check_parameters_digest(&self) -> Result<(), ParametersDigestError> {
        match (self.application_parameters, self.has_parameters_digest) {
            (None, false) => Ok(()),
            _ => self.compare_parameters_digest(),
        }
    }

    fn compare_parameters_digest(&self) -> Result<(), ParametersDigestError> {
        let stated = self
            .name
            .components()
            .find(|component| component.typ == types::PARAMETERS_SHA256_DIGEST);
        match (self.application_parameters, stated) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(ParametersDigestError::NoParameters),
            (Some(_), None) => Err(ParametersDigestError::NoDigest),
            (Some(_), Some(stated)) => {
                let digest = Sha256::digest(&self.wire[self.parameters_offset..]);
                if stated.value == digest.as_slice() {
                    Ok(())
                } else {
                    Err(ParametersDigestError::Mismatch)
                }
            }
        }
    }

    /// Returns the bytes that the signature covers: the name without its digest, and everything
    /// from the parameters to the signature. `None` if the Interest is not signed, or if the digest
    /// is not the last component, because the signature would not cover the components after it.
    pub fn signed_portion(&self) -> Option<[&'a [u8]; 2]> {
        self.signature_value?;
        if self.name.last()?.typ != types::PARAMETERS_SHA256_DIGEST {
            return None;
        }
        let name = self.name.as_bytes();
        let signed =
            &name[..name.len() - tlv::tlv_len(u32::from(types::PARAMETERS_SHA256_DIGEST), 32)];
        Some([
            signed,
            &self.wire[self.parameters_offset..self.signature_value_offset],
        ])
    }

    /// Checks the signature. Does not check the digest of the parameters, nor whether the Interest
    /// is a replay.
    ///
    /// # Errors
    /// [`VerifyError`] if the Interest is not signed, or not by this key.
    pub fn verify(&self, verifier: &dyn Verifier) -> Result<(), VerifyError> {
        let (Some(portions), Some(info), Some(value)) = (
            self.signed_portion(),
            self.signature_info(),
            self.signature_value,
        ) else {
            return Err(VerifyError::NotSigned);
        };
        verifier.verify(info.signature_type, &portions, value)
    }
}

/// Returns the position of an element type in the order of an Interest; 0 for unknown types.
#[inline]
fn rank(typ: u32) -> u8 {
    match typ {
        types::NAME => 1,
        types::CAN_BE_PREFIX => 2,
        types::MUST_BE_FRESH => 3,
        types::FORWARDING_HINT => 4,
        types::NONCE => 5,
        types::INTEREST_LIFETIME => 6,
        types::HOP_LIMIT => 7,
        types::APPLICATION_PARAMETERS => 8,
        types::INTEREST_SIGNATURE_INFO => 9,
        types::INTEREST_SIGNATURE_VALUE => 10,
        _ => 0,
    }
}

fn validate_forwarding_hint<'a>(element: &Tlv<'a>) -> Result<&'a [u8], DecodeError> {
    for name in element.children() {
        let name = name?;
        if name.typ == types::NAME {
            NameRef::validate(name.value, name.value_offset())?;
        } else {
            name.skip(false)?;
        }
    }
    Ok(element.value)
}

/// The reason why an Interest's parameters do not match the digest in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParametersDigestError {
    /// The Interest has parameters, but no ParametersSha256DigestComponent.
    NoDigest,
    /// The Interest has a ParametersSha256DigestComponent, but no parameters.
    NoParameters,
    /// The digest in the name is not that of the parameters.
    Mismatch,
}

impl fmt::Display for ParametersDigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParametersDigestError::NoDigest => {
                "the Interest has parameters, but its name has no digest of them"
            }
            ParametersDigestError::NoParameters => {
                "the Interest's name has a digest of parameters, but there are none"
            }
            ParametersDigestError::Mismatch => {
                "the digest in the Interest's name is not that of its parameters"
            }
        })
    }
}

impl std::error::Error for ParametersDigestError {}

/// Returns the Interest `wire` with a Nonce. Bytes that are not an Interest, and Interests that
/// have a Nonce, are returned unchanged. A forwarder adds the Nonce that an application left out.
pub fn with_nonce(wire: &[u8], nonce: u32) -> Vec<u8> {
    let outer = match Interest::decode(wire) {
        Ok(Interest { nonce: None, .. }) => Tlv::only(wire, types::INTEREST),
        _ => return wire.to_vec(),
    };
    let Ok(outer) = outer else {
        return wire.to_vec();
    };
    // The Nonce goes after the last element that must precede it. Ignored elements may be anywhere,
    // so they do not determine the position.
    let before = |element: &Tlv<'_>| (1..rank(types::NONCE)).contains(&rank(element.typ));
    let last = outer.children().flatten().filter(before).last();
    let at = last.map_or(wire.len(), |element| element.offset + element.wire.len());
    let mut out = Vec::with_capacity(wire.len() + 8);
    tlv::write_header(&mut out, types::INTEREST, outer.value.len() + 6);
    out.extend_from_slice(&wire[outer.value_offset()..at]);
    tlv::write_tlv(&mut out, types::NONCE, &nonce.to_be_bytes());
    out.extend_from_slice(&wire[at..]);
    out
}

/// Returns the Interest `wire` without its forwarding hint. Bytes that are not an Interest are
/// returned unchanged. A forwarder in the producer's region removes the hint.
pub fn without_forwarding_hint(wire: &[u8]) -> Vec<u8> {
    let Ok(outer) = Tlv::only(wire, types::INTEREST) else {
        return wire.to_vec();
    };
    let mut value = Vec::with_capacity(wire.len());
    let mut is_removed = false;
    for element in outer.children() {
        let Ok(element) = element else {
            return wire.to_vec();
        };
        // Only the first element of this type counts; decoders ignore later ones.
        if element.typ == types::FORWARDING_HINT && !is_removed {
            is_removed = true;
        } else {
            value.extend_from_slice(element.wire);
        }
    }
    let mut out = Vec::with_capacity(wire.len());
    tlv::write_tlv(&mut out, types::INTEREST, &value);
    out
}

/// Builds an Interest packet.
///
/// ```
/// use larder_packet::{Interest, InterestBuilder, Name};
///
/// let name: Name = "/video/32=metadata".parse().unwrap();
/// let wire = InterestBuilder::new(&name).can_be_prefix(true).must_be_fresh(true).nonce(7).build();
/// let interest = Interest::decode(&wire).unwrap();
/// assert!(interest.can_be_prefix && interest.must_be_fresh);
/// assert_eq!(interest.name, name.as_name());
/// ```
#[derive(Clone, Debug)]
pub struct InterestBuilder {
    name: Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
    forwarding_hint: Vec<Name>,
    nonce: Option<u32>,
    lifetime: Option<Duration>,
    hop_limit: Option<u8>,
    application_parameters: Option<Vec<u8>>,
}

impl InterestBuilder {
    /// Starts an Interest for `name`, which must have a component. The empty name is not allowed in
    /// an Interest.
    pub fn new(name: impl Into<Name>) -> Self {
        InterestBuilder {
            name: name.into(),
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: Vec::new(),
            nonce: None,
            lifetime: None,
            hop_limit: None,
            application_parameters: None,
        }
    }

    /// Sets whether Data with a longer name may answer.
    #[must_use]
    pub fn can_be_prefix(mut self, yes: bool) -> Self {
        self.can_be_prefix = yes;
        self
    }

    /// Sets whether stale Data may not answer.
    #[must_use]
    pub fn must_be_fresh(mut self, yes: bool) -> Self {
        self.must_be_fresh = yes;
        self
    }

    /// Sets the random number that identifies this Interest among those with the same name.
    #[must_use]
    pub fn nonce(mut self, nonce: u32) -> Self {
        self.nonce = Some(nonce);
        self
    }

    /// Sets the lifetime. It is cut to whole milliseconds.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Sets the number of hops that the Interest may take.
    #[must_use]
    pub fn hop_limit(mut self, hops: u8) -> Self {
        self.hop_limit = Some(hops);
        self
    }

    /// Sets the names toward which the Interest may be forwarded.
    #[must_use]
    pub fn forwarding_hint(mut self, names: &[Name]) -> Self {
        self.forwarding_hint = names.to_vec();
        self
    }

    /// Sets the bytes for the producer. The packet's name gets their digest as its last component.
    /// It replaces a digest that the name has.
    #[must_use]
    pub fn application_parameters(mut self, bytes: &[u8]) -> Self {
        self.application_parameters = Some(bytes.to_vec());
        self
    }

    /// Returns the unsigned packet.
    pub fn build(self) -> Vec<u8> {
        let mut parameters = Vec::new();
        if let Some(bytes) = &self.application_parameters {
            tlv::write_tlv(&mut parameters, types::APPLICATION_PARAMETERS, bytes);
        }
        self.finish(&parameters)
    }

    /// Returns the signed packet. It has empty parameters if none were set.
    ///
    /// # Errors
    /// [`SignError`] if the signer fails.
    pub fn sign(
        self,
        signer: &dyn Signer,
        freshness: SignatureFreshness<'_>,
    ) -> Result<Vec<u8>, SignError> {
        let mut parameters = Vec::new();
        let bytes = self.application_parameters.as_deref().unwrap_or_default();
        tlv::write_tlv(&mut parameters, types::APPLICATION_PARAMETERS, bytes);
        write_signature_info(
            &mut parameters,
            types::INTEREST_SIGNATURE_INFO,
            signer,
            freshness,
        );
        let name = without_parameters_digest(self.name.as_name());
        let signature = signer.sign(&[name.as_bytes(), &parameters])?;
        tlv::write_tlv(&mut parameters, types::INTEREST_SIGNATURE_VALUE, &signature);
        Ok(self.finish(&parameters))
    }

    /// Writes the packet. `parameters` are the elements from ApplicationParameters on, or nothing.
    fn finish(self, parameters: &[u8]) -> Vec<u8> {
        let mut name = self.name;
        if !parameters.is_empty() {
            name = without_parameters_digest(name.as_name());
            name.push(types::PARAMETERS_SHA256_DIGEST, &Sha256::digest(parameters));
        }
        let expected = name.as_bytes().len() + parameters.len() + 32;
        let mut out = Vec::with_capacity(expected + 16);
        tlv::write_nested(&mut out, types::INTEREST, expected, |out| {
            tlv::write_tlv(out, types::NAME, name.as_bytes());
            if self.can_be_prefix {
                tlv::write_tlv(out, types::CAN_BE_PREFIX, &[]);
            }
            if self.must_be_fresh {
                tlv::write_tlv(out, types::MUST_BE_FRESH, &[]);
            }
            if !self.forwarding_hint.is_empty() {
                tlv::write_nested(out, types::FORWARDING_HINT, 0, |out| {
                    for name in &self.forwarding_hint {
                        tlv::write_tlv(out, types::NAME, name.as_bytes());
                    }
                });
            }
            if let Some(nonce) = self.nonce {
                tlv::write_tlv(out, types::NONCE, &nonce.to_be_bytes());
            }
            if let Some(lifetime) = self.lifetime {
                tlv::write_nni(
                    out,
                    types::INTEREST_LIFETIME,
                    lifetime.as_millis().try_into().unwrap_or(u64::MAX),
                );
            }
            if let Some(hops) = self.hop_limit {
                tlv::write_tlv(out, types::HOP_LIMIT, &[hops]);
            }
            out.extend_from_slice(parameters);
        });
        out
    }
}

fn without_parameters_digest(name: NameRef<'_>) -> Name {
    let mut kept = Name::root();
    let others = name
        .components()
        .filter(|component| component.typ != types::PARAMETERS_SHA256_DIGEST);
    for component in others {
        kept.push_component(component);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let number = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..5),
            prop::collection::vec(any::<u8>(), 8)
        ];
        // Elements in any order, mostly of the types of an Interest, with values of valid and
        // invalid lengths.
        let element = (
            prop_oneof![
                Just(7),
                Just(33),
                Just(18),
                Just(30),
                Just(10),
                Just(12),
                Just(34),
                Just(36),
                1u32..300
            ],
            number,
        );
        let elements = prop::collection::vec(element, 0..5);
        let name = prop::collection::vec(
            (
                prop_oneof![Just(8), Just(1), Just(2), 0u32..300],
                prop::collection::vec(any::<u8>(), 0..40),
            ),
            0..4,
        );
        (name, elements, any::<bool>(), 0usize..4, 5u32..8).prop_map(
            |(name, mut elements, in_order, cut, typ)| {
                if in_order {
                    elements.sort_by_key(|(typ, _)| (rank(*typ), *typ));
                    elements.dedup_by_key(|(typ, _)| *typ);
                }
                let mut wire = Vec::new();
                tlv::write_nested(&mut wire, typ, 0, |out| {
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
        fn a_plain_interest_is_read_otherwise(wire in bytes()) {
            if let Some(plain) = Interest::decode_plain(&wire) {
                let any = Interest::decode_any(&wire);
                prop_assert_eq!(format!("{:?}", Ok::<_, DecodeError>(plain)), format!("{any:?}"));
            }
        }
    }

    proptest! {
        /// Random packets rarely have the common form. This test starts from a packet of that form
        /// and changes a few bytes.
        #[test]
        fn a_plain_interest_with_wrong_bytes_is_read_otherwise(
            name in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 1..6),
            (prefix, fresh, nonce) in (any::<bool>(), any::<bool>(), any::<u32>()),
            (lifetime, hops) in (prop::option::of(0u64..65_536), prop::option::of(any::<u8>())),
            edits in prop::collection::vec(plain::a_change(), 0..4),
        ) {
            let name = name.iter().fold(Name::root(), |name, value| name.clone().push_generic(value).clone());
            let mut interest = InterestBuilder::new(name).can_be_prefix(prefix).must_be_fresh(fresh).nonce(nonce);
            if let Some(milliseconds) = lifetime {
                interest = interest.lifetime(Duration::from_millis(milliseconds));
            }
            if let Some(hops) = hops {
                interest = interest.hop_limit(hops);
            }
            let mut wire = interest.build();
            let same = |wire: &[u8]| {
                Interest::decode_plain(wire).map(|plain| {
                    (format!("{:?}", Ok::<_, DecodeError>(plain)), format!("{:?}", Interest::decode_any(wire)))
                })
            };
            if wire.len() < 253 {
                let (plain, any) = same(&wire).expect("it is plain");
                prop_assert_eq!(plain, any);
            }
            for edit in edits {
                plain::change(&mut wire, &edit);
                if let Some((plain, any)) = same(&wire) {
                    prop_assert_eq!(plain, any);
                }
            }
        }
    }

    #[test]
    fn most_interests_go_the_slow_way() {
        let name = || "/a/b/v=7/seg=0".parse::<Name>().unwrap();
        let plain = [
            InterestBuilder::new(name()).build(),
            InterestBuilder::new(name()).nonce(1).build(),
            InterestBuilder::new(name())
                .can_be_prefix(true)
                .must_be_fresh(true)
                .nonce(1)
                .hop_limit(3)
                .build(),
            InterestBuilder::new(name())
                .nonce(1)
                .lifetime(Duration::from_millis(4000))
                .hop_limit(0)
                .build(),
            InterestBuilder::new(Name::root().push_generic(&[7; 240]).clone())
                .nonce(1)
                .build(),
        ];
        assert!(
            plain
                .iter()
                .all(|wire| Interest::decode_plain(wire).is_some())
        );
        let other = InterestBuilder::new(name())
            .nonce(1)
            .application_parameters(b"x")
            .build();
        assert!(Interest::decode_plain(&other).is_none() && Interest::decode(&other).is_ok());
    }
}
