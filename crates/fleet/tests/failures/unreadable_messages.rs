//! Failure: a message that cannot be read stops a node, or passes as a purge of nothing.

use larder_fleet::{Body, LogEntry, Message, MessageError, Publication, limits};
use proptest::prelude::*;
use std::sync::Arc;

fn message() -> impl Strategy<Value = Message> {
    let items = || prop::collection::vec(".{0,40}", 0..20);
    let flags = (any::<bool>(), any::<bool>());
    ("[!-~]{1,128}", ".{0,20}", items(), items(), items(), flags).prop_map(
        |(id, from, urls, prefixes, tags, (soft, everything))| {
            let mut message = Message::new(id.into(), &from);
            (message.soft, message.everything) = (soft, everything);
            (message.urls, message.prefixes, message.tags) = (urls, prefixes, tags);
            message
        },
    )
}

proptest! {
    /// Failure: a node panics over bytes of the network.
    #[test]
    fn arbitrary_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), subject in ".{0,30}") {
        let _ = Message::decode(&bytes);
        let entry = LogEntry::decode("f", "larder.f.purge", 1, None, &bytes);
        prop_assert!(!entry.id.is_empty());
        LogEntry::decode("f", &subject, 1, Some(&subject), &bytes);
    }

    /// Failure: a damaged message panics.
    #[test]
    fn damaged_messages_panic(message in message(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = message.encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Message::decode(&bytes);
        let _ = Message::decode(&bytes[..at]);
    }

    /// Failure: a purge is not the same at its readers.
    #[test]
    fn a_purge_changes_on_its_way(message in message()) {
        let bytes = message.encode().unwrap();
        prop_assert_eq!(&Message::decode(&bytes).unwrap(), &message);
        let body = Body::Purge(Arc::new(message.clone()));
        let publication = Publication { id: message.id.clone(), body };
        let (subject, payload) = (publication.subject("f-1"), publication.payload().unwrap());
        let entry = LogEntry::decode("f-1", &subject, 7, Some(&publication.id), &payload);
        prop_assert_eq!(entry.body, publication.body.clone());
        // Other publishers may leave the header out.
        let entry = LogEntry::decode("f-1", &subject, 7, None, &payload);
        prop_assert_eq!(entry.id, publication.id);
    }
}

/// Failure: a message of a later version purges nothing.
#[test]
fn a_later_version_purges_nothing() {
    let body = |payload: &str| {
        LogEntry::decode("f", "larder.f.purge", 1, Some("a"), payload.as_bytes()).body
    };
    for unreadable in [
        r#"{"v":2,"id":"a","regex":["x"]}"#,
        r#"{"id":"a","urls":["x"]}"#,
        r#"{"v":1,"urls":["x"]}"#,
        r#"{"v":1,"id":"","urls":["x"]}"#,
        r#"{"v":1,"id":"a","urls":"x"}"#,
        "",
    ] {
        assert_eq!(body(unreadable), Body::Unreadable, "{unreadable}");
    }
    // Fields of later versions that readers may ignore do not change the version.
    let Body::Purge(message) = body(r#"{"v":1,"id":"a","tags":["x"],"note":{"by":"me"}}"#) else {
        panic!("it has fields that are not known");
    };
    assert_eq!(message.tags, ["x"]);
    for (subject, expected) in [
        ("larder.f.barrier", Body::Barrier),
        (
            "larder.f.beat.fra-1",
            Body::Beat {
                node: "fra-1".to_owned(),
            },
        ),
        ("larder.f.beat.a.b", Body::Unreadable),
        ("larder.f.beat.", Body::Unreadable),
        ("larder.f.other", Body::Unreadable),
        ("larder.g.barrier", Body::Unreadable),
        ("larder.ff.barrier", Body::Unreadable),
    ] {
        assert_eq!(
            LogEntry::decode("f", subject, 1, Some("a"), b"").body,
            expected,
            "{subject}"
        );
    }
}

/// Failure: a message beyond the bounds is published, or read.
#[test]
fn a_message_without_bounds() {
    let mut message = Message::new("a".into(), "fra-1");
    message.urls = vec!["x".to_owned(); limits::ITEMS];
    assert!(message.encode().is_ok());
    message.tags = vec!["x".to_owned()];
    assert_eq!(message.encode(), Err(MessageError::Items(257)));
    message.urls = vec!["x".repeat(limits::MESSAGE_BYTES)];
    assert!(matches!(message.encode(), Err(MessageError::Bytes(_))));
    let items = r#""x","#.repeat(limits::ITEMS);
    let many = format!(r#"{{"v":1,"id":"a","urls":[{items}"x"]}}"#);
    assert_eq!(
        Message::decode(many.as_bytes()),
        Err(MessageError::Items(257))
    );
    let long = format!(r#"{{"v":1,"id":"{}"}}"#, "a".repeat(limits::ID_BYTES + 1));
    assert_eq!(Message::decode(long.as_bytes()), Err(MessageError::Id));
}
