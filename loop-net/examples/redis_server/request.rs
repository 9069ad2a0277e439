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

/// What is wrong with a command, or nothing if there is more to come of it.
type Stop = Option<String>;

impl Request {
    /// The length of the command at the front of `data`, once it is there as a whole. Until then `data`
    /// must begin with the same bytes at each call.
    pub fn parse(&mut self, data: &[u8]) -> Result<usize, Stop> {
        if self.missing == 0 {
            self.args.clear();
            self.args.shrink_to(1_000);
            if data.first().is_some_and(|&mark| mark != b'*') {
                return self.line(data);
            }
            (self.missing, self.at) = number(data, 1, ARGUMENTS, "invalid multibulk length")?;
        }
        while self.missing > 0 {
            if let Some(&mark) = data.get(self.at).filter(|&&mark| mark != b'$') {
                return Err(Some(format!("expected '$', got '{}'", mark as char)));
            }
            let most = COMMAND.saturating_sub(self.at);
            let (length, begin) = number(data, self.at + 1, most, "invalid bulk length")?;
            if data.len() < begin + length + 2 {
                return Err(None);
            }
            self.args.push(begin..begin + length);
            (self.missing, self.at) = (self.missing - 1, begin + length + 2);
        }
        Ok(std::mem::take(&mut self.at))
    }

    fn line(&mut self, data: &[u8]) -> Result<usize, Stop> {
        let Some(end) = data[self.at..].iter().position(|&byte| byte == b'\n') else {
            self.at = data.len();
            return Err((self.at > LINE).then(|| "too big inline request".into()));
        };
        let (mut begin, end) = (0, std::mem::take(&mut self.at) + end);
        for word in data[..end].split(u8::is_ascii_whitespace) {
            if !word.is_empty() {
                self.args.push(begin..begin + word.len());
            }
            begin += word.len() + 1;
        }
        Ok(end + 1)
    }
}

/// The number at `from`, `most` at most, and where its line ends.
#[inline(always)]
fn number(data: &[u8], from: usize, most: usize, wrong: &str) -> Result<(usize, usize), Stop> {
    let mut value = 0;
    // Behind what counts here there is always something.
    for (digits, pair) in data.get(from..).ok_or(None)?.windows(2).enumerate() {
        match pair[0] {
            digit @ b'0'..=b'9' if digits < 9 => value = value * 10 + usize::from(digit - b'0'),
            b'\r' if digits > 0 && value <= most => return Ok((value, from + digits + 2)),
            _ => return Err(Some(wrong.into())),
        }
    }
    Err(None)
}
