//! Finds the network interfaces of a setting: names, or `*` for each capable one.

use crate::ndn::error::NdnError;

/// Calls `open` for every interface that the setting `key` names. A named interface has to work;
/// with `*`, interfaces that fail are skipped.
pub(crate) fn for_each<T>(
    key: &'static str,
    names: &[String],
    mut open: impl FnMut(&str) -> std::io::Result<T>,
) -> Result<Vec<(String, T)>, NdnError> {
    let mut opened: Vec<(String, T)> = Vec::new();
    for name in names {
        let all = name == "*";
        let meant = if all { present() } else { vec![name.clone()] };
        for name in meant {
            if opened.iter().any(|(there, _)| *there == name) {
                continue;
            }
            match open(&name) {
                Ok(made) => opened.push((name, made)),
                Err(error) if all => {
                    tracing::debug!(interface = name, %error, setting = key, "passed over")
                }
                Err(error) => return Err(NdnError::Interface { key, name, error }),
            }
        }
    }
    Ok(opened)
}

/// Returns the network interfaces of this machine (of this thread's network namespace) except
/// loopback.
fn present() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names = table
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned());
    names.filter(|name| name != "lo").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_named_interface_must_work_and_one_of_all_need_not() {
        let fails = |_: &str| Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
        let error = for_each("ethernet", &["eth7".to_owned()], fails)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("[ndn] ethernet")
                && error.contains("\"eth7\"")
                && error.contains("ip link"),
            "{error}"
        );
        assert_eq!(
            for_each("ethernet", &["*".to_owned()], fails).unwrap(),
            Vec::new()
        );
        let twice = ["a".to_owned(), "a".to_owned()];
        assert_eq!(
            for_each("ethernet", &twice, |_| Ok(())).unwrap(),
            vec![("a".to_owned(), ())]
        );
    }
}
