//! Text in a page, data in a script, a file in a link.

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

#[cfg(test)]
mod tests {
    use super::*;

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
