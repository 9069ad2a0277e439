//! The PROXY protocol: who a proxy in front speaks for.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest header of version 1, with its CRLF.
const MAX_V1: usize = 107;
/// The bytes of version 2 in front of the addresses.
const HEAD_V2: usize = 16;
/// The longest header of version 2 that is accepted: addresses and some kilobytes of attributes.
const MAX_V2: usize = 4096;
const SIGNATURE_V2: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// What the header in front of a connection says: `None` if the proxy speaks for itself, as it does to
/// find out whether we live.
pub(crate) type Origin = Option<Addresses>;

/// Whom a proxy speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// Who connected to the proxy.
    pub(crate) source: SocketAddr,
    /// Where to.
    pub(crate) destination: SocketAddr,
}

fn invalid(why: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a PROXY header: {why}"))
}

/// The header in front of `bytes` and its length; `None` if more is needed. Either version is
/// understood, as HAProxy's description of the protocol has it.
///
/// # Errors
/// `InvalidData` as soon as the bytes cannot become a header.
pub(crate) fn parse(bytes: &[u8]) -> io::Result<Option<(Origin, usize)>> {
    let signature = bytes.len().min(SIGNATURE_V2.len());
    if bytes[..signature] == SIGNATURE_V2[..signature] {
        return parse_v2(bytes);
    }
    parse_v1(bytes)
}

fn parse_v1(bytes: &[u8]) -> io::Result<Option<(Origin, usize)>> {
    const START: &[u8] = b"PROXY ";
    let start = bytes.len().min(START.len());
    if bytes[..start] != START[..start] {
        return Err(invalid("it begins with something else"));
    }
    let within = &bytes[..bytes.len().min(MAX_V1)];
    let Some(end) = within.windows(2).position(|pair| pair == b"\r\n") else {
        let too_long = bytes.len() >= MAX_V1;
        return if too_long { Err(invalid("the line has no end")) } else { Ok(None) };
    };
    let line = std::str::from_utf8(&bytes[..end]).map_err(invalid)?;
    let words: Vec<&str> = line.split(' ').collect();
    let origin = match words[..] {
        // Whatever follows is to be ignored.
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", family @ ("TCP4" | "TCP6"), source, destination, from, to] => {
            let address = |ip: &str, port: &str| {
                let ip: IpAddr = ip.parse().map_err(invalid)?;
                if ip.is_ipv4() != (family == "TCP4") {
                    return Err(invalid("an address of the other family"));
                }
                Ok(SocketAddr::new(ip, port.parse().map_err(invalid)?))
            };
            let (source, destination) = (address(source, from)?, address(destination, to)?);
            Some(Addresses { source, destination })
        }
        _ => return Err(invalid("a line that is none")),
    };
    Ok(Some((origin, end + 2)))
}

fn parse_v2(bytes: &[u8]) -> io::Result<Option<(Origin, usize)>> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_V2>() else { return Ok(None) };
    let [version_command, family] = [head[12], head[13]];
    let len = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if version_command >> 4 != 2 {
        return Err(invalid("an unknown version"));
    }
    if HEAD_V2 + len > MAX_V2 {
        return Err(invalid("it is too long"));
    }
    let Some(rest) = rest.get(..len) else { return Ok(None) };
    let origin = match (version_command & 0xf, family) {
        (0, _) => None,
        (1, 0x11) => Some(addresses_v2::<4>(rest, |ip| Ipv4Addr::from(ip).into())?),
        (1, 0x21) => Some(addresses_v2::<16>(rest, |ip| Ipv6Addr::from(ip).into())?),
        // Unix sockets, datagrams and what nobody knows yet: there is nothing to say of the peer.
        (1, _) => None,
        _ => return Err(invalid("an unknown command")),
    };
    Ok(Some((origin, HEAD_V2 + len)))
}

/// Two addresses of `N` bytes, then two ports; attributes may follow.
fn addresses_v2<const N: usize>(
    bytes: &[u8],
    ip: impl Fn([u8; N]) -> IpAddr,
) -> io::Result<Addresses> {
    let too_short = || invalid("it is too short for its addresses");
    let (source, rest) = bytes.split_first_chunk::<N>().ok_or_else(too_short)?;
    let (destination, rest) = rest.split_first_chunk::<N>().ok_or_else(too_short)?;
    let (ports, _) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    Ok(Addresses {
        source: SocketAddr::new(ip(*source), port(0)),
        destination: SocketAddr::new(ip(*destination), port(2)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE_V2.to_vec();
        bytes.extend([0x20 | command, family]);
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    /// Source and destination.
    type Expected = Option<(&'static str, &'static str)>;

    fn good() -> Vec<(Vec<u8>, Expected)> {
        let four = [[192, 0, 2, 1], [192, 0, 2, 2], [0x12, 0x34, 0, 80]].concat();
        let six = [&[0; 15][..], &[1], &[0; 15], &[2], &[0, 9, 0, 8], b"attributes"].concat();
        vec![
            (
                b"PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\r\n".to_vec(),
                Some(("192.0.2.1:4660", "192.0.2.2:80")),
            ),
            (b"PROXY TCP6 ::1 ::2 9 8\r\n".to_vec(), Some(("[::1]:9", "[::2]:8"))),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN what ever\r\n".to_vec(), None),
            (v2(1, 0x11, &four), Some(("192.0.2.1:4660", "192.0.2.2:80"))),
            (v2(1, 0x21, &six), Some(("[::1]:9", "[::2]:8"))),
            (v2(0, 0, b""), None),
            (v2(1, 0x31, &[0; 216]), None),
        ]
    }

    #[test]
    fn headers_of_both_versions_are_read_whole_and_need_all_their_bytes() {
        for (header, expected) in good() {
            let expected = expected.map(|(source, destination)| Addresses {
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
            });
            for cut in 0..header.len() {
                assert_eq!(parse(&header[..cut]).unwrap(), None, "{cut} bytes of {header:?}");
            }
            let followed = [&header[..], b"GET /"].concat();
            assert_eq!(parse(&followed).unwrap(), Some((expected, header.len())));
        }
    }

    #[test]
    fn what_is_no_header_is_refused_as_soon_as_that_is_clear() {
        let bad: &[&[u8]] = &[
            b"GET / HTTP/1.1\r\n",
            b"PROXX",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 80\r\n",
            b"PROXY TCP4 ::1 ::2 1 2\r\n",
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
            b"PROXY TCP9 1.2.3.4 1.2.3.4 1 2\r\n",
            b"PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
            b"\r\n\r\n\0\r\nQUIX",
        ];
        for bytes in bad {
            let error = parse(bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
        assert!(parse(&[b"PROXY ".as_slice(), &[b'x'; 101]].concat()).is_err(), "no end in sight");
        assert!(parse(&v2(2, 0x11, b"")).is_err(), "unknown command");
        assert!(parse(&v2(1, 0x11, &[0; 11])).is_err(), "too short");
        assert!(parse(&v2(1, 0x11, &[0; 5000])).is_err(), "too long");
        let mut version = v2(1, 0x11, b"");
        version[12] = 0x31;
        assert!(parse(&version).is_err());
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        for (header, _) in good() {
            for _ in 0..5_000 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                let mut bytes = header.clone();
                let at = (seed >> 8) as usize % bytes.len();
                bytes[at] = seed as u8;
                let _ = parse(&bytes);
            }
        }
    }
}
