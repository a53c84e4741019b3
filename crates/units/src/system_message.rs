//! The operating system's message about a failure, without Rust's "(os error 2)" and the additions
//! of libraries.

use std::io;

/// Returns the message of the system's error, if there is one.
pub fn system_message(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_programs() {
        assert_eq!(
            system_message(&io::Error::from_raw_os_error(2)),
            "No such file or directory"
        );
        assert_eq!(system_message(&io::Error::other("broken")), "broken");
    }
}
