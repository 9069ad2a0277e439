//! What commands do, and their answers. Errors are worded as Redis 7.0 words them.

use std::fmt::Display;
use std::io::Write;
use std::ops::{Index, Range};
use std::time::{Duration, UNIX_EPOCH};

use super::store::Store;

type Done = Result<(), String>;

/// Commands that are particular about the number of their arguments.
const FIXED: &[&[u8]] =
    &[b"get", b"set", b"ping", b"echo", b"incr", b"mget", b"del", b"expire", b"ttl"];

/// The arguments of a command, where they were received.
#[derive(Clone, Copy)]
pub struct Args<'a>(pub &'a [u8], pub &'a [Range<usize>]);

impl<'a> Args<'a> {
    fn from(self, first: usize) -> impl Iterator<Item = &'a [u8]> {
        self.1.iter().skip(first).map(move |range| &self.0[range.clone()])
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        &self.0[self.1[index].clone()]
    }
}

/// Appends the answer to a command; `false` if the client has said goodbye.
pub fn execute(args: Args<'_>, store: &mut Store, out: &mut Vec<u8>) -> bool {
    let Some(name) = args.from(0).next() else { return true };
    // No command's name is as long as this.
    let (mut lower, length) = ([0; 8], name.len().min(8));
    lower[..length].copy_from_slice(&name[..length]);
    lower.make_ascii_lowercase();
    let name = &lower[..length];
    if let Err(what) = answer(name, args, store, out) {
        error(out, what);
    }
    name != b"quit"
}

fn answer(name: &[u8], args: Args<'_>, store: &mut Store, out: &mut Vec<u8>) -> Done {
    match (name, args.1.len()) {
        (b"get", 2) => bulk(out, store.get(&args[1])),
        (b"set", 3..) => set(args, store, out)?,
        (b"ping", 1) => out.extend_from_slice(b"+PONG\r\n"),
        (b"ping" | b"echo", 2) => bulk(out, Some(&args[1])),
        (b"incr", 2) => {
            let old = store.get(&args[1]).map(integer).transpose()?;
            let new = old.unwrap_or(0).checked_add(1);
            let new = new.ok_or("ERR increment or decrement would overflow")?;
            store.set(&args[1], new.to_string().as_bytes(), old.is_some());
            number(out, b':', new);
        }
        (b"mget", 2..) => {
            number(out, b'*', args.1.len() as i64 - 1);
            args.from(1).for_each(|key| bulk(out, store.get(key)));
        }
        (b"del", 2..) => {
            let removed = args.from(1).filter(|key| store.remove(key)).count();
            number(out, b':', removed as i64);
        }
        (b"expire", 3) => {
            let found = match lifetime(integer(&args[2])?, 1_000, "expire")? {
                Some(ttl) => store.expire(&args[1], ttl),
                None => store.remove(&args[1]),
            };
            number(out, b':', i64::from(found));
        }
        (b"ttl", 2) => number(out, b':', store.ttl(&args[1])),
        (b"quit", _) => out.extend_from_slice(b"+OK\r\n"),
        // redis-cli asks what commands there are, to help its user; redis-benchmark asks for two settings.
        (b"command", _) => number(out, b'*', 0),
        (b"config", 3) if args[1].eq_ignore_ascii_case(b"get") => match &args[2] {
            b"save" => bulks(out, &["save", ""]),
            b"appendonly" => bulks(out, &["appendonly", "no"]),
            _ => number(out, b'*', 0),
        },
        (b"hello", count) if count == 1 || &args[1] == b"2" => {
            let version = env!("CARGO_PKG_VERSION");
            bulks(out, &["server", "loop-net", "version", version, "mode", "standalone"]);
        }
        (b"hello", _) => return Err("NOPROTO unsupported protocol version".into()),
        _ if FIXED.contains(&name) => {
            let name = String::from_utf8_lossy(name);
            return Err(format!("ERR wrong number of arguments for '{name}' command"));
        }
        _ => unknown(args)?,
    }
    Ok(())
}

fn set(args: Args<'_>, store: &mut Store, out: &mut Vec<u8>) -> Done {
    let mut ttl = None;
    let mut options = args.from(3);
    while let Some(option) = options.next() {
        let scale = match () {
            () if option.eq_ignore_ascii_case(b"ex") => 1_000,
            () if option.eq_ignore_ascii_case(b"px") => 1,
            () => return Err("ERR syntax error".into()),
        };
        let count = options.next().filter(|_| ttl.is_none_or(|(_, other)| other == scale));
        ttl = Some((count.ok_or("ERR syntax error")?, scale));
    }
    let ttl = ttl.map(|(count, scale)| lifetime(integer(count)?, scale, "set")).transpose()?;
    if ttl == Some(None) {
        return Err("ERR invalid expire time in 'set' command".into());
    }
    store.set(&args[1], &args[2], false);
    if let Some(Some(ttl)) = ttl {
        store.expire(&args[1], ttl);
    }
    out.extend_from_slice(b"+OK\r\n");
    Ok(())
}

/// A number without a plus sign, and without zeros in front.
fn integer(text: &[u8]) -> Result<i64, String> {
    let canonical = matches!(text, b"0" | [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..]);
    let value =
        std::str::from_utf8(text).ok().filter(|_| canonical).and_then(|text| text.parse().ok());
    value.ok_or_else(|| "ERR value is not an integer or out of range".to_owned())
}

/// So many milliseconds, or seconds with 1,000, from now; `None` if that is in the past. Redis notes
/// deadlines in milliseconds since 1970, and has 63 bits for them.
fn lifetime(count: i64, scale: i64, command: &str) -> Result<Option<Duration>, String> {
    let today = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64);
    let millis = count.checked_mul(scale).filter(|millis| millis.checked_add(today).is_some());
    let millis = millis.ok_or(format!("ERR invalid expire time in '{command}' command"))?;
    Ok(u64::try_from(millis).ok().filter(|&millis| millis > 0).map(Duration::from_millis))
}

fn unknown(args: Args<'_>) -> Done {
    let text = |arg: &[u8], most| String::from_utf8_lossy(&arg[..arg.len().min(most)]).to_string();
    let mut shown = String::new();
    for arg in args.from(1) {
        match 128_usize.checked_sub(shown.len()) {
            None | Some(0) => break,
            Some(left) => shown += &format!("'{}' ", text(arg, left)),
        }
    }
    let name = text(&args[0], 128);
    Err(format!("ERR unknown command '{name}', with args beginning with: {shown}"))
}

/// On one line, whatever the client has put into it.
pub fn error(out: &mut Vec<u8>, what: impl Display) {
    let what = what.to_string().replace(['\r', '\n'], " ");
    out.extend_from_slice(format!("-{what}\r\n").as_bytes());
}

/// An integer, or how long what follows is.
fn number(out: &mut Vec<u8>, kind: u8, value: i64) {
    out.push(kind);
    match u8::try_from(value) {
        Ok(digit @ 0..=9) => out.push(b'0' + digit),
        _ => _ = write!(out, "{value}"), // A vector takes it all.
    }
    out.extend_from_slice(b"\r\n");
}

fn bulk(out: &mut Vec<u8>, value: Option<&[u8]>) {
    let Some(value) = value else { return number(out, b'$', -1) };
    number(out, b'$', value.len() as i64);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn bulks(out: &mut Vec<u8>, values: &[&str]) {
    number(out, b'*', values.len() as i64);
    values.iter().for_each(|value| bulk(out, Some(value.as_bytes())));
}
