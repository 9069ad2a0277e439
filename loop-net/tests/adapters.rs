//! The halves of a stream as `tokio::io` sees them, against scripts of tokio's own test I/O: every split,
//! pauses, and errors (B-STR-24). What writes as `futures_io` is the same code.
#![cfg(feature = "tokio-io")]

mod common;

use std::io::{self, Read, Write};

use common::{World, every_kind};
use loop_core::{spawn, yield_now};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, copy, copy_buf};
use tokio_test::io::{Builder, Handle};

const WORDS: &[u8] = b"hello, world\n";

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "as in the script")
}

/// Lets a script go on later: until then, what it is asked for would block.
fn later(mut handle: Handle, act: impl FnOnce(&mut Handle) + 'static) {
    spawn(async move {
        for _ in 0..3 {
            yield_now().await;
        }
        act(&mut handle);
    })
    .detach();
}

#[test]
fn b_str_24_what_a_script_says_arrives_however_it_is_split() {
    every_kind().that_write().run(|world: &mut World| {
        let (_reader, mut writer, mut peer) = world.open_writing();
        for split in 0..=WORDS.len() {
            let (first, second) = WORDS.split_at(split);
            let mut script = Builder::new();
            if !first.is_empty() {
                script.read(first);
            }
            let (mut script, handle) = script.build_with_handle();
            world.block_on(async {
                later(handle, move |handle| {
                    if !second.is_empty() {
                        handle.read(second);
                    }
                    handle.read_error(broken());
                });
                let error = copy(&mut script, &mut writer).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
                writer.flush().await.unwrap();
            });
            // The error came behind the bytes, and cost none of them.
            assert_eq!(world.read(&mut peer, WORDS.len()), WORDS, "split at {split}");
        }
    });
}

#[test]
fn b_str_24_what_comes_in_is_what_a_script_expects_however_it_is_split() {
    every_kind().that_read().run(|world: &mut World| {
        for split in 0..=WORDS.len() {
            let (mut reader, writer, mut peer) = world.open_reading();
            // The script takes the two parts one by one, whatever is offered.
            let (first, second) = WORDS.split_at(split);
            let mut script = Builder::new();
            for part in [first, second] {
                if !part.is_empty() {
                    script.write(part);
                }
            }
            let mut script = script.build();
            peer.write_all(WORDS).unwrap();
            peer.end();
            world.block_on(async {
                let count = copy_buf(&mut reader, &mut script).await.unwrap();
                assert_eq!(count, WORDS.len() as u64);
                assert_eq!(reader.read(4).await.unwrap(), b"", "the end");
            });
            drop(writer);
        }
    });
}

#[test]
fn b_str_24_what_a_script_refuses_stays_unread() {
    every_kind().that_read().run(|world: &mut World| {
        for split in 1..WORDS.len() {
            let (mut reader, writer, mut peer) = world.open_reading();
            let (first, second) = WORDS.split_at(split);
            let mut script = Builder::new().write(first).write_error(broken()).build();
            peer.write_all(WORDS).unwrap();
            peer.end();
            world.block_on(async {
                let error = copy_buf(&mut reader, &mut script).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
                // Nothing that was not taken is gone.
                let mut rest = Vec::new();
                AsyncReadExt::read_to_end(&mut reader, &mut rest).await.unwrap();
                assert_eq!(rest, second);
            });
            drop(writer);
        }
    });
}

#[test]
fn b_str_24_lines_and_exact_reads_of_a_split_stream() {
    every_kind().both_ways().run(|world: &mut World| {
        let (mut reader, mut writer, mut peer) = world.open_stream();
        for split in 1..WORDS.len() {
            let (first, second) = WORDS.split_at(split);
            peer.write_all(first).unwrap();
            world.turn();
            let mut rest = peer.try_clone().unwrap();
            world.block_on(async {
                let late = spawn(async move {
                    yield_now().await;
                    rest.write_all(second).unwrap();
                });
                let mut line = Vec::new();
                if split % 2 == 0 {
                    AsyncBufReadExt::read_until(&mut reader, b'\n', &mut line).await.unwrap();
                } else {
                    line.resize(WORDS.len(), 0);
                    AsyncReadExt::read_exact(&mut reader, &mut line).await.unwrap();
                }
                assert_eq!(line, WORDS, "split at {split}");
                late.await.unwrap();
            });
        }
        // Shutting down ends our side, and over TLS the connection; the peer reads an end, not a failure.
        world.block_on(async {
            writer.write_all(b"bye").await.unwrap();
            writer.shutdown().await.unwrap();
        });
        peer.set_nonblocking(false).unwrap();
        let mut heard = Vec::new();
        let done = std::thread::spawn(move || peer.read_to_end(&mut heard).map(|_| heard));
        world.until(|| done.is_finished());
        assert_eq!(done.join().unwrap().unwrap(), b"bye");
    });
}
