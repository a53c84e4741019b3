//! What a node of a fleet hears: a list of messages, each of a line with its subject, a line with
//! its header, and a line with its payload.
//!
//! What is read as a purge or a note is written and read again as the same. No other fleet's
//! message is read. An entry that is no purge, beat or barrier is unreadable. A node that hears
//! anything keeps its bounds: it is in its list, no client waits beyond the time, and it asks and
//! answers at most ten times a second.
#![no_main]

use larder_fleet::limits::{MEMBERS, NOTE_INTERVAL, WAIT};
use larder_fleet::{Action, Body, Id, LogEntry, Members, Message, Note, Outbox, Waits, Word};
use larder_units::Time;
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

const FLEET: &str = "cdn";

fn check_entry(subject: &str, header: Option<&str>, payload: &[u8]) {
    let entry = LogEntry::decode(FLEET, subject, 7, header, payload);
    assert!(entry.id.len() <= 128 && !entry.id.is_empty());
    let other = LogEntry::decode("cd", subject, 7, header, payload);
    assert!(subject.starts_with("larder.cd.") || other.body == Body::Unreadable);
    match (&entry.body, Message::decode(payload)) {
        (Body::Purge(message), Ok(read)) => {
            assert_eq!(**message, read);
            // Escapes may be longer than what they stand for.
            if let Ok(text) = message.encode() {
                assert_eq!(Message::decode(&text).as_ref(), Ok(&read));
            }
        }
        (Body::Purge(_), Err(error)) => panic!("{error}"),
        (Body::Beat { node }, _) => assert_eq!(subject, format!("larder.{FLEET}.beat.{node}")),
        (Body::Barrier, _) => assert_eq!(subject, "larder.cdn.barrier"),
        (Body::Unreadable, _) => {}
    }
}

fn check_note(subject: &str, header: Option<&str>, payload: &[u8]) -> Option<Note> {
    let note = Note::decode(FLEET, subject, header, payload)?;
    assert_eq!(note.subject(FLEET), subject);
    let header = (note.word == Word::Left).then_some("DEL");
    let again = Note::decode(FLEET, subject, header, &note.payload());
    assert_eq!(again.as_ref(), Some(&note));
    assert_eq!(Note::decode("cd", subject, header, payload), None);
    Some(note)
}

struct Node {
    members: Members,
    waits: Waits,
    waiting: Vec<(larder_fleet::WaitKey, Time)>,
    said: [Option<Time>; 2],
}

impl Node {
    fn hear(&mut self, now: Time, note: Note) {
        self.members.on_note(now, &note);
        if let Word::Wait(position) = &note.word {
            let key = self.waits.wait(now, position.clone());
            self.waiting.push((key, now));
        }
        self.waits.on_note(now, note, &self.members);
        self.advance(now);
    }

    fn advance(&mut self, now: Time) {
        let mut out = Outbox::new();
        self.members.on_timeout(now, &mut out);
        let id: Id = "b".into();
        let id_of = |sequence| (sequence <= 5).then_some(&id);
        self.waits.on_timeout(now, &self.members, id_of, &mut out);
        for action in out.drain() {
            match action {
                Action::Say(note) => {
                    let kind = match note.word {
                        Word::Wait(_) => 0,
                        Word::Applied { .. } => 1,
                        _ => continue,
                    };
                    let last = self.said[kind].replace(now);
                    let pause = last.map_or(NOTE_INTERVAL, |last| now.since(last));
                    // An answer may have several notes.
                    assert!(pause >= NOTE_INTERVAL || kind == 1 && pause.is_zero());
                }
                Action::Waited { key, waited } => {
                    self.waiting.retain(|(waiting, _)| *waiting != key);
                    assert!(waited.members.is_none_or(|members| waited.applied <= members));
                }
                Action::ReadLeases => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(self.waiting.iter().all(|(_, since)| now < *since + WAIT));
        assert!(self.members.live().any(|name| name == "n1"));
        assert!(self.members.count() <= MEMBERS + 1 && self.members.lost().count() <= MEMBERS);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (mut now, mut out) = (Time::from_secs(1), Outbox::new());
    let mut node = Node {
        members: Members::new("n1", None),
        waits: Waits::new("n1"),
        waiting: Vec::new(),
        said: [None; 2],
    };
    node.members.on_connected(now, &mut out);
    node.waits.set_position(Some(("a", 5)));
    let mut lines = bytes.split(|byte| *byte == b'\n');
    while let (Some(subject), Some(header), Some(payload)) =
        (lines.next(), lines.next(), lines.next())
    {
        let Ok(subject) = str::from_utf8(subject) else {
            return;
        };
        let header = str::from_utf8(header).ok().filter(|text| !text.is_empty());
        check_entry(subject, header, payload);
        if let Some(note) = check_note(subject, header, payload) {
            node.hear(now, note);
        }
        // The length of the payload is chance enough.
        now += Duration::from_millis(payload.len() as u64 * 10);
        node.advance(now);
    }
});
