//! Answers Interests for certificates, so that others can validate what their keys have signed.

use crate::certificate::{Certificate, CertificateError};
use crate::data::Data;
use crate::interest::Interest;
use crate::name::{Name, NameRef};

/// Certificates as packets, each found by its own name and by the name of its key.
#[derive(Default)]
pub struct CertificateServer {
    served: Vec<Served>,
}

struct Served {
    name: Name,
    wire: Vec<u8>,
    digest: [u8; 32],
}

impl CertificateServer {
    /// Serves the certificates in these Data packets.
    ///
    /// # Errors
    /// [`CertificateError`] if one of them is not a certificate.
    pub fn new(wires: Vec<Vec<u8>>) -> Result<Self, CertificateError> {
        let mut served = Vec::new();
        for wire in wires {
            let name = Certificate::decode(&wire)?.name().clone();
            let digest = Data::decode(&wire)
                .map_err(CertificateError::Packet)?
                .implicit_digest();
            served.push(Served { name, wire, digest });
        }
        Ok(CertificateServer { served })
    }

    /// Returns the names of the keys. The host must register them, so that Interests for them
    /// arrive.
    pub fn key_names(&self) -> impl Iterator<Item = NameRef<'_>> {
        self.served.iter().map(Served::key_name)
    }

    /// Returns the certificate that answers an Interest. The Interest has the name of the
    /// certificate, or the name of its key with CanBePrefix, as validators send it.
    pub fn answer(&self, interest: &Interest<'_>) -> Option<&[u8]> {
        let (name, digest) = interest.name.strip_implicit_digest();
        let answers = |served: &&Served| match digest {
            Some(digest) => name == served.name.as_name() && digest == served.digest,
            None => {
                let is_within =
                    name.starts_with(served.key_name()) && served.name.as_name().starts_with(name);
                name == served.name.as_name() || (interest.can_be_prefix && is_within)
            }
        };
        self.served
            .iter()
            .find(answers)
            .map(|served| &served.wire[..])
    }
}

impl Served {
    /// Returns the certificate's name without issuer and version.
    fn key_name(&self) -> NameRef<'_> {
        self.name.as_name().without_last().without_last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interest::InterestBuilder;
    use crate::self_signed::{CERTIFICATE_FRESHNESS, self_signed};
    use crate::types;
    use ring::rand::SystemRandom;

    #[test]
    fn a_certificate_answers_other_names_than_its_own() {
        let pem = include_str!("../tests/keys/ed25519.pem");
        let wires: Vec<_> = ["/a/KEY/1", "/b/KEY/1"]
            .map(|key| {
                self_signed(
                    pem,
                    &key.parse().unwrap(),
                    1,
                    CERTIFICATE_FRESHNESS,
                    &SystemRandom::new(),
                )
                .unwrap()
            })
            .into();
        let digest = Data::decode(&wires[1]).unwrap().implicit_digest();
        let server = CertificateServer::new(wires).unwrap();
        let answer = |name: &Name, can_be_prefix: bool| {
            let wire = InterestBuilder::new(name)
                .can_be_prefix(can_be_prefix)
                .build();
            let answer = server.answer(&Interest::decode(&wire).unwrap());
            answer.map(|wire| Data::decode(wire).unwrap().name.to_string())
        };
        for (name, can_be_prefix, expected) in [
            ("/a/KEY/1", true, Some("/a/KEY/1/self/v=1000")),
            ("/b/KEY/1/self", true, Some("/b/KEY/1/self/v=1000")),
            ("/b/KEY/1/self/v=1000", false, Some("/b/KEY/1/self/v=1000")),
            ("/b/KEY/1/self/v=1000", true, Some("/b/KEY/1/self/v=1000")),
            ("/a/KEY/1", false, None),
            ("/a/KEY", true, None),
            ("/a", true, None),
            ("/a/KEY/1/self/v=1001", false, None),
            ("/a/KEY/1/self/v=1000/x", true, None),
            ("/c/KEY/1", true, None),
        ] {
            assert_eq!(
                answer(&name.parse().unwrap(), can_be_prefix).as_deref(),
                expected,
                "{name} {can_be_prefix}"
            );
        }
        for (name, is_found) in [
            ("/b/KEY/1/self/v=1000", true),
            ("/a/KEY/1/self/v=1000", false),
        ] {
            let mut name: Name = name.parse().unwrap();
            name.push(types::IMPLICIT_SHA256_DIGEST, &digest);
            assert_eq!(answer(&name, false).is_some(), is_found, "{name}");
        }
        assert!(CertificateServer::new(vec![vec![6, 0]]).is_err());
    }
}
