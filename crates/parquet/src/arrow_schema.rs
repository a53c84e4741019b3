//! Types that Parquet lacks: Arrow's libraries store them in the file's metadata.
//!
//! pyarrow and Polars write a column of durations as plain integers. The key `ARROW:schema` has
//! their unit: an Arrow schema as an encapsulated message (Arrow Columnar Format, "Encapsulated
//! message format"), in Base64 (RFC 4648). The message is a FlatBuffer; its tables are those of
//! `Message.fbs` and `Schema.fbs`. Only what leads to durations is read, and damage is no error:
//! the columns are then what Parquet says.

use std::collections::HashMap;

/// The key of the metadata.
pub const KEY: &str = "ARROW:schema";

/// The places of fields in their tables, and the numbers of types in their unions.
const MESSAGE_HEADER_TYPE: usize = 1;
const MESSAGE_HEADER: usize = 2;
const HEADER_IS_SCHEMA: u8 = 1;
const SCHEMA_FIELDS: usize = 1;
const FIELD_NAME: usize = 0;
const FIELD_TYPE_TYPE: usize = 2;
const FIELD_TYPE: usize = 3;
const TYPE_IS_DURATION: u8 = 18;
const DURATION_UNIT: usize = 0;
/// Nanoseconds of seconds, milliseconds, microseconds and nanoseconds.
const UNITS: [u64; 4] = [1_000_000_000, 1_000_000, 1_000, 1];
/// A duration without a unit has milliseconds.
const DEFAULT_UNIT: u16 = 1;

/// Returns the units of the columns of durations, in nanoseconds, by their names.
pub fn durations(schema: &str) -> HashMap<String, u64> {
    let Some(message) = decode(schema) else {
        return HashMap::new();
    };
    fields(&message)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|field| duration(field))
        .collect()
}

/// Returns the fields of the schema in an encapsulated message.
fn fields(message: &[u8]) -> Option<Vec<Table<'_>>> {
    // The mark and the length. Early versions of Arrow wrote no mark.
    let start = if number::<4>(message, 0)? == [0xff; 4] {
        8
    } else {
        4
    };
    let buffer = message.get(start..)?;
    let message = Table {
        buffer,
        at: follow(buffer, 0)?,
    };
    if message.byte(MESSAGE_HEADER_TYPE)? != HEADER_IS_SCHEMA {
        return None;
    }
    let vector = follow(buffer, message.table(MESSAGE_HEADER)?.place(SCHEMA_FIELDS)?)?;
    let count = u32::from_le_bytes(number(buffer, vector)?) as usize;
    let places = (0..count).map(|nth| vector.checked_add(4)?.checked_add(nth.checked_mul(4)?));
    // A count that is wrong ends at the buffer's end.
    Some(
        places
            .map_while(|place| {
                Some(Table {
                    buffer,
                    at: follow(buffer, place?)?,
                })
            })
            .collect(),
    )
}

/// Returns the name and the unit of a field, if it has durations.
fn duration(field: Table<'_>) -> Option<(String, u64)> {
    if field.byte(FIELD_TYPE_TYPE)? != TYPE_IS_DURATION {
        return None;
    }
    let name = follow(field.buffer, field.place(FIELD_NAME)?)?;
    let length = u32::from_le_bytes(number(field.buffer, name)?) as usize;
    let name = field.buffer.get(name + 4..)?.get(..length)?;
    let kind = field.table(FIELD_TYPE)?;
    let unit = match kind.place(DURATION_UNIT) {
        Some(place) => u16::from_le_bytes(number(kind.buffer, place)?),
        None => DEFAULT_UNIT,
    };
    Some((
        String::from_utf8(name.to_vec()).ok()?,
        *UNITS.get(usize::from(unit))?,
    ))
}

/// A table of a FlatBuffer.
#[derive(Clone, Copy)]
struct Table<'a> {
    buffer: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    /// Returns the place of a field, or `None` if it has its default.
    fn place(self, field: usize) -> Option<usize> {
        let back = i32::from_le_bytes(number(self.buffer, self.at)?);
        let fields = self.at.checked_add_signed(-isize::try_from(back).ok()?)?;
        let length = usize::from(u16::from_le_bytes(number(self.buffer, fields)?));
        // The lengths of the list and of the table come first.
        let entry = 4 + 2 * field;
        let offset = if entry + 2 <= length {
            u16::from_le_bytes(number(self.buffer, fields + entry)?)
        } else {
            0
        };
        if offset == 0 {
            None
        } else {
            self.at.checked_add(offset.into())
        }
    }

    fn byte(self, field: usize) -> Option<u8> {
        self.buffer.get(self.place(field)?).copied()
    }

    fn table(self, field: usize) -> Option<Table<'a>> {
        Some(Table {
            at: follow(self.buffer, self.place(field)?)?,
            ..self
        })
    }
}

/// Returns the place to which the offset at `place` leads.
fn follow(buffer: &[u8], place: usize) -> Option<usize> {
    place.checked_add(u32::from_le_bytes(number(buffer, place)?) as usize)
}

/// Returns the bytes of a number.
fn number<const N: usize>(buffer: &[u8], place: usize) -> Option<[u8; N]> {
    buffer.get(place..)?.first_chunk().copied()
}

/// Decodes Base64.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff).to_le_bytes()[0]);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by pyarrow 26 for `a: duration[s], b: int64, c: duration[ms], d: duration[us], é:
    /// duration[ns]`.
    const SCHEMA: &str = include_str!("../tests/data/durations.base64");

    #[test]
    fn units_are_read_wrong() {
        let expected = [
            ("a", 1_000_000_000),
            ("c", 1_000_000),
            ("d", 1_000),
            ("é", 1),
        ];
        let expected = expected.map(|(name, nanos)| (name.to_owned(), nanos));
        assert_eq!(durations(SCHEMA.trim()), HashMap::from(expected));
    }

    #[test]
    fn damage_is_a_panic() {
        let whole = SCHEMA.trim();
        for end in 0..whole.len() {
            durations(&whole[..end]);
        }
        for place in 0..whole.len() {
            for digit in ['A', '/', 'w', '?'] {
                let mut damaged = whole.to_owned();
                damaged.replace_range(place..=place, &digit.to_string());
                assert!(durations(&damaged).len() <= 5);
            }
        }
    }
}
