//! Failure: a file changes while it is served, and a consumer gets parts of both versions.

use larder_packet::{DigestSigner, Interest, InterestBuilder, Name};
use larder_transfer::{PublishError, PublishOptions, Publisher, Source, Stamp};
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// A file that another program writes to.
struct Shared {
    stamp: Rc<Cell<Stamp>>,
    /// Whether the write happens between the read and the inspection of the stamp.
    written_at_read: Rc<Cell<bool>>,
}

impl Source for Shared {
    fn stamp(&mut self) -> io::Result<Stamp> {
        Ok(self.stamp.get())
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut stamp = self.stamp.get();
        if self.written_at_read.get() {
            stamp.modified_ns += 1;
            self.stamp.set(stamp);
        }
        if offset + buffer.len() as u64 > stamp.size_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.fill(stamp.modified_ns as u8);
        Ok(())
    }
}

fn ask(publisher: &mut Publisher<Shared>, name: &str) -> Result<usize, PublishError> {
    let wire = InterestBuilder::new(name.parse::<Name>().unwrap()).build();
    let mut out = Vec::new();
    let result = publisher.on_interest(&Interest::decode(&wire).unwrap(), &mut out);
    assert!(
        result.is_ok() || out.is_empty(),
        "an error must leave nothing to send"
    );
    result.map(|_| out.len())
}

fn shared() -> (Rc<Cell<Stamp>>, Rc<Cell<bool>>, Publisher<Shared>) {
    let stamp = Rc::new(Cell::new(Stamp {
        size_bytes: 1000,
        modified_ns: 5,
    }));
    let written_at_read = Rc::new(Cell::new(false));
    let source = Shared {
        stamp: stamp.clone(),
        written_at_read: written_at_read.clone(),
    };
    let options = PublishOptions {
        segment_bytes: 100,
        ..PublishOptions::default()
    };
    let publisher = Publisher::new(
        "/f".parse().unwrap(),
        1,
        source,
        Box::new(DigestSigner),
        options,
    )
    .unwrap();
    (stamp, written_at_read, publisher)
}

#[test]
fn a_file_written_between_two_segments_is_not_served_on() {
    let (stamp, _, mut publisher) = shared();
    assert!(ask(&mut publisher, "/f/v=1/seg=0").unwrap() > 100);
    let before = stamp.get();
    stamp.set(Stamp {
        modified_ns: 6,
        ..before
    });
    assert!(matches!(
        ask(&mut publisher, "/f/v=1/seg=1"),
        Err(PublishError::Changed)
    ));
    // A stamp that is set back does not help, because the bytes read in between may be anything.
    stamp.set(before);
    assert!(matches!(
        ask(&mut publisher, "/f/v=1/seg=1"),
        Err(PublishError::Changed)
    ));
}

#[test]
fn a_file_written_during_a_read_is_noticed() {
    let (_, written_at_read, mut publisher) = shared();
    written_at_read.set(true);
    assert!(matches!(
        ask(&mut publisher, "/f/v=1/seg=0"),
        Err(PublishError::Changed)
    ));
}

#[test]
fn a_file_cut_short_is_called_changed_not_unreadable() {
    let (stamp, _, mut publisher) = shared();
    stamp.set(Stamp {
        size_bytes: 500,
        modified_ns: 6,
    });
    assert!(matches!(
        ask(&mut publisher, "/f/v=1/seg=7"),
        Err(PublishError::Changed)
    ));
}

#[test]
fn what_was_read_ahead_is_all_of_the_old_file() {
    let (stamp, _, mut publisher) = shared();
    assert!(ask(&mut publisher, "/f/v=1/seg=0").is_ok());
    assert!(ask(&mut publisher, "/f/v=1/seg=1").is_ok());
    stamp.set(Stamp {
        modified_ns: 6,
        ..stamp.get()
    });
    let mut answered = 0;
    for segment in 2..10 {
        let wire =
            InterestBuilder::new(format!("/f/v=1/seg={segment}").parse::<Name>().unwrap()).build();
        let mut out = Vec::new();
        match publisher.on_interest(&Interest::decode(&wire).unwrap(), &mut out) {
            Ok(_) => assert_eq!(larder_packet::Data::decode(&out).unwrap().content, [5; 100]),
            Err(error) => {
                assert!(matches!(error, PublishError::Changed) && segment == 2 + answered);
                break;
            }
        }
        answered += 1;
    }
    assert_eq!(
        answered,
        larder_transfer::limits::READ_AHEAD_SEGMENTS - 1,
        "then the file is looked at"
    );
    assert!(matches!(
        ask(&mut publisher, "/f/v=1/seg=3"),
        Err(PublishError::Changed)
    ));
}

#[test]
fn a_segment_that_is_asked_for_again_is_looked_at_again() {
    let (stamp, _, mut publisher) = shared();
    for segment in 0..3 {
        assert!(ask(&mut publisher, &format!("/f/v=1/seg={segment}")).is_ok());
    }
    stamp.set(Stamp {
        modified_ns: 6,
        ..stamp.get()
    });
    assert!(matches!(
        ask(&mut publisher, "/f/v=1/seg=2"),
        Err(PublishError::Changed)
    ));
}
