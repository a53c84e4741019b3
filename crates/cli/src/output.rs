//! Lines on standard output and standard error.
//!
//! Much of their text comes from servers: names, statuses, reasons. Characters with which it could
//! control a terminal, hide, or reorder the rest of a line are shown by their numbers.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// The characters of an excerpt: a few lines of a terminal.
const EXCERPT_CHARS: usize = 500;

/// Prints a line to standard output, as `println!` does, but without its panic.
macro_rules! line {
    ($($text:tt)*) => {
        $crate::output::print_line(format_args!($($text)*))
    };
}
pub(crate) use line;

/// Prints a line to standard error, as `eprintln!` does, but without its panic.
macro_rules! error_line {
    ($($text:tt)*) => {
        $crate::output::print_error_line(format_args!($($text)*))
    };
}
pub(crate) use error_line;

/// Prints a line, or several; see [`line!`]. A full disk is a failure; for a closed pipe see
/// [`end_if_unread`].
pub fn print_line(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let text = text.to_string();
    let Err(error) = writeln!(out, "{}", printable(&text)).and_then(|()| out.flush()) else {
        return;
    };
    end_if_unread(&error);
    error_line!(
        "larder: standard output: {}",
        larder_units::system_message(&error)
    );
    std::process::exit(1);
}

/// Prints a line to standard error; see [`error_line!`].
pub fn print_error_line(text: fmt::Arguments<'_>) {
    // There is no other place for a failure of this.
    let _ = writeln!(io::stderr().lock(), "{}", printable(&text.to_string()));
}

/// Ends the command with success if the reader of standard output, such as `head`, has closed it.
pub fn end_if_unread(error: &io::Error) {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
}

/// Returns lines of text with each character that is not shown as itself by its number, as in a
/// string of JSON. So a document of JSON keeps its meaning.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |char| !"\n\t".contains(char) && is_hidden(char))
}

/// The same for a text of others within a line.
pub fn within_a_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// The same for a reason or another short text of others, of which the start is shown.
pub fn excerpt(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{} ...", within_a_line(&text[..end]))),
        None => within_a_line(text),
    }
}

/// Returns true for a character that controls a terminal, the direction of text, or the end of a
/// line, and for one that leaves no trace (Unicode 15, chapter 23).
fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if is_escaped(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(char);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_controls_the_terminal() {
        for (text, shown) in [
            ("\u{1b}[2J", "\\u001b[2J"),
            ("a\u{9b}31m", "a\\u009b31m"),
            ("\u{202e}gpj.exe\u{2066}", "\\u202egpj.exe\\u2066"),
            ("\r\u{8}\u{7f}", "\\u000d\\u0008\\u007f"),
            ("\u{e0041}", "\\udb40\\udc41"),
            ("häßlich 🦊 日本", "häßlich 🦊 日本"),
        ] {
            assert_eq!(
                (printable(text).as_ref(), within_a_line(text).as_ref()),
                (shown, shown)
            );
        }
        assert_eq!(
            excerpt(&"ä".repeat(501)),
            format!("{} ...", "ä".repeat(500))
        );
        assert_eq!(printable("a\n\tb"), "a\n\tb");
        assert_eq!(within_a_line("a\n\tb"), "a\\u000a\\u0009b");
    }

    #[test]
    fn escapes_change_the_meaning_of_json() {
        let value = serde_json::json!({ "\u{202e}": "\u{9b}\u{e0041}\n" });
        let text = value.to_string();
        let shown = printable(&text);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}
