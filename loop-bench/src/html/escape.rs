//! Text in a page, data in a script, a file in a link, numbers for people.

use std::fmt::{self, Display, Write};

use serde::Serialize;

/// Text as HTML writes it, between tags or as an attribute's value.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// JSON that may stand in a script element, which only a `<` could end.
pub(super) fn script_data(value: &impl Serialize) -> String {
    serde_json::to_string(value)
        .expect("strings and numbers can be written")
        .replace('<', "\\u003c")
}

/// A link that saves `lines`, the first of which has the names, as a file.
pub(super) fn csv_link(page: &mut String, name: &str, lines: &[Vec<String>]) {
    let mut data = String::new();
    for byte in lines.iter().flat_map(|line| csv_line(line).into_bytes()) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b',' | b'/' => {
                data.push(char::from(byte));
            }
            other => _ = write!(data, "%{other:02X}"),
        }
    }
    let file: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    _ = write!(
        page,
        "<a class=\"csv\" download=\"{}.csv\" href=\"data:text/csv;charset=utf-8,{data}\">CSV</a>",
        file.trim_matches('-')
    );
}

fn csv_line(fields: &[String]) -> String {
    let quoted = fields.iter().map(|field| {
        if field.contains([',', '"', '\n']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    });
    quoted.collect::<Vec<_>>().join(",") + "\r\n"
}

/// A value with its unit, to three digits: `87.5 ns`, `1.25 ms`, `1.3 MiB`.
pub(super) fn human(value: f64, unit: &str) -> String {
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
pub(super) fn three(value: f64) -> String {
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

    #[test]
    fn csv_is_quoted_and_the_link_escaped() {
        let line = ["a,b".to_owned(), "say \"x\"".to_owned(), "c".to_owned()];
        assert_eq!(csv_line(&line), "\"a,b\",\"say \"\"x\"\"\",c\r\n");
        let mut page = String::new();
        csv_link(&mut page, "a/b n=1", &[line.to_vec()]);
        assert!(page.contains("download=\"a-b-n-1.csv\""), "{page}");
        assert!(page.contains("charset=utf-8,%22a,b%22,%22say%20"), "{page}");
    }

    #[test]
    fn data_cannot_end_its_script() {
        assert_eq!(script_data(&["</script>"]), "[\"\\u003c/script>\"]");
    }
}
