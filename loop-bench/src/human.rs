//! Numbers for people: three digits and a unit.

/// A value with its unit, to three digits: `87.5 ns`, `1.25 ms`, `1.3 MiB`.
pub(crate) fn human(value: f64, unit: &str) -> String {
    let scales: &[(f64, &str)] = if unit.starts_with("ns") {
        &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")]
    } else if unit.starts_with("byte") {
        &[(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1_024.0, "KiB"), (1.0, "B")]
    } else if unit == "times" {
        return format!("{} ×", three(value));
    } else {
        return three(value);
    };
    let fits = |scale: &&(f64, &str)| value >= scale.0;
    let (scale, unit) = scales.iter().find(fits).or(scales.last()).copied().unwrap_or((1.0, ""));
    format!("{} {unit}", three(value / scale))
}

/// To three digits.
pub(crate) fn three(value: f64) -> String {
    match value.abs() {
        large if large >= 99.95 => format!("{value:.0}"),
        large if large >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (value, unit, expected) in [
            (0.123, "ns/op", "0.12 ns"),
            (87.54, "ns/op", "87.5 ns"),
            (1_254.0, "ns/op", "1.25 µs"),
            (99_960.0, "ns/op", "100 µs"),
            (3e9, "ns", "3.00 s"),
            (2_048.0, "bytes/connection", "2.00 KiB"),
            (3.0, "times", "3.00 ×"),
            (12.0, "calls", "12.0"),
        ] {
            assert_eq!(human(value, unit), expected);
        }
    }
}
