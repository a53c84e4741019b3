//! The first line of a table, which names its columns.

use super::column_names::{ColumnPlaces, place_of, plain, usual_plain};
use super::layout::{Layout, Operations};
use crate::trace::error::shown;
use crate::trace::fields::{Fields, Separator};
use crate::trace::times::TimeUnit;

/// The objects that are places on a disk; the disk is a part of their name.
const PLACES: &[&str] = &["lba", "lbn", "block", "block_id", "sector", "offset"];
const VOLUMES: &[&str] = &[
    "volume",
    "volume_id",
    "device",
    "device_id",
    "lun",
    "disk",
    "disk_number",
    "disknumber",
    "hostname",
];
const OPERATIONS: &[&str] = &[
    "op",
    "operation",
    "op_type",
    "optype",
    "opcode",
    "iotype",
    "io_type",
    "rw",
];

/// The names that a first line has.
pub(super) struct Header<'a> {
    pub separator: Separator,
    names: Vec<&'a [u8]>,
    /// The names in lower case, without brackets, and with `_` for blanks.
    plain: Vec<String>,
}

impl<'a> Header<'a> {
    /// Returns the names of a line, perhaps after a `#`.
    pub fn of(line: &'a [u8]) -> Header<'a> {
        let line = line.strip_prefix(b"#").unwrap_or(line);
        let separator = Separator::of(line);
        let names = match separator {
            // A comma within brackets separates no names.
            Separator::Byte(byte) => outside_brackets(line, byte),
            Separator::Blanks => Fields::of(line, separator).collect(),
        };
        let names: Vec<&[u8]> = names
            .into_iter()
            .map(|name| {
                let inner = name
                    .strip_prefix(b"\"")
                    .and_then(|name| name.strip_suffix(b"\""));
                inner.unwrap_or(name)
            })
            .collect();
        let plain = names.iter().map(|name| plain(name)).collect();
        Header {
            separator,
            names,
            plain,
        }
    }

    /// Returns the names as they are written.
    pub fn names(&self) -> Vec<&'a [u8]> {
        self.names.clone()
    }

    /// Returns true if a column has this plain name.
    pub fn has(&self, name: &str) -> bool {
        self.plain.iter().any(|plain| plain == name)
    }

    /// Returns the places of time, object and size by their usual names.
    pub fn usual(&self) -> [Option<usize>; 3] {
        usual_plain(&self.plain)
    }

    /// Adds what other columns and the words in the names say.
    pub fn add_to(&self, layout: &mut Layout) {
        if let Some(name) = layout.time.and_then(|time| self.names.get(time)) {
            layout.unit = layout.unit.or_else(|| TimeUnit::of_name(name));
        }
        let is_place = layout.object.iter().any(|object| {
            self.plain
                .get(*object)
                .is_some_and(|name| PLACES.contains(&name.as_str()))
        });
        if is_place && let Some(volume) = place_of(VOLUMES, &self.plain) {
            layout.object.insert(0, volume);
        }
        if let Some(size) = layout.size.and_then(|size| self.names.get(size))
            && contains_word(size, b"sector")
        {
            layout.size_unit = 512;
        }
        layout.operation = place_of(OPERATIONS, &self.plain)
            .map(|place| (place, operations_of(self.names[place])));
        layout.key_size = place_of(&["key_size"], &self.plain);
        layout.count = place_of(&["op_count"], &self.plain);
    }

    /// Describes the columns at these places.
    pub fn described(&self, places: ColumnPlaces) -> String {
        let name = |place: usize| {
            let name = self.names.get(place).map(|name| shown(name));
            name.map_or_else(
                || format!("column {}", place + 1),
                |name| format!("`{name}`"),
            )
        };
        let time = places.time.map_or("no time".to_owned(), |time| {
            format!("time from {}", name(time))
        });
        let size = places.size.map_or("no size".to_owned(), |size| {
            format!("size from {}", name(size))
        });
        format!("{time}, object from {}, {size}", name(places.object))
    }
}

/// Splits a line at a separator that is in no brackets.
fn outside_brackets(line: &[u8], separator: u8) -> Vec<&[u8]> {
    let (mut depth, mut start, mut parts) = (0_u32, 0, Vec::new());
    for (at, byte) in line.iter().enumerate() {
        match byte {
            b'[' | b'(' | b'{' => depth += 1,
            b']' | b')' | b'}' => depth = depth.saturating_sub(1),
            byte if *byte == separator && depth == 0 => {
                parts.push(line[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(line[start..].trim_ascii());
    parts
}

fn contains_word(text: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(&text.to_ascii_lowercase(), word).is_some()
}

/// Returns which operations are reads: the codes that a legend gives, as `[Put:0, Get:1]`.
fn operations_of(name: &[u8]) -> Operations {
    let text = String::from_utf8_lossy(name);
    let legend = text.split(['[', '(']).nth(1).unwrap_or_default();
    let codes: Vec<String> = legend
        .split([',', ']', ')'])
        .filter_map(|pair| pair.split_once([':', '=']))
        .filter(|(name, _)| Operations::Names.is_read(name.trim().as_bytes()))
        .map(|(_, code)| code.trim().to_owned())
        .collect();
    if codes.is_empty() {
        Operations::Names
    } else {
        Operations::Codes(codes)
    }
}
