//! Finds the network interfaces of a setting: names, or `*` for each capable one.

/// Calls `open` for every interface that the setting `key` names. A named interface has to work;
/// with `*`, interfaces that fail are skipped.
pub(super) fn for_each<T>(
    key: &str,
    names: &[String],
    mut open: impl FnMut(&str) -> std::io::Result<T>,
) -> Result<Vec<(String, T)>, String> {
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
                Err(error) if all => tracing::debug!(interface = name, %error, setting = key, "passed over"),
                Err(error) => return Err(wrong(key, &name, &error)),
            }
        }
    }
    Ok(opened)
}

/// Returns the network interfaces of this machine (of this thread's network namespace) except
/// loopback.
fn present() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names = table.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned());
    names.filter(|name| name != "lo").collect()
}

fn wrong(key: &str, name: &str, error: &std::io::Error) -> String {
    use larder_units::system_message;
    let way_out = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "this needs root, or the capability CAP_NET_RAW",
        _ => "name an interface that `ip link` shows as up, or none",
    };
    format!("[ndn] {key}: cannot use the interface {name:?}: {}; {way_out}", system_message(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_named_interface_must_work_and_one_of_all_need_not() {
        let fails = |_: &str| Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
        let error = for_each("ethernet", &["eth7".to_owned()], fails).unwrap_err();
        assert!(error.contains("[ndn] ethernet") && error.contains("\"eth7\"") && error.contains("ip link"), "{error}");
        assert_eq!(for_each("ethernet", &["*".to_owned()], fails), Ok(Vec::new()));
        let twice = ["a".to_owned(), "a".to_owned()];
        assert_eq!(for_each("ethernet", &twice, |_| Ok(())), Ok(vec![("a".to_owned(), ())]));
    }
}
