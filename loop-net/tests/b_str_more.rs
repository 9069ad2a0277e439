//! Several separators, limits, lines and the adapters: B-STR-07, 08, 14 and 24 of the contract, on each
//! backend.

mod common;

use std::io::{Read, Write};
use std::time::Duration;

use common::{Kind, World, every_kind, text, watchdog};
use futures_util::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, StreamExt};
use loop_net::{ReadError, StreamReader};

#[test]
fn b_str_07_whichever_separator_ends_first_wins() {
    every_kind().that_read().run(|world| {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("a\r\nb\n", &["\r\n", "\n"], &["a\r\n", "b\n"]),
            ("a\r\nb\n", &["\n", "\r\n"], &["a\r\n", "b\n"]),
            // Ends first, though it begins later.
            ("xABCDy", &["ABCD", "BC"], &["xABC"]),
            ("xAByABC", &["ABC", "AB"], &["xAB", "yAB"]),
            ("1ab2a", &["a", "ab"], &["1a", "b2a"]),
        ];
        for (input, separators, expected) in cases {
            let separators: Vec<&[u8]> = separators.iter().map(|sep| sep.as_bytes()).collect();
            // At once, and byte by byte.
            for bytewise in [false, true] {
                let (mut reader, _writer, mut theirs) = world.open_reading();
                let input = input.as_bytes().to_vec();
                if bytewise {
                    let lp = world.event_loop.loop_ref();
                    let task = lp.spawn(async move {
                        for byte in input {
                            // What follows the last separator may find nobody.
                            let _ = theirs.write_all(&[byte]);
                            loop_core::sleep(Duration::from_micros(100)).await;
                        }
                    });
                    task.detach();
                } else {
                    theirs.write_all(&input).unwrap();
                }
                for part in *expected {
                    let read = world.block_on(reader.read_until_any(&separators)).unwrap();
                    assert_eq!(std::str::from_utf8(&read).unwrap(), *part);
                }
                world.idle();
            }
        }
    });
}

#[test]
fn b_str_07_the_winner_decides_the_limit_and_empty_ones_are_refused() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer, mut theirs) = world.open_reading();
        reader.set_limit(3).unwrap();
        theirs.write_all(b"1234AB!").unwrap();
        // The shorter of two that end together begins later: more bytes before it.
        let read = reader.read_until_any(&[b"4AB", b"B"]);
        let error = world.block_on(read).unwrap_err();
        assert!(matches!(error, ReadError::LimitOverrun { consumed: 5 }), "{error:?}");
        let read = reader.read_until_any(&[b"4AB"]);
        assert_eq!(world.block_on(read).unwrap(), b"1234AB");
        for bad in [&[][..], &[&b""[..]], &[b"x", b""]] {
            let error = world.block_on(reader.read_until_any(bad)).unwrap_err();
            assert!(matches!(error, ReadError::InvalidSeparator));
        }
        assert_eq!(world.block_on(reader.read(9)).unwrap(), b"!", "nothing was lost");
    });
}

#[test]
fn b_str_14_a_limit_of_ones_own_holds_for_lines_and_for_the_transport() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer, mut theirs) = world.open_reading();
        assert_eq!(reader.limit(), 64 * 1024);
        assert_eq!(reader.set_limit(0).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
        reader.set_limit(10).unwrap();
        theirs.write_all(b"0123456789\n01234567890\nnext\n").unwrap();
        // Until more than twice the limit is buffered.
        world.until(|| !reader.transport().is_reading());
        assert_eq!(world.block_on(reader.read_line()).unwrap().unwrap().len(), 11);
        let error = world.block_on(reader.read_line()).unwrap_err();
        assert!(matches!(error, ReadError::LimitOverrun { consumed: 11 }), "{error:?}");
        assert!(reader.transport().is_reading());
        assert_eq!(world.block_on(reader.read_line()).unwrap().unwrap(), b"next\n");
    });
}

#[test]
fn b_str_08_lines_end_with_the_stream_and_go_on_after_a_long_one() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer, mut theirs) = world.open_reading();
        reader.set_limit(5).unwrap();
        theirs.write_all(b"one\nmuch too long\n\nlast").unwrap();
        drop(theirs);
        let lines = world.block_on(StreamReader::lines(&mut reader).collect::<Vec<_>>());
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(lines[0].as_ref().unwrap(), b"one\n");
        assert!(matches!(lines[1], Err(ReadError::LimitOverrun { .. })));
        assert_eq!(lines[2].as_ref().unwrap(), b"\n");
        assert_eq!(lines[3].as_ref().unwrap(), b"last");
        assert!(world.block_on(StreamReader::lines(&mut reader).next()).is_none());

        // Dropped between lines, and while one is waited for.
        let (mut reader, _writer, mut theirs) = world.open_reading();
        theirs.write_all(b"a\nb\nhalf").unwrap();
        assert_eq!(
            world.block_on(StreamReader::lines(&mut reader).next()).unwrap().unwrap(),
            b"a\n"
        );
        assert_eq!(
            world.block_on(StreamReader::lines(&mut reader).next()).unwrap().unwrap(),
            b"b\n"
        );
        let waiting = loop_core::timeout(Duration::from_millis(1), async {
            let _ = StreamReader::lines(&mut reader).next().await;
        });
        world.block_on(waiting).unwrap_err();
        theirs.write_all(b" and half\n").unwrap();
        assert_eq!(
            world.block_on(StreamReader::lines(&mut reader).next()).unwrap().unwrap(),
            b"half and half\n"
        );
    });
}

#[test]
fn b_str_24_futures_io_reads_what_came_in_any_mixture() {
    every_kind().that_read().run(|world| {
        let (mut reader, _writer, mut theirs) = world.open_reading();
        theirs.write_all(b"first line\nsecond line\nrest").unwrap();
        world.block_on(async {
            // Shown, partly consumed, then read by every other way.
            let shown = reader.fill_buf().await.unwrap();
            assert!(shown.starts_with(b"first"));
            AsyncBufReadExt::consume_unpin(&mut reader, 6);
            assert_eq!(StreamReader::read_line(&mut reader).await.unwrap().unwrap(), b"line\n");
            assert!(reader.fill_buf().await.unwrap().starts_with(b"second"));
            let mut buffer = [0; 6];
            AsyncReadExt::read_exact(&mut reader, &mut buffer).await.unwrap();
            assert_eq!(&buffer, b"second");
            let mut line = String::new();
            AsyncBufReadExt::read_line(&mut reader, &mut line).await.unwrap();
            assert_eq!(line, " line\n");
            assert!(reader.fill_buf().await.unwrap().starts_with(b"rest"));
            assert!(!reader.at_eof());
            theirs.write_all(b" and more").unwrap();
            drop(theirs);
            let mut all = Vec::new();
            AsyncReadExt::read_to_end(&mut reader, &mut all).await.unwrap();
            assert_eq!(all, b"rest and more");
            assert!(reader.at_eof());
            assert_eq!(reader.fill_buf().await.unwrap(), b"");
        });
    });
}

#[test]
fn b_str_24_futures_io_writes_wait_flush_and_close_our_side() {
    // More than a socket takes.
    let content: Vec<u8> = (0..5_000_000u32).map(|at| (at / 3) as u8).collect();
    every_kind().that_write().run(|world| {
        let (reader, mut writer, mut theirs) = world.open_writing();
        let mut peer = theirs.try_clone().unwrap();
        let receiving = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let mut bytes = Vec::new();
            peer.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let most = writer.transport().write_buffer_limits().1 + 35_000;
        world.block_on(async {
            for chunk in content.chunks(10_000) {
                AsyncWriteExt::write_all(&mut writer, chunk).await.unwrap();
                // It waits for room, so that not everything is buffered.
                assert!(writer.transport().write_buffer_size() < most);
            }
            AsyncWriteExt::flush(&mut writer).await.unwrap();
            assert_eq!(writer.transport().write_buffer_size(), 0);
            let pieces = [std::io::IoSlice::new(b"two "), std::io::IoSlice::new(b"pieces")];
            assert_eq!(writer.write_vectored(&pieces).await.unwrap(), 10);
            AsyncWriteExt::close(&mut writer).await.unwrap();
            let error = AsyncWriteExt::write(&mut writer, b"late").await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{}", text(&error));
        });
        world.until(|| receiving.is_finished());
        let received = receiving.join().unwrap();
        assert!(received.ends_with(b"two pieces") && received.starts_with(&content));
        if let (Some(mut reader), true) = (reader, writer.transport().can_write_eof()) {
            // The other direction is still open.
            theirs.write_all(b"answer").unwrap();
            assert_eq!(world.block_on(reader.read_exact(6)).unwrap(), b"answer");
        }
    });
}

#[test]
fn flush_waits_for_the_system_and_ends_with_the_connection() {
    every_kind().that_write().run(|world| {
        let (_reader, writer, mut theirs) = world.open_writing();
        let size = common::block(writer.transport(), b'x');
        let waiting = loop_core::timeout(Duration::from_millis(2), writer.flush());
        world.block_on(waiting).unwrap_err();
        let receiving = std::thread::spawn(move || {
            theirs.read_exact(&mut vec![0; size]).unwrap();
            theirs
        });
        world.block_on(writer.flush()).unwrap();
        let theirs = receiving.join().unwrap();
        common::block(writer.transport(), b'x');
        let aborted = writer.transport().clone();
        world.event_loop.call_later(Duration::from_millis(2), move || aborted.abort());
        let _ = world.block_on(writer.flush());
        drop(theirs);
        assert_eq!(writer.transport().write_buffer_size(), 0);
    });
}

#[test]
#[cfg(feature = "tokio-io")]
fn b_str_24_tokio_reads_and_writes_them_too() {
    every_kind().both_ways().run(|world| {
        use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
        let (mut reader, mut writer, mut theirs) = world.open_stream();
        theirs.write_all(b"line\nfour bytes").unwrap();
        world.block_on(async {
            let mut line = String::new();
            AsyncBufReadExt::read_line(&mut reader, &mut line).await.unwrap();
            assert_eq!(line, "line\n");
            let mut buffer = [0; 4];
            AsyncReadExt::read_exact(&mut reader, &mut buffer).await.unwrap();
            assert_eq!(&buffer, b"four");
            assert_eq!(StreamReader::read(&mut reader, 99).await.unwrap(), b" bytes");
            AsyncWriteExt::write_all(&mut writer, b"answer").await.unwrap();
            AsyncWriteExt::flush(&mut writer).await.unwrap();
            AsyncWriteExt::shutdown(&mut writer).await.unwrap();
            let mut all = String::new();
            theirs.read_to_string(&mut all).unwrap();
            assert_eq!(all, "answer");
            drop(theirs);
            assert_eq!(AsyncReadExt::read(&mut reader, &mut buffer).await.unwrap(), 0);
        });
    });
}

/// What this thread has used; others do not count.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Sends `size` bytes through a stream that is read 64 at a time. What that took: time, allocations, and
/// iterations of the loop.
fn read_in_small_pieces(size: usize) -> (Duration, u64, usize) {
    let mut world = World::new(common::backends()[0]);
    world.kind = Kind::Unix;
    let (mut reader, _writer, mut theirs) = world.open_stream();
    let sending = std::thread::spawn(move || {
        let chunk = vec![7; 1 << 20];
        for _ in 0..size >> 20 {
            theirs.write_all(&chunk).unwrap();
        }
    });
    let (start, waits) = (cpu_time(), world.log.waits.get());
    let mut total = 0;
    let cost = allocation_counter::measure(|| {
        world.block_on(async {
            let mut piece = [0; 64];
            loop {
                match reader.read_into(&mut piece).await.unwrap() {
                    0 => break,
                    count => total += count,
                }
            }
        });
    });
    assert_eq!(total, size);
    sending.join().unwrap();
    (cpu_time() - start, cost.count_total, world.log.waits.get() - waits)
}

/// Much through small reads: linear, whatever is buffered. That each byte is moved a fixed number of times
/// is a test of the buffer.
#[test]
fn reading_much_in_small_pieces_is_linear() {
    let _watchdog = watchdog();
    let (some, more) = (read_in_small_pieces(4 << 20), read_in_small_pieces(16 << 20));
    let ratio = more.0.as_secs_f64() / some.0.as_secs_f64();
    assert!(ratio < 10.0, "4 times as much took {ratio} times as long");
    // Not one a read: there are 262,144 of them.
    assert!(more.1 < 16_384, "{} allocations", more.1);
    assert!(more.2 < 16_384, "{} waits", more.2);
}

#[test]
fn a_gib_in_small_pieces_takes_four_times_as_long_as_a_quarter_of_it() {
    let _watchdog = watchdog();
    // The first time memory is new and the processor elsewhere.
    let _ = read_in_small_pieces(256 << 20);
    let (some, more) = (read_in_small_pieces(256 << 20), read_in_small_pieces(1 << 30));
    let ratio = more.0.as_secs_f64() / some.0.as_secs_f64();
    // Linear is 4, quadratic 16.
    assert!(ratio < 8.0, "256 MiB: {some:?}, 1 GiB: {more:?}, ratio {ratio:.2}");
}
