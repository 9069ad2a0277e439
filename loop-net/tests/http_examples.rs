//! The examples that speak HTTP and WebSocket, talked to from outside.
#![cfg(all(feature = "hyper", feature = "tokio-io"))]

mod common;
#[path = "common/example.rs"]
mod example;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::watchdog;
use example::Example;

/// The whole answer to a request for `path`.
fn get(example: &Example, path: &str) -> String {
    let mut stream = example.connect();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn axum_router_routes() {
    let _watchdog = watchdog();
    let example = Example::start("axum_router");
    let answer = get(&example, "/hello/you");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello you\n"), "{answer}");
    assert!(get(&example, "/none").starts_with("HTTP/1.1 404"));
}

#[test]
fn http_files_sends_files_and_nothing_from_outside() {
    let _watchdog = watchdog();
    let example = Example::start("http_files");
    let manifest = std::fs::read_to_string("Cargo.toml").unwrap();
    let answer = get(&example, "/Cargo.toml");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(&manifest), "{answer}");
    for path in
        ["/none", "/../Cargo.toml", "/src", "/src/../../Cargo.toml", "//etc/passwd/../passwd"]
    {
        assert!(get(&example, path).starts_with("HTTP/1.1 404"), "{path}");
    }
}

/// Asks for what is not there, on a connection that stays; the status line.
fn ask(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    stream.get_mut().write_all(b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let (mut status, mut line) = (String::new(), String::new());
    if stream.read_line(&mut status)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    while line != "\r\n" {
        line.clear();
        assert!(stream.read_line(&mut line)? > 0, "closed in the middle of an answer");
    }
    Ok(status)
}

#[test]
fn http_files_ends_a_silent_connection_and_keeps_one_that_asks() {
    let _watchdog = watchdog();
    let limit = Duration::from_secs(1);
    let example = Example::start_with("http_files", &[".", "1"]);
    let (mut silent, mut busy) =
        (BufReader::new(example.connect()), BufReader::new(example.connect()));
    let began = Instant::now();
    assert!(ask(&mut silent).unwrap().starts_with("HTTP/1.1 404"));
    let ending = std::thread::spawn(move || {
        // A reset is an end as well.
        let count = silent.read(&mut [0]).unwrap_or(0);
        (count, began.elapsed())
    });
    let mut asked = began;
    while began.elapsed() < limit * 5 / 2 {
        let before = std::mem::replace(&mut asked, Instant::now());
        match ask(&mut busy) {
            Ok(status) => assert!(status.starts_with("HTTP/1.1 404"), "{status}"),
            // It was the machine that kept it silent for so long.
            Err(_) if before.elapsed() >= limit => busy = BufReader::new(example.connect()),
            Err(error) => panic!("{error}"),
        }
    }
    let (count, lived) = ending.join().unwrap();
    assert_eq!(count, 0);
    assert!(limit <= lived && lived < 10 * limit, "{lived:?}");
}

/// The chain of a certificate for localhost and its key, in files of this directory.
#[cfg(feature = "tls")]
fn identity(dir: &common::TempDir) -> (rustls::RootCertStore, [String; 2]) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let texts = [("cert.pem", made.cert.pem()), ("key.pem", made.signing_key.serialize_pem())];
    let files = texts.map(|(name, text)| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    });
    (roots, files)
}

#[test]
#[cfg(feature = "tls")]
fn https_answers_and_tells_idle_clients_goodbye_when_it_is_interrupted() {
    let _watchdog = watchdog();
    let dir = common::temp_dir();
    let (roots, [certificate, key]) = identity(&dir);
    let example = Example::start_with("https", &[&certificate, &key]);
    let config = rustls::ClientConfig::builder().with_root_certificates(roots);
    let config = std::sync::Arc::new(config.with_no_client_auth());
    let name = "localhost".try_into().unwrap();
    let client = rustls::ClientConnection::new(config, name).unwrap();
    let mut stream = BufReader::new(rustls::StreamOwned::new(client, example.connect()));
    let request = b"GET /hello/you HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.get_mut().write_all(request).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    while line != "hello you\n" {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "no answer");
    }
    example.interrupt();
    // Without a close_notify this would be an error.
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    drop(stream);
    example.finish();
}

#[test]
fn websocket_echo_sends_messages_back() {
    sends_messages_back("websocket_echo");
}

#[test]
fn axum_websocket_sends_messages_back_beside_other_routes() {
    let example = sends_messages_back("axum_websocket");
    assert!(get(&example, "/").ends_with("a WebSocket is at /echo\n"));
    let refused = get(&example, "/echo");
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
}

fn sends_messages_back(name: &str) -> Example {
    let _watchdog = watchdog();
    let example = Example::start(name);
    let mut stream = example.connect();
    // Key and answer of RFC 6455, section 1.3.
    let request = "GET /echo HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
    }
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    // A masked text frame of "hello", with a mask of zeros.
    stream.write_all(b"\x81\x85\0\0\0\0hello").unwrap();
    let mut frame = [0; 7];
    lines.read_exact(&mut frame).unwrap();
    assert_eq!(&frame, b"\x81\x05hello");
    example
}
