//! How much is read at a time, and where to: what a stream receives in place, and what comes all at once.

mod common;

use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use common::{World, for_each_backend, reset, watchdog};
use loop_net::{StreamReader, StreamWriter};

/// A stream whose reader has copied small messages out, so that it has room to receive into.
fn with_room(world: &mut World) -> (StreamReader, StreamWriter, TcpStream) {
    let (listener, addr) = common::listener();
    let stream = world.net.tcp_connect(addr).open_stream();
    let (mut reader, writer) = world.block_on(stream).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    peer.set_nodelay(true).unwrap();
    for _ in 0..3 {
        peer.write_all(b"small").unwrap();
        assert_eq!(read(world, &mut reader), b"small");
    }
    (reader, writer, peer)
}

fn read(world: &mut World, reader: &mut StreamReader) -> Vec<u8> {
    let mut into = [0; 8192];
    let count = world.block_on(reader.read_into(&mut into)).unwrap();
    into[..count].to_vec()
}

#[test]
fn what_is_more_than_the_room_comes_whole_in_one_turn() {
    for_each_backend(|world| {
        let _watchdog = watchdog();
        let (mut reader, _writer, mut peer) = with_room(world);
        for size in [1023, 1024, 1025, 3000, 5, 3000, 1024, 1024, 7] {
            let message: Vec<u8> = (0..size).map(|at| (at / 3) as u8).collect();
            peer.write_all(&message).unwrap();
            world.until_readable(1);
            world.turn();
            assert_eq!(read(world, &mut reader), message);
        }
        // What came later goes behind what was not read yet, wherever that is.
        for word in ["one ", "two ", "three"] {
            peer.write_all(word.as_bytes()).unwrap();
            world.until_readable(1);
            world.turn();
        }
        assert_eq!(world.block_on(reader.read_exact(6)).unwrap(), b"one tw");
        assert_eq!(read(world, &mut reader), b"o three");
        drop(peer);
        assert_eq!(world.block_on(reader.read_to_end()).unwrap(), b"");
    });
}

#[test]
fn b_str_09_what_fills_the_room_is_read_before_the_loss() {
    for_each_backend(|world| {
        let _watchdog = watchdog();
        let (mut reader, _writer, mut peer) = with_room(world);
        peer.write_all(&[7; 1024]).unwrap();
        reset(peer);
        // Both are there before the first turn.
        world.until_readable(1);
        let mut got = 0;
        let error = loop {
            match world.block_on(reader.read_into(&mut [0; 4096])) {
                Ok(count) => got += count,
                Err(error) => break std::io::Error::from(error),
            }
        };
        assert_eq!((got, error.kind()), (1024, ErrorKind::ConnectionReset));
    });
}

#[test]
fn b_str_13_a_small_limit_pauses_the_transport_also_after_small_messages() {
    for_each_backend(|world| {
        let _watchdog = watchdog();
        let (mut reader, _writer, mut peer) = with_room(world);
        reader.set_limit(3).unwrap();
        peer.write_all(b"12345678").unwrap();
        world.until_readable(1);
        world.turn();
        assert!(!reader.transport().is_reading(), "8 bytes are more than twice 3");
        assert_eq!(read(world, &mut reader), b"12345678");
        assert!(reader.transport().is_reading());
    });
}

#[test]
fn a_reader_that_is_gone_throws_away_what_comes_also_after_small_messages() {
    for_each_backend(|world| {
        let _watchdog = watchdog();
        let (reader, writer, mut peer) = with_room(world);
        drop(reader);
        for size in [5, 5000] {
            peer.write_all(&vec![1; size]).unwrap();
            world.until_readable(1);
            world.turn();
        }
        writer.write(b"still here");
        assert_eq!(world.read(&mut peer, 10), b"still here");
        writer.close();
        world.block_on(writer.wait_closed()).unwrap();
    });
}
