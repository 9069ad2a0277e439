//! Our clients of TLS, and servers that are slow, or none.
#![cfg(feature = "tls")]

mod common;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use common::tls::{begin, shared, until_registered};
use common::{Probe, World, for_each_backend};
use rustls::ServerConnection;

/// Sends all that the engine has to say, byte by byte, with a turn of the loop behind each.
fn trickle(world: &mut World, tls: &mut ServerConnection, socket: &mut TcpStream) {
    let mut out = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut out).unwrap();
    }
    for byte in out {
        socket.write_all(&[byte]).unwrap();
        world.turn();
    }
}

/// Takes what has come, and gives back what of it is in the clear.
fn take(tls: &mut ServerConnection, socket: &mut TcpStream) -> Vec<u8> {
    let (mut data, mut plain) = ([0; 16384], Vec::new());
    let mut data = match socket.read(&mut data) {
        Ok(count) => &data[..count],
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => &[],
        Err(error) => panic!("{error}"),
    };
    while !data.is_empty() {
        tls.read_tls(&mut data).unwrap();
        tls.process_new_packets().unwrap();
        let _ = tls.reader().read_to_end(&mut plain);
    }
    plain
}

#[test]
fn records_may_come_byte_by_byte_to_a_client_too() {
    for_each_backend(|world| {
        let (listener, addr) = common::listener();
        let probe = Probe::new();
        let transport = begin(world, addr, shared().client(), &probe);
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut tls = ServerConnection::new(Arc::new(shared().server_config())).unwrap();
        while tls.is_handshaking() {
            world.turn();
            take(&mut tls, &mut socket);
            trickle(world, &mut tls, &mut socket);
        }
        world.until(|| probe.trace.has("made"));
        probe.transport().unwrap().write(b"quickly");
        let mut heard = Vec::new();
        while heard.len() < 7 {
            world.turn();
            heard.extend(take(&mut tls, &mut socket));
        }
        assert_eq!(heard, b"quickly");
        // Two records, so that an end and a beginning may come together.
        for words in [b"slowly", b", very"] {
            tls.writer().write_all(words).unwrap();
        }
        trickle(world, &mut tls, &mut socket);
        tls.send_close_notify();
        trickle(world, &mut tls, &mut socket);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "data slowly", "data , very", "eof", "lost"]);
        assert!(transport.is_closing());
        until_registered(world, 0);
    });
}

#[test]
fn garbage_instead_of_a_server_hello_is_the_connectors_error() {
    let mut half_a_record = vec![22, 3, 3, 0, 100];
    half_a_record.extend([2; 50]);
    let mut too_long = vec![22, 3, 3, 255, 255];
    too_long.extend([2; 300]);
    let answers: [(&[u8], _); 5] = [
        (b"", io::ErrorKind::ConnectionReset),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", io::ErrorKind::InvalidData),
        (&[0; 200], io::ErrorKind::InvalidData),
        (&half_a_record, io::ErrorKind::ConnectionReset),
        (&too_long, io::ErrorKind::InvalidData),
    ];
    for_each_backend(|world| {
        let (listener, addr) = common::listener();
        for (answer, kind) in answers {
            let probe = Probe::new();
            let given = probe.clone();
            let connecting = world.net.tcp_connect(addr).tls(shared().client());
            let task = world.event_loop.spawn(connecting.connect(move || given));
            world.idle();
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(answer).unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            let error = world.block_on(task).unwrap().unwrap_err();
            assert_eq!(error.kind(), kind, "{answer:?}: {error}");
            assert!(error.to_string().contains(&addr.to_string()), "{error}");
            until_registered(world, 0);
            assert_eq!(probe.trace.take(), [""; 0]);
        }
    });
}
