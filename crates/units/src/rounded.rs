//! Quantities rounded for people: "1.50 MiB", "12.5 %", "1 d 2 h".

/// Returns a number of bytes with the largest fitting power of 1024, to two decimals.
///
/// ```
/// assert_eq!(larder_units::rounded::bytes(1_572_864.0), "1.50 MiB");
/// ```
pub fn bytes(bytes: f64) -> String {
    if bytes < 1024.0 {
        return format!("{} B", (bytes * 10.0).round() / 10.0);
    }
    let step = (bytes.log2() / 10.0).floor().min(6.0);
    let unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][step as usize];
    format!("{:.2} {unit}", bytes / 1024_f64.powf(step)).replace(".00", "")
}

/// Returns a share as a percentage, to one decimal.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns a length of time in days, hours, minutes and seconds, rounded to seconds from half a
/// second on.
pub fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let parts = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let parts = parts
        .iter()
        .enumerate()
        .filter_map(|(index, (scale, unit))| {
            let count = if index == 0 {
                whole / scale
            } else {
                whole % parts[index - 1].0 / scale
            };
            (count > 0).then(|| format!("{count} {unit}"))
        });
    match whole {
        0 => format!("{seconds} s"),
        _ => parts.collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_in_other_units() {
        assert_eq!(
            [0.0, 0.25, 59.6, 3601.0, 90_000.0].map(span),
            ["0 s", "0.25 s", "1 min", "1 h 1 s", "1 d 1 h"]
        );
        let expected = ["0 B", "1.5 B", "1 KiB", "1.50 MiB", "16 EiB"];
        assert_eq!(
            [0.0, 1.5, 1024.0, 1.5 * 1_048_576.0, 2_f64.powi(64)].map(bytes),
            expected
        );
        assert_eq!(
            [0.0, 0.1234, 1.0].map(percent),
            ["0.0 %", "12.3 %", "100.0 %"]
        );
    }
}
