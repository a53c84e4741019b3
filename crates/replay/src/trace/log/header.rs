//! Logs whose columns a line names: `#Fields:` of the W3C's extended log file format (IIS,
//! CloudFront), or the first line of a table.

use super::json::could_be_request;
use super::names::{ROLES, Role, SHOWN, assign, normal};
use super::record::Record;
use crate::trace::fields::{Fields, Separator, unquoted};

/// The columns of a log.
#[derive(Clone, Debug)]
pub(super) struct Header {
    separator: Option<Separator>,
    /// The role of each column.
    roles: Vec<Option<Role>>,
    /// The names, for people.
    pub names: Vec<(Role, String)>,
    /// True for a table of the Internet Traffic Archive.
    pub is_of_archive: bool,
    /// The line that names the columns.
    line: Vec<u8>,
}

impl Header {
    /// Returns the columns that a line names; `None` if it names none of a request.
    pub fn of(line: &[u8]) -> Option<Header> {
        let named = line.strip_prefix(b"#Fields:");
        let text = named.or_else(|| line.strip_prefix(b"#")).unwrap_or(line);
        let separator = Separator::of(text.trim_ascii());
        let names: Vec<String> = Fields::of(text.trim_ascii(), separator)
            .map(|field| normal(&String::from_utf8_lossy(&unquoted(field))))
            .collect();
        let places = assign(&names);
        // The lines of the W3C's format have tabs or blanks, whichever its header has.
        let separator = if named.is_some() {
            None
        } else {
            Some(separator)
        };
        could_be_request(&places).then(|| Header {
            line: line.to_owned(),
            ..Header::with(separator, names, &places)
        })
    }

    fn with(
        separator: Option<Separator>,
        names: Vec<String>,
        places: &[Option<usize>; ROLES],
    ) -> Header {
        let mut header = Header {
            separator,
            roles: vec![None; names.len()],
            names: Vec::new(),
            is_of_archive: names.iter().any(|name| name == "logname"),
            line: Vec::new(),
        };
        for (role, _) in SHOWN {
            if let Some(place) = places[role as usize] {
                header.roles[place] = Some(role);
                header.names.push((role, names[place].clone()));
            }
        }
        header
    }

    /// Returns true if a line is the header itself, which concatenated logs repeat.
    pub fn is(&self, line: &[u8]) -> bool {
        self.line == line
    }

    /// Reads the columns of a line; returns false if it has not all that are used.
    pub fn read<'a>(&self, line: &'a [u8], record: &mut Record<'a>) -> bool {
        let separator = self.separator.unwrap_or(if line.contains(&b'\t') {
            Separator::Byte(b'\t')
        } else {
            Separator::Blanks
        });
        let mut fields = Fields::of(line, separator);
        for (place, role) in self.roles.iter().enumerate() {
            let Some(field) = fields.next() else {
                // Empty columns at the end of a line are cut off.
                return self.roles[place..].iter().all(Option::is_none);
            };
            if let Some(role) = role {
                record.set(*role, unquoted(field));
            }
        }
        true
    }
}
