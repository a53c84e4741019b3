//! Directives of `Cache-Control`, as far as the worlds use them. The parser is not the cache's.

use http::HeaderMap;
use http::header::CACHE_CONTROL;

/// Returns the argument of a directive: `Some(None)` if it has none.
pub fn find<'a>(headers: &'a HeaderMap, name: &str) -> Option<Option<&'a str>> {
    let lines = headers
        .get_all(CACHE_CONTROL)
        .into_iter()
        .filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .find_map(|directive| {
            let (key, argument) = directive
                .split_once('=')
                .map_or((directive, None), |(key, value)| (key, Some(value)));
            (key == name).then_some(argument)
        })
}

pub fn has(headers: &HeaderMap, name: &str) -> bool {
    find(headers, name).is_some()
}

/// Returns the argument of a directive as a number.
pub fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    find(headers, name)??.parse().ok()
}
