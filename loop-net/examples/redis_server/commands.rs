//! What commands do, and their answers. Errors are worded as Redis 7.0 words them.

use std::ops::Range;
use std::time::UNIX_EPOCH;

use super::store::Store;

/// Where the arguments lie.
type Args<'a> = &'a [Range<usize>];
type Done = Result<(), String>;

/// To tell what is unknown from what has too few arguments, or too many.
const NAMES: &[&[u8]] =
    &[b"get", b"set", b"ping", b"echo", b"incr", b"mget", b"del", b"expire", b"ttl"];

/// Appends the answer to a command, whose arguments lie in `data`; `false` if the client has said goodbye.
pub fn execute(data: &[u8], args: Args, store: &mut Store, out: &mut Vec<u8>) -> bool {
    let Some(name) = args.first().map(|name| &data[name.clone()]) else { return true };
    // No command's name is as long as this.
    let (mut lower, length) = ([0; 8], name.len().min(8));
    lower[..length].copy_from_slice(&name[..length]);
    // Makes small letters of capitals, and letters of nothing else.
    let name = &lower.map(|byte: u8| byte | 0x20)[..length];
    if let Err(what) = answer(name, data, args, store, out) {
        error(out, &what);
    }
    name != b"quit"
}

fn answer(name: &[u8], data: &[u8], args: Args, store: &mut Store, out: &mut Vec<u8>) -> Done {
    let at = |arg: &Range<usize>| &data[arg.clone()];
    match (name, &args[1..]) {
        (b"get", [key]) => bulk(out, store.get(at(key))),
        (b"set", [key, value, options @ ..]) => {
            let ttl = time_to_live(data, options)?;
            store.set(at(key), at(value), false);
            ttl.map(|millis| store.expire(at(key), millis));
            out.extend(b"+OK\r\n");
        }
        (b"ping", []) => out.extend(b"+PONG\r\n"),
        (b"ping" | b"echo", [text]) => bulk(out, Some(at(text))),
        (b"incr", [key]) => {
            let old = store.get(at(key)).map_or(Ok(0), integer)?;
            let new = old.checked_add(1).ok_or("ERR increment or decrement would overflow")?;
            store.set(at(key), new.to_string().as_bytes(), true);
            number(out, b':', new);
        }
        (b"mget", keys @ [_, ..]) => {
            number(out, b'*', keys.len() as i64);
            keys.iter().for_each(|key| bulk(out, store.get(at(key))));
        }
        (b"del", keys @ [_, ..]) => {
            number(out, b':', keys.iter().filter(|key| store.remove(at(key))).count() as i64);
        }
        (b"expire", [key, seconds]) => {
            let millis = lifetime(at(seconds), 1_000, i64::MIN, "expire")?;
            number(out, b':', store.expire(at(key), millis).into());
        }
        (b"ttl", [key]) => number(out, b':', store.ttl(at(key))),
        (b"quit", _) => out.extend(b"+OK\r\n"),
        // redis-benchmark asks for two settings, redis-cli for commands, to help its user.
        (b"config", [_, what]) if at(what) == b"save" => {
            out.extend(b"*2\r\n$4\r\nsave\r\n$0\r\n\r\n")
        }
        (b"config", [_, what]) if at(what) == b"appendonly" => {
            out.extend(b"*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
        }
        (b"config" | b"command", _) => number(out, b'*', 0),
        (b"hello", _) => Err("NOPROTO unsupported protocol version")?,
        _ if NAMES.contains(&name) => {
            Err(format!("ERR wrong number of arguments for '{}' command", name.escape_ascii()))?
        }
        _ => Err(unknown(args.iter().map(at)))?,
    }
    Ok(())
}

/// Of SET: EX or PX with a number, also several times; the last one counts.
fn time_to_live(data: &[u8], options: Args) -> Result<Option<i64>, String> {
    let at = |arg: &Range<usize>| &data[arg.clone()];
    let (Some(unit), Some(count)) = (options.first(), options.last()) else { return Ok(None) };
    let alike = |pair: Args| pair.len() == 2 && at(&pair[0]).eq_ignore_ascii_case(at(unit));
    match &*at(unit).to_ascii_lowercase() {
        b"ex" if options.chunks(2).all(alike) => lifetime(at(count), 1_000, 1, "set").map(Some),
        b"px" if options.chunks(2).all(alike) => lifetime(at(count), 1, 1, "set").map(Some),
        _ => Err("ERR syntax error".into()),
    }
}

/// A number without a plus sign, and without zeros in front.
fn integer(text: &[u8]) -> Result<i64, String> {
    let canonical = matches!(text, b"0" | [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..]);
    let text = std::str::from_utf8(text).ok().filter(|_| canonical);
    let value = text.and_then(|text| text.parse().ok());
    value.ok_or_else(|| "ERR value is not an integer or out of range".into())
}

/// So many milliseconds, or seconds with 1,000, at least `least`. Redis notes deadlines in milliseconds
/// since 1970, and has 63 bits for them.
fn lifetime(count: &[u8], scale: i64, least: i64, command: &str) -> Result<i64, String> {
    let today = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64);
    let fits = |millis: &i64| *millis >= least && millis.checked_add(today).is_some();
    let millis = integer(count)?.checked_mul(scale).filter(fits);
    millis.ok_or_else(|| format!("ERR invalid expire time in '{command}' command"))
}

fn unknown<'a>(mut command: impl Iterator<Item = &'a [u8]>) -> String {
    let text = |arg: &[u8], most| String::from_utf8_lossy(&arg[..arg.len().min(most)]).to_string();
    let (name, mut shown) = (text(command.next().unwrap_or(b""), 128), String::new());
    while let Some(arg) = command.next().filter(|_| shown.len() < 128) {
        shown += &format!("'{}' ", text(arg, 128 - shown.len()));
    }
    format!("ERR unknown command '{name}', with args beginning with: {shown}")
}

/// On one line, whatever the client has put into it.
pub fn error(out: &mut Vec<u8>, what: &str) {
    out.extend(format!("-{}\r\n", what.replace(['\r', '\n'], " ")).bytes());
}

/// An integer, or how long what follows is.
fn number(out: &mut Vec<u8>, kind: u8, value: i64) {
    match value {
        0..=9 => out.extend([kind, b'0' + value as u8]),
        _ => out.extend([kind].into_iter().chain(value.to_string().bytes())),
    }
    out.extend(b"\r\n");
}

fn bulk(out: &mut Vec<u8>, value: Option<&[u8]>) {
    let Some(value) = value else { return out.extend(b"$-1\r\n") };
    number(out, b'$', value.len() as i64);
    out.extend(value);
    out.extend(b"\r\n");
}
