//! Streams: B-STR-01 to 06, 08 to 10, 12, 13 and 15 to 22 of the contract, on each backend, and the
//! empty separator of B-STR-07. Two concurrent reads (B-STR-11) do not compile: reads take `&mut self`.

mod common;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, Write};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use common::{Kind, PIPES, Peer, World, every_kind, text};
use loop_core::yield_now;
use loop_net::{ReadError, StreamReader, StreamWriter, WriteState};

const LIMIT: usize = 64 * 1024;

/// A stream that reads `bytes` and then the end.
fn holding(world: &mut World, bytes: &[u8]) -> (StreamReader, Option<StreamWriter>) {
    let (reader, writer, peer) = world.open_reading();
    feed(peer, bytes);
    (reader, writer)
}

/// Sends from a thread, then ends.
fn feed(mut peer: Peer, bytes: &[u8]) {
    let bytes = bytes.to_vec();
    std::thread::spawn(move || {
        // The reader may go first.
        let _ = peer.write_all(&bytes);
        peer.end();
    });
}

/// Whether a future is still waiting after some iterations.
async fn waits<F: Future>(future: F) -> bool {
    let mut future = pin!(future);
    for _ in 0..8 {
        if std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await {
            return false;
        }
        yield_now().await;
    }
    true
}

/// Sends chunk by chunk, with time for each to arrive alone, then ends.
async fn drip(mut peer: Peer, chunks: Vec<Vec<u8>>) {
    for chunk in chunks {
        peer.write_all(&chunk).unwrap();
        for _ in 0..4 {
            yield_now().await;
        }
    }
}

/// How much a stream holds.
fn buffered(reader: &StreamReader) -> usize {
    let shown = format!("{reader:?}");
    let mut numbers = shown.split(|c: char| !c.is_ascii_digit());
    numbers.find_map(|digits| digits.parse().ok()).unwrap()
}

/// Sends from a thread, for a pipe takes less at once than these tests write.
fn send(peer: &Peer, bytes: Vec<u8>) -> std::thread::JoinHandle<()> {
    let mut peer = peer.try_clone().unwrap();
    std::thread::spawn(move || peer.write_all(&bytes).unwrap())
}

fn incomplete<T: std::fmt::Debug>(result: Result<T, ReadError>) -> (Vec<u8>, Option<usize>) {
    match result {
        Err(ReadError::Incomplete { partial, expected }) => (partial, expected),
        other => panic!("{other:?}"),
    }
}

fn overrun<T: std::fmt::Debug>(result: Result<T, ReadError>) -> usize {
    match result {
        Err(ReadError::LimitOverrun { consumed }) => consumed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn b_str_01_read_waits_only_while_nothing_is_there() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer, mut peer) = world.open_reading();
        world.block_on(async {
            assert_eq!(reader.read(0).await.unwrap(), b"");
            assert!(waits(reader.read(10)).await);
            peer.write_all(b"hello").unwrap();
            assert_eq!(reader.read(2).await.unwrap(), b"he");
            assert_eq!(reader.read(10).await.unwrap(), b"llo");
            peer.end();
            assert_eq!(reader.read(10).await.unwrap(), b"");
            assert_eq!(reader.read(10).await.unwrap(), b"");
        });
    });
}

#[test]
fn b_str_01_read_into_fills_what_it_is_lent() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer, mut peer) = world.open_reading();
        world.block_on(async {
            let mut lent = [0; 4];
            assert_eq!(reader.read_into(&mut []).await.unwrap(), 0);
            assert!(waits(reader.read_into(&mut lent)).await);
            peer.write_all(b"hello").unwrap();
            assert_eq!(reader.read_into(&mut lent).await.unwrap(), 4);
            assert_eq!(&lent, b"hell");
            assert_eq!(reader.read_into(&mut lent).await.unwrap(), 1);
            assert_eq!(&lent, b"oell");
            peer.end();
            assert_eq!(reader.read_into(&mut lent).await.unwrap(), 0);
        });
    });
}

#[test]
fn b_str_02_read_to_end_takes_however_much_there_is() {
    every_kind().that_read().run(|world| {
        let data: Vec<u8> = (0..20 * LIMIT).map(|i| (i / 7) as u8).collect();
        let (mut reader, _writer) = holding(world, &data);
        assert!(world.block_on(reader.read_to_end()).unwrap() == data);
        assert_eq!(world.block_on(reader.read_to_end()).unwrap(), b"");
    });
}

#[test]
fn b_str_03_read_exact_takes_that_many_or_says_how_many() {
    every_kind().that_read().run(|world| {
        let data: Vec<u8> = (0..5 * LIMIT).map(|i| (i / 7) as u8).collect();
        let (mut reader, _writer) = holding(world, &data);
        world.block_on(async {
            assert_eq!(reader.read_exact(0).await.unwrap(), b"");
            assert!(reader.read_exact(4 * LIMIT).await.unwrap() == data[..4 * LIMIT]);
            let (partial, expected) = incomplete(reader.read_exact(LIMIT + 1).await);
            assert_eq!((partial.len(), expected), (LIMIT, Some(LIMIT + 1)));
            assert!(reader.at_eof(), "the buffer was consumed");
            assert_eq!(incomplete(reader.read_exact(1).await), (vec![], Some(1)));
            assert_eq!(reader.read_exact(0).await.unwrap(), b"");
        });
    });
}

#[test]
fn b_str_04_read_until_includes_the_separator_wherever_chunks_end() {
    every_kind().that_read().run(|world| {
        let text = b"one--two--three-x----tail";
        for size in [1, 2, 3, 5, text.len()] {
            let (mut reader, _writer, peer) = world.open_reading();
            let chunks = text.chunks(size).map(<[u8]>::to_vec).collect();
            world.event_loop.spawn(drip(peer, chunks)).detach();
            world.block_on(async {
                for found in ["one--", "two--", "three-x--", "--"] {
                    assert_eq!(reader.read_until(b"--").await.unwrap(), found.as_bytes());
                }
                assert_eq!(incomplete(reader.read_until(b"--").await), (b"tail".to_vec(), None));
            });
        }
    });
}

#[test]
fn b_str_05_the_end_before_the_separator_consumes_the_buffer() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer) = holding(world, b"no end");
        world.block_on(async {
            assert_eq!(incomplete(reader.read_until(b"\n").await), (b"no end".to_vec(), None));
            assert!(reader.at_eof());
            assert_eq!(incomplete(reader.read_until(b"\n").await), (vec![], None));
        });
    });
}

#[test]
fn b_str_06_the_limit_is_for_the_data_without_its_separator() {
    every_kind().that_read().run(|world| {
        let mut data = vec![b'x'; LIMIT];
        data.extend_from_slice(b"\r\n");
        data.extend(vec![b'y'; LIMIT + 1]);
        data.extend_from_slice(b"\r\nrest");
        let (mut reader, _writer) = holding(world, &data);
        world.block_on(async {
            assert_eq!(reader.read_until(b"\r\n").await.unwrap().len(), LIMIT + 2);
            // Too long by one; whether the separator was there when it was looked for or not.
            let consumed = overrun(reader.read_until(b"\r\n").await);
            assert_eq!(consumed, LIMIT + 1);
            // It stays buffered, and one may go on behind it.
            assert_eq!(reader.read_exact(consumed).await.unwrap(), vec![b'y'; LIMIT + 1]);
            assert_eq!(reader.read_until(b"\r\n").await.unwrap(), b"\r\n");
            assert_eq!(reader.read_to_end().await.unwrap(), b"rest");
        });
    });
}

#[test]
fn b_str_06_without_a_separator_consumed_holds_none() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer, mut peer) = world.open_reading();
        let mut long = vec![b'x'; LIMIT + 5];
        long.push(b'\r');
        let sending = send(&peer, long);
        world.block_on(async {
            let consumed = overrun(reader.read_until(b"\r\n").await);
            assert!((LIMIT + 1..=LIMIT + 5).contains(&consumed), "{consumed}");
            reader.read_exact(consumed).await.unwrap();
            sending.join().unwrap(); // What is left fits.
            peer.write_all(b"\n").unwrap();
            let rest = reader.read_until(b"\r\n").await.unwrap();
            assert_eq!(consumed + rest.len(), LIMIT + 7);
        });
    });
}

#[test]
fn b_str_07_an_empty_separator_is_refused() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer) = holding(world, b"x");
        let error = world.block_on(reader.read_until(b"")).unwrap_err();
        assert!(matches!(error, ReadError::InvalidSeparator));
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
        assert_eq!(world.block_on(reader.read_to_end()).unwrap(), b"x");
    });
}

#[test]
fn b_str_08_lines() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer) = holding(world, b"one\n\ntwo\r\nlast");
        world.block_on(async {
            for line in ["one\n", "\n", "two\r\n", "last"] {
                assert_eq!(reader.read_line().await.unwrap().unwrap(), line.as_bytes());
            }
            assert_eq!(reader.read_line().await.unwrap(), None);
            assert_eq!(reader.read_line().await.unwrap(), None);
        });
    });
}

#[test]
fn b_str_08_a_line_over_the_limit_is_discarded_and_reading_resumes() {
    every_kind().that_read().run(|world| {
        // Its end is known: the line goes.
        let (mut reader, _writer, mut peer) = world.open_reading();
        let long = vec![b'x'; LIMIT + 1];
        let sending = send(&peer, [&long[..], b"\nnext\n"].concat());
        world.until(|| buffered(&reader) == LIMIT + 7);
        sending.join().unwrap();
        world.block_on(async {
            overrun(reader.read_line().await);
            assert_eq!(reader.read_line().await.unwrap().unwrap(), b"next\n");
        });

        // It is not: all that is buffered goes.
        let sending = send(&peer, long);
        world.until(|| buffered(&reader) == LIMIT + 1);
        sending.join().unwrap();
        world.block_on(async {
            overrun(reader.read_line().await);
            peer.write_all(b"tail\n").unwrap();
            assert_eq!(reader.read_line().await.unwrap().unwrap(), b"tail\n");
        });
    });
}

#[test]
fn b_str_09_an_error_is_raised_by_every_later_read() {
    every_kind().reset().run(|world| {
        let (mut reader, writer, mut peer) = world.open_stream();
        peer.write_all(b"buffered").unwrap();
        world.block_on(async {
            assert!(waits(reader.read_exact(100)).await);
            peer.reset();
            writer.wait_closed().await.unwrap_err();
            for _ in 0..2 {
                for error in [
                    reader.read(1).await.unwrap_err(),
                    reader.read_to_end().await.unwrap_err(),
                    reader.read_exact(1).await.unwrap_err(),
                    reader.read_until(b"d").await.unwrap_err(),
                    reader.read_line().await.unwrap_err(),
                ] {
                    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::ConnectionReset);
                }
            }
        });
    });
}

#[test]
fn b_str_10_at_eof_is_the_end_and_an_empty_buffer() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer, mut peer) = world.open_reading();
        assert!(!reader.at_eof());
        peer.write_all(b"xy").unwrap();
        peer.end();
        world.block_on(async {
            assert_eq!(reader.read(1).await.unwrap(), b"x");
            assert!(waits(std::future::pending::<()>()).await);
            assert!(!reader.at_eof(), "one byte is left");
            assert_eq!(reader.read(1).await.unwrap(), b"y");
            assert_eq!(reader.read(1).await.unwrap(), b"");
            assert!(reader.at_eof());
        });
    });
}

#[test]
fn b_str_12_a_dropped_read_consumes_nothing() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer, mut peer) = world.open_reading();
        peer.write_all(b"abc").unwrap();
        world.block_on(async {
            assert!(waits(reader.read_exact(4)).await);
            assert!(waits(reader.read_until(b"\n")).await);
            assert!(waits(reader.read_line()).await);
            assert!(waits(reader.read_to_end()).await);
            let long = loop_core::timeout(std::time::Duration::ZERO, reader.read_exact(9));
            assert!(long.await.is_err());
            peer.write_all(b"d\n").unwrap();
            assert_eq!(reader.read_line().await.unwrap().unwrap(), b"abcd\n");
        });
    });
}

#[test]
fn b_str_13_a_full_buffer_pauses_the_transport_and_reading_resumes_it() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer, peer) = world.open_reading();
        let total = 8 << 20;
        let sender = std::thread::spawn(move || {
            let (mut peer, chunk) = (peer, vec![b'x'; 1 << 20]);
            (0..total / chunk.len()).for_each(|_| peer.write_all(&chunk).unwrap());
        });
        let transport = reader.transport().clone();
        world.until(|| !transport.is_reading());
        // One read can overshoot the mark, over TLS with a record that began in the one before.
        let most = 256 * 1024 + if world.kind == Kind::Tls { 16 * 1024 } else { 0 };
        let buffered = buffered(&reader);
        assert!((2 * LIMIT..=2 * LIMIT + most).contains(&buffered), "{buffered}");
        world.block_on(async {
            let mut left = buffered;
            while left > LIMIT {
                assert!(!transport.is_reading(), "{left}");
                left -= reader.read(10_000).await.unwrap().len();
            }
            assert!(transport.is_reading());
            // No deadlock for more than the buffer holds.
            let rest = total - (buffered - left);
            assert_eq!(reader.read_exact(rest).await.unwrap().len(), rest);
            assert_eq!(reader.read(1).await.unwrap(), b"");
        });
        sender.join().unwrap();
    });
}

/// Writes until the transport has paused the stream; how much.
fn stuff(writer: &StreamWriter) -> usize {
    let chunk = [b'x'; 48 * 1024];
    let mut written = chunk.len();
    while writer.write(&chunk) == WriteState::Open {
        written += chunk.len();
    }
    written
}

#[test]
fn b_str_15_write_never_waits_and_drain_only_while_paused() {
    every_kind().that_write().run(|world| {
        let (_reader, writer, mut peer) = world.open_writing();
        world.block_on(async {
            writer.write(b"a");
            writer.write_all_vectored(&["b", "c"]);
            assert!(!waits(writer.drain()).await);
        });
        let written = stuff(&writer);
        world.block_on(async { assert!(waits(writer.drain()).await) });
        let got = world.read(&mut peer, written + 3);
        assert_eq!(&got[..3], b"abc");
        world.block_on(writer.drain()).unwrap();
    });
}

#[test]
fn b_str_16_any_number_of_tasks_may_drain() {
    for lost in [false, true] {
        every_kind().that_write().run(|world| {
            let (_reader, writer, mut peer) = world.open_writing();
            let writer = Rc::new(writer);
            let written = stuff(&writer);
            let (drained, failed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            for _ in 0..10 {
                let (writer, drained, failed) = (writer.clone(), drained.clone(), failed.clone());
                let task = world.event_loop.spawn(async move {
                    let counter = if writer.drain().await.is_ok() { drained } else { failed };
                    counter.set(counter.get() + 1);
                });
                task.detach();
            }
            world.idle();
            assert_eq!((drained.get(), failed.get()), (0, 0));
            if lost {
                peer.reset();
                world.until(|| failed.get() == 10);
            } else {
                world.read(&mut peer, written);
                world.until(|| drained.get() == 10);
            }
        });
    }
}

#[test]
fn b_str_17_drain_raises_what_the_connection_was_lost_by() {
    every_kind().that_write().run(|world| {
        let (_reader, writer, peer) = world.open_writing();
        // With something left to write, the loss of any kind is an error.
        stuff(&writer);
        peer.reset();
        world.block_on(async {
            writer.wait_closed().await.unwrap_err();
            let error = writer.drain().await.unwrap_err();
            let lost = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
            assert!(lost.contains(&error.kind()), "{error}");
        });

        // Lost without an error it is a connection error still; and closing, it yields once.
        let (_reader, writer, _peer) = world.open_writing();
        let kind = world.kind;
        world.block_on(async {
            writer.close();
            if kind == Kind::Tls {
                // The loss comes with the peer's goodbye.
                writer.drain().await.unwrap();
                writer.wait_closed().await.unwrap();
            }
            let error = writer.drain().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
        });
    });
}

#[test]
fn b_str_18_wait_closed_completes_with_the_loss() {
    every_kind().that_write().run(|world| {
        let (_reader, writer, mut peer) = world.open_writing();
        if world.kind.reads() {
            peer.write_all(b"unread").unwrap();
        }
        world.block_on(async {
            assert!(waits(writer.wait_closed()).await);
            writer.close();
            writer.wait_closed().await.unwrap();
            writer.wait_closed().await.unwrap();
        });

        if !world.kind.resets() {
            return;
        }
        let (_reader, writer, peer) = world.open_stream();
        peer.reset();
        let error = world.block_on(writer.wait_closed()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(text(&error).starts_with("read from 127.0.0.1:"), "{error}");
        // One that nobody waits for is nobody's report: the end of this test checks that.
        let (reader, writer, peer) = world.open_stream();
        peer.reset();
        world.until(|| writer.is_closing());
        world.idle();
        drop((reader, writer));
    });
}

#[test]
fn b_str_19_closing_the_writer_ends_the_reader() {
    every_kind().both_ways().run(|world| {
        let (mut reader, writer, mut peer) = world.open_stream();
        peer.write_all(b"abc").unwrap();
        world.until(|| buffered(&reader) == 3);
        world.block_on(async {
            assert!(waits(reader.read_exact(4)).await);
            writer.close();
            assert!(writer.is_closing());
            assert_eq!(reader.read_to_end().await.unwrap(), b"abc");
            assert!(reader.at_eof());
        });
    });
}

#[test]
fn b_str_20_after_the_peers_end_we_may_write() {
    every_kind().half_closed().run(|world| {
        let (mut reader, writer, mut peer) = world.open_stream();
        peer.end();
        world.block_on(async {
            assert_eq!(reader.read(1).await.unwrap(), b"");
            assert!(!writer.is_closing());
            assert_eq!(writer.write(b"answer"), WriteState::Open);
            writer.drain().await.unwrap();
            writer.write_eof();
        });
        assert_eq!(world.read_to_end(&mut peer), b"answer");
        assert!(!writer.is_closing());
    });
}

#[test]
fn b_str_21_handlers_are_tasks_whose_errors_are_reported() {
    every_kind().not_over(PIPES, "no server accepts it").run(|world| {
        let held: Rc<RefCell<Vec<StreamWriter>>> = Rc::default();
        let kept = held.clone();
        let (builder, address) = world.server();
        let server =
            builder.serve_streams(async move |mut reader: StreamReader, writer: StreamWriter| {
                let line = reader.read_line().await?.unwrap_or_default();
                match line.trim_ascii_end() {
                    b"panic" => panic!("as asked"),
                    b"error" => Err(io::Error::other("as asked")),
                    b"keep" => {
                        kept.borrow_mut().push(writer);
                        Ok(())
                    }
                    other => {
                        writer.write(other);
                        Ok(())
                    }
                }
            });
        let server = world.block_on(server).unwrap();
        let talk = |line: &str, world: &mut World| {
            let mut peer = address.dial(&server);
            peer.write_all(line.as_bytes()).unwrap();
            if line == "keep\n" {
                world.until(|| !held.borrow().is_empty());
                assert!(!held.borrow()[0].is_closing());
                held.borrow_mut().clear();
            }
            world.read_to_end(&mut peer)
        };
        assert_eq!(talk("echo\n", world), b"echo", "flushed, and closed");
        assert_eq!(talk("keep\n", world), b"");
        assert_eq!(world.reports.take(), [""; 0]);
        assert_eq!(talk("error\n", world), b"");
        assert_eq!(world.reports.take(), ["a stream handler failed: error \"as asked\""]);
        assert_eq!(talk("panic\n", world), b"");
        let reports = world.reports.take();
        assert!(reports.len() == 1 && reports[0].contains("as asked"), "{reports:?}");
        assert_eq!(talk("still here\n", world), b"still here");
        server.close();
        world.block_on(server.wait_closed());
    });
}

#[test]
fn b_str_21_a_cancelled_handler_closes_its_connection() {
    every_kind().not_over(PIPES, "no server accepts it").run(|world| {
        let handler = async |mut reader: StreamReader, _writer: StreamWriter| {
            let _ = reader.read_to_end().await;
        };
        let (builder, address) = world.server();
        let server = builder.serve_streams(handler);
        let server = world.block_on(server).unwrap();
        let mut peer = address.dial(&server);
        let lp = world.event_loop.loop_ref();
        world.until(|| !lp.tasks().is_empty());
        world.idle();
        for task in lp.tasks() {
            task.cancel();
        }
        assert_eq!(world.read_to_end(&mut peer), b"");
        world.until(|| server.connections() == 0);
    });
}

#[test]
fn b_str_22_dropping_the_writer_flushes_and_closes() {
    every_kind().that_write().run(|world| {
        let (_reader, writer, mut peer) = world.open_writing();
        let written = stuff(&writer);
        drop(writer);
        assert_eq!(world.read_to_end(&mut peer).len(), written);
    });
}

#[test]
fn b_str_22_halves_outlive_the_loop() {
    every_kind().run(|world| {
        let (mut reader, writer, _peer) = world.open();
        let is_open = world.only_socket();
        world.event_loop.close();
        assert_eq!(world.reports.take(), ["a connection was open when its loop closed"]);
        assert!(!is_open());
        if let Some(writer) = &writer {
            assert_eq!(writer.write(b"x"), WriteState::Closed);
            writer.write_eof();
            writer.close();
            assert!(writer.is_closing());
        }
        // On another loop they say so instead of waiting for ever.
        let errors = loop_net::run(async {
            let mut errors: Vec<io::Error> = Vec::new();
            if let Some(reader) = &mut reader {
                errors.push(reader.read(1).await.unwrap_err().into());
            }
            if let Some(writer) = &writer {
                errors.push(writer.drain().await.unwrap_err());
                errors.push(writer.wait_closed().await.unwrap_err());
            }
            errors
        });
        for error in errors.unwrap() {
            assert!(text(&error).contains("closed"), "{error}");
        }
        drop((reader, writer));
    });
}

#[test]
fn a_dropped_reader_throws_away_and_still_sees_the_end() {
    every_kind().half_closed().run(|world| {
        let (reader, writer, mut peer) = world.open_stream();
        drop(reader);
        for _ in 0..64 {
            peer.write_all(&[b'x'; LIMIT / 2]).unwrap();
            world.turn();
        }
        let transport = writer.transport().clone();
        assert!(transport.is_reading());
        peer.end();
        world.until(|| !transport.is_reading());
        writer.write(b"answer");
        assert_eq!(world.read(&mut peer, 6), b"answer");
    });
}
