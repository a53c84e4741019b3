//! Signatures: made and checked with every algorithm, refused after any flipped bit, and the same
//! as other implementations make.

use larder_packet::{
    Data, DataBuilder, DigestSigner, DigestVerifier, EcdsaSigner, Ed25519Signer, HmacSigner,
    HmacVerifier, Interest, InterestBuilder, KeyError, KeyLocator, Name, ParametersDigestError,
    PublicKeyVerifier, SignatureFreshness, Signer, SystemRandom, Verifier, VerifyError,
    signer_from_pem, types, verifier_from_pem,
};
use std::time::Duration;

const ED25519: &str = include_str!("keys/ed25519.pem");
const ED25519_PUBLIC: &str = include_str!("keys/ed25519.pub.pem");
const P256: &str = include_str!("keys/p256.pem");
const P256_PUBLIC: &str = include_str!("keys/p256.pub.pem");
const RSA_PUBLIC: &str = include_str!("keys/rsa2048.pub.pem");

fn hex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

fn key_name() -> Name {
    "/larder/KEY/1".parse().unwrap()
}

/// SignatureType, signer, and the verifier of its signatures.
type Pair = (u64, Box<dyn Signer>, Box<dyn Verifier>);

fn pairs() -> Vec<Pair> {
    let signer = |pem| signer_from_pem(pem, key_name(), &SystemRandom::new()).unwrap();
    let verifier = |pem| Box::new(verifier_from_pem(pem).unwrap());
    vec![
        (
            types::DIGEST_SHA256,
            Box::new(DigestSigner),
            Box::new(DigestVerifier),
        ),
        (
            types::HMAC_WITH_SHA256,
            Box::new(HmacSigner::new(&[7; 32], key_name())),
            Box::new(HmacVerifier::new(&[7; 32])),
        ),
        (types::ED25519, signer(ED25519), verifier(ED25519_PUBLIC)),
        (types::ED25519, signer(ED25519), verifier(ED25519)),
        (
            types::SHA256_WITH_ECDSA,
            signer(P256),
            verifier(P256_PUBLIC),
        ),
        (types::SHA256_WITH_ECDSA, signer(P256), verifier(P256)),
    ]
}

#[test]
fn after_any_flipped_bit_of_a_data() {
    for (signature_type, signer, verifier) in pairs() {
        let name: Name = "/a/v=1/seg=0".parse().unwrap();
        let mut wire = DataBuilder::new(&name)
            .freshness(Duration::from_secs(1))
            .content(b"content")
            .build(&*signer)
            .unwrap();
        let data = Data::decode(&wire).unwrap();
        assert_eq!(data.signature_info().signature_type, signature_type);
        let key_name = key_name();
        let locator =
            (signature_type != types::DIGEST_SHA256).then(|| KeyLocator::Name(key_name.as_name()));
        assert_eq!(data.signature_info().key_locator, locator);
        assert_eq!(data.verify(&*verifier), Ok(()), "type {signature_type}");
        for bit in 0..wire.len() * 8 {
            wire[bit / 8] ^= 1 << (bit % 8);
            let accepted = Data::decode(&wire).is_ok_and(|data| data.verify(&*verifier).is_ok());
            assert!(!accepted, "type {signature_type}, bit {bit}");
            wire[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn after_any_flipped_bit_of_an_interest() {
    for (signature_type, signer, verifier) in pairs() {
        let name: Name = "/a/b".parse().unwrap();
        let freshness = SignatureFreshness {
            nonce: Some(&[1, 2, 3, 4]),
            time: Some(1_700_000_000_000),
            seq_num: None,
        };
        let builder = InterestBuilder::new(&name)
            .nonce(7)
            .application_parameters(b"parameters");
        let mut wire = builder.sign(&*signer, freshness).unwrap();
        let interest = Interest::decode(&wire).unwrap();
        let info = interest.signature_info().unwrap();
        assert_eq!(
            (info.signature_type, info.nonce, info.time, info.seq_num),
            (
                signature_type,
                Some(&[1, 2, 3, 4][..]),
                Some(1_700_000_000_000),
                None
            )
        );
        assert_eq!(interest.verify(&*verifier), Ok(()));
        assert_eq!(interest.check_parameters_digest(), Ok(()));
        // The Nonce is not covered, as forwarders add it; the digest of the parameters is, by the
        // check of its own.
        let nonce = wire
            .windows(6)
            .position(|six| six == [10, 4, 0, 0, 0, 7])
            .unwrap();
        for bit in 0..wire.len() * 8 {
            wire[bit / 8] ^= 1 << (bit % 8);
            let accepted = Interest::decode(&wire).is_ok_and(|interest| {
                interest.verify(&*verifier).is_ok() && interest.check_parameters_digest().is_ok()
            });
            assert!(
                !accepted || (nonce..nonce + 6).contains(&(bit / 8)),
                "type {signature_type}, bit {bit}"
            );
            wire[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn of_another_key_or_algorithm() {
    let wire = DataBuilder::new(&key_name())
        .content(b"x")
        .build(&HmacSigner::new(&[7; 32], key_name()))
        .unwrap();
    let data = Data::decode(&wire).unwrap();
    assert_eq!(
        data.verify(&HmacVerifier::new(&[8; 32])),
        Err(VerifyError::Mismatch)
    );
    assert_eq!(
        data.verify(&DigestVerifier),
        Err(VerifyError::WrongType {
            expected: 0,
            found: 4
        })
    );
    assert_eq!(
        data.verify(&verifier_from_pem(RSA_PUBLIC).unwrap()),
        Err(VerifyError::WrongType {
            expected: 1,
            found: 4
        })
    );
    let unsigned = InterestBuilder::new(key_name())
        .application_parameters(b"x")
        .build();
    assert_eq!(
        Interest::decode(&unsigned).unwrap().verify(&DigestVerifier),
        Err(VerifyError::NotSigned)
    );
}

#[test]
fn parameters_without_their_digest() {
    let check = |wire: &[u8]| Interest::decode(wire).unwrap().check_parameters_digest();
    assert_eq!(
        check(&[5, 8, 7, 3, 8, 1, b'a', 36, 1, b'x']),
        Err(ParametersDigestError::NoDigest)
    );
    let mut name: Name = "/a".parse().unwrap();
    name.push(types::PARAMETERS_SHA256_DIGEST, &[0; 32]);
    let wire = InterestBuilder::new(&name).build();
    assert_eq!(check(&wire), Err(ParametersDigestError::NoParameters));
    // The builder puts the right digest in the place of a wrong one.
    let mut wire = InterestBuilder::new(&name)
        .application_parameters(b"x")
        .build();
    assert_eq!(check(&wire), Ok(()));
    *wire.last_mut().unwrap() = b'y';
    assert_eq!(check(&wire), Err(ParametersDigestError::Mismatch));
}

#[test]
fn components_after_the_digest_are_covered_by_nothing() {
    let wire = InterestBuilder::new(key_name())
        .sign(&DigestSigner, SignatureFreshness::default())
        .unwrap();
    let interest = Interest::decode(&wire).unwrap();
    let mut name = interest.name.to_name();
    name.push_generic(b"more");
    let mut longer = vec![5, wire[1] + 6, 7];
    longer.push(name.as_bytes().len() as u8);
    longer.extend_from_slice(name.as_bytes());
    longer.extend_from_slice(&wire[interest.name_range().end..]);
    let interest = Interest::decode(&longer).unwrap();
    assert_eq!(interest.check_parameters_digest(), Ok(()));
    assert_eq!(
        interest.verify(&DigestVerifier),
        Err(VerifyError::NotSigned)
    );
}

/// python-ndn 0.5.2, `make_data` and `make_interest`.
#[test]
fn python_ndn_makes_the_same_bytes() {
    let name: Name = "/a/v=1/seg=0".parse().unwrap();
    let end: Name = "/seg=3".parse().unwrap();
    let wire = hex(
        "06470709080161360101320100140c180100190203e81a03320103150568656c6c6f16031b01001720\
                    fd35eacdc614f227b5e515bf2ebe25fe559bfd3ea8ee662b0751f2b9ca553203",
    );
    let built = DataBuilder::new(&name)
        .content_type(types::CONTENT_BLOB)
        .freshness(Duration::from_secs(1))
        .final_block_id(end.as_name().last().unwrap())
        .content(b"hello")
        .build(&DigestSigner);
    assert_eq!(built.as_ref(), Ok(&wire));
    // `sha256sum` of the packet.
    let digest = hex("35aeb5934bcd3e822a3d40c16b30fcd372956097f4fc4cd16abd48070513d955");
    assert_eq!(Data::decode(&wire).unwrap().implicit_digest()[..], digest);

    let name: Name = "/a".parse().unwrap();
    let wire = hex(
        "06430703080161140318010015017816121b01041c0d070b08016b08034b4559080131172069e1e4edcfa6184c4344b59b9d8eedb9\
                    c43173bc262184f702e09c2bed53f11e",
    );
    let signer = HmacSigner::new(b"secret", "/k/KEY/1".parse::<Name>().unwrap());
    assert_eq!(
        DataBuilder::new(&name)
            .content_type(0)
            .content(b"x")
            .build(&signer),
        Ok(wire)
    );

    let wire = hex(
        "055b072508016102205332158d09f795b6191d25344206cef3f7d0dc627f38105aa73bd0438a28f2b10a04010203040c0203e8240170\
                    2c031b01002e20952e32a09abd9298609914aa98d158906f9da0ad4127d29e2ef2d15f80c2ba09",
    );
    let builder = InterestBuilder::new(&name)
        .nonce(0x0102_0304)
        .lifetime(Duration::from_secs(1))
        .application_parameters(b"p");
    assert_eq!(
        builder
            .sign(&DigestSigner, SignatureFreshness::default())
            .as_ref(),
        Ok(&wire)
    );

    // As its prefix registration: with a nonce and a time, and empty parameters.
    let wire = hex(
        "058c074108096c6f63616c686f737408036e6664080372696208087265676973746572022064f456de375dda0759c9b6c907c5ffe1955542b3\
                    c4cf29699d7d3dc7cf455df512000a04010203040c0203e824002c171b01002608ae88fba78ce92afd2808000001a2000d82f92e20c11c9eba\
                    ef10361cdc893b88b87e303f4112f612fb4ba5297a27dfc69e1b4037",
    );
    let interest = Interest::decode(&wire).unwrap();
    assert_eq!(
        (
            interest.check_parameters_digest(),
            interest.verify(&DigestVerifier)
        ),
        (Ok(()), Ok(()))
    );
    let info = interest.signature_info().unwrap();
    let freshness = SignatureFreshness {
        nonce: info.nonce,
        time: info.time,
        seq_num: None,
    };
    let register: Name = "/localhost/nfd/rib/register".parse().unwrap();
    let builder = InterestBuilder::new(&register)
        .must_be_fresh(true)
        .nonce(0x0102_0304)
        .lifetime(Duration::from_secs(1));
    assert_eq!(builder.sign(&DigestSigner, freshness).as_ref(), Ok(&wire));
}

/// A Data called /a without content, signed by `openssl pkeyutl -sign -rawin` (Ed25519) or
/// `openssl dgst -sha256 -sign`.
fn signed_by_openssl(signature_type: u8, signature: &str) -> Vec<u8> {
    let signature = hex(signature);
    let portion = [7, 3, 8, 1, b'a', 21, 0, 22, 3, 27, 1, signature_type];
    let mut wire = Vec::new();
    larder_packet::tlv::write_nested(&mut wire, types::DATA, 0, |out| {
        out.extend_from_slice(&portion);
        larder_packet::tlv::write_tlv(out, types::SIGNATURE_VALUE, &signature);
    });
    wire
}

#[test]
fn openssl_signs_and_we_verify() {
    let cases = [
        (
            5,
            ED25519_PUBLIC,
            "59d33c5fa7e6cf6a88392745b258aecfa605235712712c5961808dc110676f716a135c5e77c1fecc5d4888e3255d13505202a809cbb3d075712efc5ef11ad008",
        ),
        (
            3,
            P256_PUBLIC,
            "3046022100d1cfe64e58fe0a0036eed3a16350f1facfc89adffacc86e125f4281695c289720221008d4445e6e727be43e06476a934c4f9350d694b44125e58ad723affd1cc99da54",
        ),
        (
            1,
            RSA_PUBLIC,
            "aa4f4b53cf61528b79fccbb7d3e090377627e9af8e2536e44d56c98de9ae03d43fece39066f6dd4f9215424cca618b450d574264e89753ee82e6ef0c175f42173e203a4704ce998686796e7938b3f1ac3d1a89b33b8fad5a14fba40cf87712d8d2bc81883fe0e75dfc064e5c8a38eb25ac6da722ab6df1a77ffb96be5849d2bd49fc65c6f741f19747012184911a3a1f42b5a502a1becf6ca14233f75d50af4a5721935e387b47a8f42d4ee2dccf1b7a3926f1fb7c82831ccb2168631261d9c2edd5c45c3d25c87214d7b497563b7cf4b3c1cb6b93bb0ec6cea93f5e3dffd27f2f2b2b62d0e9ec8290a91146871fd90ae82bcef3816b4237cdadcb5afbb096e6",
        ),
    ];
    for (signature_type, public, signature) in cases {
        let mut wire = signed_by_openssl(signature_type, signature);
        let verifier = verifier_from_pem(public).unwrap();
        assert_eq!(
            Data::decode(&wire).unwrap().verify(&verifier),
            Ok(()),
            "type {signature_type}"
        );
        let last = wire.len() - 1;
        wire[last] ^= 1;
        assert_eq!(
            Data::decode(&wire).unwrap().verify(&verifier),
            Err(VerifyError::Mismatch),
            "type {signature_type}"
        );
    }
}

/// RFC 8032, section 7.1, test 2, and RFC 4231, section 4.3, test case 2.
#[test]
fn vectors_of_the_standards() {
    let public: [u8; 32] = hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
        .try_into()
        .unwrap();
    let signature = hex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    );
    let verifier = PublicKeyVerifier::ed25519(&public);
    assert_eq!(
        verifier.verify(types::ED25519, &[&[0x72]], &signature),
        Ok(())
    );
    assert_eq!(
        verifier.verify(types::ED25519, &[&[0x73]], &signature),
        Err(VerifyError::Mismatch)
    );

    let mac = hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    let signer = HmacSigner::new(b"Jefe", Name::root());
    assert_eq!(
        signer.sign(&[b"what do ya want ", b"for nothing?"]),
        Ok(mac)
    );
}

#[test]
fn key_files_of_the_wrong_kind_say_what_is_needed() {
    let random = SystemRandom::new();
    let signer = |pem: &str| {
        signer_from_pem(pem, key_name(), &random)
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(signer("hello"), KeyError::NotPem);
    assert_eq!(
        signer(ED25519_PUBLIC),
        KeyError::WrongLabel("PUBLIC KEY".to_owned())
    );
    assert!(
        signer(include_str!("keys/p256.sec1.pem"))
            .to_string()
            .contains("openssl pkcs8 -topk8")
    );
    let verifier = |pem: &str| verifier_from_pem(pem).map(|_| ()).unwrap_err();
    assert_eq!(
        verifier(include_str!("keys/p384.pub.pem")),
        KeyError::UnknownAlgorithm
    );
    assert_eq!(
        verifier("-----BEGIN PUBLIC KEY-----\n!!!!\n-----END PUBLIC KEY-----"),
        KeyError::Malformed
    );
    assert_eq!(
        verifier("-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----"),
        KeyError::Malformed
    );
    assert!(Ed25519Signer::from_pkcs8(b"", key_name()).is_err());
    assert!(EcdsaSigner::from_pkcs8(b"", key_name(), &random).is_err());
}

#[test]
fn a_key_with_stray_bits() {
    let spki = [&hex("302a300506032b6570032100")[..], &[9; 32]].concat();
    assert!(PublicKeyVerifier::from_spki(&spki).is_ok());
    let damaged = |at: usize, byte: u8| {
        let mut spki = spki.clone();
        spki[at] = byte;
        PublicKeyVerifier::from_spki(&spki).map(|_| ()).unwrap_err()
    };
    // Unused bits in the bit string; an OID of no algorithm; a length past the end.
    assert_eq!(damaged(11, 1), KeyError::Malformed);
    assert_eq!(damaged(8, 0x71), KeyError::UnknownAlgorithm);
    assert_eq!(damaged(1, 0x2b), KeyError::Malformed);
    assert_eq!(
        PublicKeyVerifier::from_spki(&[&spki[..], &[0]].concat()).map(|_| ()),
        Err(KeyError::Malformed)
    );
}

#[test]
fn a_signer_that_fails_leaves_the_buffer_as_it_was() {
    struct Broken;
    impl Signer for Broken {
        fn signature_type(&self) -> u64 {
            3
        }
        fn key_locator(&self) -> Option<larder_packet::NameRef<'_>> {
            None
        }
        fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, larder_packet::SignError> {
            Err(larder_packet::SignError)
        }
    }
    let mut out = vec![1, 2, 3];
    assert!(
        DataBuilder::new(&key_name())
            .build_into(&Broken, &mut out)
            .is_err()
    );
    assert_eq!(out, [1, 2, 3]);
}
