//! Lists as arguments: a flag takes one value, and commas separate its elements. A flag may be
//! given several times.

use crate::failure::Failure;

/// Parses every element of these lists.
///
/// # Errors
/// The first element that does not parse.
pub fn parse_all<T: std::str::FromStr<Err: ToString>>(lists: &[String]) -> Result<Vec<T>, Failure> {
    let parse = |text: &str| {
        text.parse()
            .map_err(|error: T::Err| Failure::usage(error.to_string()))
    };
    lists
        .iter()
        .flat_map(|list| elements(list))
        .map(parse)
        .collect()
}

/// Returns the elements of a list. A comma inside parentheses belongs to its element, as in
/// `filter(theta=2,window=100)+fifo,lru`.
fn elements(list: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let mut parts = list.split(move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth <= 0
    });
    // The list may end with a comma.
    let mut elements: Vec<&str> = parts.by_ref().map(str::trim).collect();
    if elements.len() > 1 && elements.last() == Some(&"") {
        elements.pop();
    }
    elements
}

/// The largest number without a unit that is hardly meant as bytes.
const HARDLY_BYTES: u64 = 1024;

/// Returns a note if a capacity of these lists is a small number without a unit, which means bytes
/// where objects have sizes.
pub fn note_of_bare_sizes(lists: &[String]) -> Option<String> {
    let bare = lists.iter().flat_map(|list| elements(list)).find(|text| {
        text.parse()
            .is_ok_and(|bytes: u64| bytes > 0 && bytes < HARDLY_BYTES)
    })?;
    Some(format!(
        "-s {bare} means {bare} bytes; write {bare}MiB, or {bare}% for a share of all objects"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_outside_parentheses() {
        for (list, expected) in [
            ("lru", &["lru"][..]),
            ("lru, fifo", &["lru", "fifo"]),
            (
                "filter(theta=2,window=9)+fifo,lru",
                &["filter(theta=2,window=9)+fifo", "lru"],
            ),
            ("a(b(c,d),e),f", &["a(b(c,d),e)", "f"]),
            ("lru,", &["lru"]),
            ("", &[""]),
            (",lru", &["", "lru"]),
            ("a),b", &["a)", "b"]),
        ] {
            assert_eq!(elements(list), expected, "{list}");
        }
    }

    #[test]
    fn a_capacity_of_ten_bytes_is_silent() {
        let note = |list: &str| note_of_bare_sizes(&[list.to_owned()]);
        assert_eq!(
            note("1GiB,10").unwrap(),
            "-s 10 means 10 bytes; write 10MiB, or 10% for a share of all objects"
        );
        for meant in ["10MiB", "10%", "0.1", "10B", "1024", "1GiB,20%"] {
            assert_eq!(note(meant), None, "{meant}");
        }
    }

    #[test]
    fn elements_of_several_lists_follow_each_other() {
        let lists = ["1,2", "3"].map(str::to_owned);
        assert_eq!(parse_all::<u32>(&lists).unwrap(), [1, 2, 3]);
        assert!(parse_all::<u32>(&["1,x".to_owned()]).is_err());
    }
}
