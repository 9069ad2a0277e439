//! Commands as they come: arrays of RESP, and lines that a person has typed.

use std::ops::Range;

/// How long a command may be; no more is kept of one that does not end.
const COMMAND: usize = 64 << 20;
const LINE: usize = 64 << 10;
const ARGUMENTS: usize = 1 << 20;

/// What is known of the command at the front of what was received. One that comes in pieces is not read
/// again from its beginning.
#[derive(Default)]
pub struct Request {
    /// Where its arguments lie, its name first.
    pub args: Vec<Range<usize>>,
    /// Arguments that are to come; zero before the first.
    missing: usize,
    /// Where to go on.
    at: usize,
}

impl Request {
    /// The length of the command at the front of `data`, once it is there as a whole. Until then `data`
    /// must begin with the same bytes at each call.
    pub fn parse(&mut self, data: &[u8]) -> Result<Option<usize>, String> {
        if self.missing == 0 {
            self.args.clear();
            self.args.shrink_to(1_000);
            match (data.first(), number(data, 1)) {
                (Some(b'*'), Ok(Some((0, end)))) => return Ok(Some(end)), // Nothing is asked.
                (Some(b'*'), Ok(Some(found @ (..=ARGUMENTS, _)))) => {
                    (self.missing, self.at) = found
                }
                (None, _) | (Some(b'*'), Ok(None)) => return Ok(None),
                (Some(b'*'), _) => return Err("invalid multibulk length".into()),
                _ => return self.line(data),
            }
        }
        while self.missing > 0 {
            let (length, begin) = match (data.get(self.at), number(data, self.at + 1)) {
                (Some(b'$'), Ok(Some(found))) => found,
                (None, _) | (Some(b'$'), Ok(None)) => return Ok(None),
                (Some(b'$'), _) => return Err("invalid bulk length".into()),
                (Some(&byte), _) => return Err(format!("expected '$', got '{}'", byte as char)),
            };
            let end = begin + length;
            if end > COMMAND {
                return Err("invalid bulk length".into());
            } else if data.len() < end + 2 {
                return Ok(None);
            }
            self.args.push(begin..end);
            (self.missing, self.at) = (self.missing - 1, end + 2);
        }
        Ok(Some(std::mem::take(&mut self.at)))
    }

    fn line(&mut self, data: &[u8]) -> Result<Option<usize>, String> {
        let Some(end) = data[self.at..].iter().position(|&byte| byte == b'\n') else {
            self.at = data.len();
            let fits = data.len() <= LINE;
            return if fits { Ok(None) } else { Err("too big inline request".into()) };
        };
        let end = std::mem::take(&mut self.at) + end;
        let mut begin = 0;
        for word in data[..end].split(u8::is_ascii_whitespace) {
            if !word.is_empty() {
                self.args.push(begin..begin + word.len());
            }
            begin += word.len() + 1;
        }
        Ok(Some(end + 1))
    }
}

/// The number at `from`, and where its line ends; `None` if the line has not ended.
#[inline]
fn number(data: &[u8], from: usize) -> Result<Option<(usize, usize)>, ()> {
    let mut value = 0;
    for at in from..data.len() {
        match data[at] {
            digit @ b'0'..=b'9' if at < from + 9 => value = value * 10 + usize::from(digit - b'0'),
            b'\r' if at > from => return Ok((at + 1 < data.len()).then_some((value, at + 2))),
            _ => return Err(()),
        }
    }
    Ok(None)
}
