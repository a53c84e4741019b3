//! Names of objects and of their Data.

use larder_packet::{Component, Name, NameRef, types};
use larder_transfer::METADATA_KEYWORD;

/// The keyword of questions.
pub const QUESTION: &[u8] = b"http";

/// The target of an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// `PREFIX/AUTHORITY/PATH…`.
    pub name: Name,
    /// Host, and port if it is not the scheme's default.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

/// The kind of Data that an Interest asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The response to the request in the Interest's parameters.
    Response,
    /// The version of the response to a plain GET.
    Metadata,
    /// Bytes of a body.
    Segment {
        /// The version of the body.
        version: u64,
        /// The number of the segment.
        segment: u64,
    },
}

impl Object {
    /// Returns the object of a request under this prefix; `None` if its target is no path
    /// (`OPTIONS *`).
    pub fn new(prefix: NameRef<'_>, authority: &str, target: &str) -> Option<Object> {
        let mut name = prefix.to_name();
        name.push_generic(authority.as_bytes());
        // The query belongs to the last part, with its slashes: it is no path.
        let (path, query) = target
            .split_once('?')
            .map_or((target, None), |(path, query)| (path, Some(query)));
        let mut parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            _ = name.push_generic(part.as_bytes());
        }
        match query {
            Some(query) => name.push_generic([last, "?", query].concat().as_bytes()),
            None => name.push_generic(last.as_bytes()),
        };
        Some(Object {
            name,
            authority: authority.to_owned(),
            target: target.to_owned(),
        })
    }

    /// Returns the name of a question about it, without the digest.
    pub fn question(&self) -> Name {
        let mut name = self.name.clone();
        name.push_keyword(QUESTION);
        name
    }

    /// Returns the name of the segments of a version.
    pub fn versioned(&self, version: u64) -> Name {
        let mut name = self.name.clone();
        name.push_version(version);
        name
    }
}

/// Returns object and kind of an Interest under `prefix`; `None` for an unknown name.
pub fn read(prefix: NameRef<'_>, name: NameRef<'_>) -> Option<(Object, Subject)> {
    if !name.starts_with(prefix) {
        return None;
    }
    let mut components: Vec<Component<'_>> =
        name.components().skip(prefix.component_count()).collect();
    let subject = match components.as_slice() {
        [.., keyword, digest]
            if keyword.is_keyword(QUESTION) && digest.typ == types::PARAMETERS_SHA256_DIGEST =>
        {
            Subject::Response
        }
        [.., version, segment] if version.typ == types::VERSION => Subject::Segment {
            version: version.as_version()?,
            segment: segment.as_segment()?,
        },
        [.., keyword] if keyword.is_keyword(METADATA_KEYWORD) => Subject::Metadata,
        _ => return None,
    };
    components.truncate(components.len() - if subject == Subject::Metadata { 1 } else { 2 });
    let plain = |component: &Component<'_>| component.typ == types::GENERIC_NAME_COMPONENT;
    let (authority, parts) = components
        .split_first()
        .filter(|_| components.iter().all(plain))?;
    let text =
        |component: &Component<'_>| std::str::from_utf8(component.value).ok().map(str::to_owned);
    let authority = text(authority)?;
    let path: Option<Vec<String>> = parts.iter().map(text).collect();
    let target = format!("/{}", path?.join("/"));
    let mut name = prefix.to_name();
    for component in components {
        _ = name.push_component(component);
    }
    Some((
        Object {
            name,
            authority,
            target,
        },
        subject,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix() -> Name {
        "/far".parse().unwrap()
    }

    #[test]
    fn a_page_has_the_name_that_one_would_guess() {
        let name = |target| {
            Object::new(prefix().as_name(), "example.com:81", target)
                .unwrap()
                .name
                .to_string()
        };
        assert_eq!(name("/img/a.png"), "/far/example.com%3A81/img/a.png");
        assert_eq!(
            name("/a/search?q=x/y?z"),
            "/far/example.com%3A81/a/search%3Fq%3Dx%2Fy%3Fz"
        );
        assert_eq!(name("/a//"), "/far/example.com%3A81/a/.../...");
        assert_eq!(Object::new(prefix().as_name(), "a", "*"), None);
        let of = |name: &str| read(prefix().as_name(), name.parse::<Name>().unwrap().as_name());
        assert_eq!(of("/far/a/32=metadata").unwrap().0.target, "/");
        assert_eq!(
            of("/far/a/b/v=7/seg=3").unwrap().1,
            Subject::Segment {
                version: 7,
                segment: 3
            }
        );
        for foreign in [
            "/other/a/32=metadata",
            "/far",
            "/far/32=metadata",
            "/far/a/b",
            "/far/a/v=1",
            "/far/a/32=b/v=1/seg=0",
        ] {
            assert_eq!(of(foreign), None, "{foreign}");
        }
    }

    proptest! {
        /// Failure: the egress reads a name as another page than the ingress meant.
        #[test]
        fn what_the_edge_means_is_what_the_far_node_reads(target in "/[a-z/?.%=]{0,30}", version: u64, segment: u64) {
            let object = Object::new(prefix().as_name(), "example.com", &target).unwrap();
            let mut name = object.versioned(version);
            name.push_segment(segment);
            prop_assert_eq!(read(prefix().as_name(), name.as_name()), Some((object.clone(), Subject::Segment { version, segment })));
            let mut name = object.question();
            name.push(types::PARAMETERS_SHA256_DIGEST, &[7; 32]);
            prop_assert_eq!(read(prefix().as_name(), name.as_name()), Some((object, Subject::Response)));
        }
    }
}
