//! Tokens of challenges, which come from the network and become names of files.

use crate::limits;

/// Returns true for a token of a challenge (RFC 8555 §8.1: the alphabet of base64url, unpadded). It
/// is then the name of a file too: it has no dot and no slash.
pub fn is_token(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=limits::TOKEN_BYTES).contains(&text.len()) && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a request names a file outside of the folder of challenges.
    #[test]
    fn a_token_leads_out_of_its_folder() {
        assert!(is_token("evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA"));
        let longest = "a".repeat(limits::TOKEN_BYTES);
        assert!(is_token(&longest));
        for wrong in [
            "",
            ".",
            "..",
            "a/b",
            "a.b",
            "a\\b",
            "%2e",
            "a b",
            "\0",
            "é",
            &(longest + "a"),
        ] {
            assert!(!is_token(wrong), "{wrong:?}");
        }
    }
}
