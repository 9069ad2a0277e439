//! Sending files: B-SFL-01 to 10 of the contract, on each backend, natively and by the fallback.

mod common;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use common::{Peer, Probe, World, for_each_backend, temp_dir, text};
use loop_net::{AsyncFd, SendFile, Transport, WriteState};

const SIZE: usize = 3_000_000;
const HUGE: u64 = 1 << 28;

fn content() -> &'static [u8] {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENT.get_or_init(|| (0..SIZE).map(|at| (at / 7 % 251) as u8).collect())
}

/// A file that no socket takes at once.
fn huge(dir: &common::TempDir) -> File {
    let path = dir.path().join("huge");
    File::create(&path).unwrap().set_len(HUGE).unwrap();
    File::open(path).unwrap()
}

/// A file with [`content`], its position somewhere in the middle.
fn file(dir: &common::TempDir) -> File {
    let path = dir.path().join("content");
    std::fs::write(&path, content()).unwrap();
    let mut file = File::open(path).unwrap();
    file.seek(SeekFrom::Start(12_345)).unwrap();
    file
}

fn position(mut file: &File) -> u64 {
    file.stream_position().unwrap()
}

/// A thread that reads everything from a connection.
fn collect(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}

fn connected(world: &mut World, probe: &Probe) -> (Transport, Peer) {
    world.accept(probe)
}

fn descriptor(world: &World) -> (AsyncFd<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let theirs = listener.accept().unwrap().0;
    (AsyncFd::new(&world.event_loop, ours).unwrap(), theirs)
}

/// Both ways of sending.
fn both(part: SendFile<'_>) -> [SendFile<'_>; 2] {
    [part.fallback(false), part.native(false)]
}

#[test]
fn b_sfl_01_the_part_asked_for_arrives_and_the_position_ends_behind_it() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let file = file(&dir);
        let all = content();
        for (offset, count) in [
            (0, None),
            (0, Some(10)),
            (1_000, Some(1_000_000)),
            (2_999_999, None),
            (5, Some(9 << 30)),
        ] {
            let mut part = SendFile::new(&file).offset(offset);
            if let Some(count) = count {
                part = part.count(count);
            }
            let start = offset as usize;
            let end = count.map_or(SIZE, |count: u64| (start + count as usize).min(SIZE));
            for way in both(part) {
                let (transport, peer) = connected(world, &Probe::new());
                let received = collect(peer);
                let sent = world.block_on(transport.send_file(way)).unwrap();
                assert_eq!(sent, (end - start) as u64);
                assert_eq!(position(&file), end as u64);
                transport.close();
                world.until(|| received.is_finished());
                assert!(received.join().unwrap() == all[start..end]);

                let (fd, peer) = descriptor(world);
                let received = collect(peer);
                (&file).rewind().unwrap();
                let sent = world.block_on(fd.send_file(way)).unwrap();
                assert_eq!(sent, (end - start) as u64);
                assert_eq!(position(&file), end as u64);
                drop(fd);
                assert!(received.join().unwrap() == all[start..end]);
            }
        }
    });
}

#[test]
fn b_sfl_03_a_count_of_zero_is_refused() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let file = file(&dir);
        let (transport, _peer) = connected(world, &Probe::new());
        let (fd, _other) = descriptor(world);
        let part = SendFile::new(&file).count(0);
        let error = world.block_on(transport.send_file(part)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let error = world.block_on(fd.send_file(part)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(position(&file), 12_345, "untouched");
        assert_eq!(transport.write(b"x"), WriteState::Open, "everything is as before");
    });
}

#[test]
fn b_sfl_04_what_the_system_cannot_send_is_read_or_refused() {
    for_each_backend(|world| {
        let (transport, peer) = connected(world, &Probe::new());
        let (fd, _other) = descriptor(world);
        let received = collect(peer);
        // A terminal cannot be sent, nor read at a position.
        let file = File::open("/dev/ptmx").unwrap();
        let part = SendFile::new(&file);
        let error = world.block_on(transport.send_file(part.fallback(false))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        let error = world.block_on(fd.send_file(part.fallback(false))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        let error = world.block_on(fd.send_file(part)).unwrap_err();
        assert!(text(&error).contains("read the file"), "{error}");
        let error = world.block_on(transport.send_file(part.native(false).fallback(false)));
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::Unsupported);
        // The connection has seen nothing of it.
        transport.write(b"fine");
        transport.close();
        world.until(|| received.is_finished());
        assert_eq!(received.join().unwrap(), b"fine");
    });
}

#[test]
fn b_sfl_06_what_was_written_goes_first_and_nothing_comes_between() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let file = file(&dir);
        for native in [true, false] {
            let probe = Probe::new();
            let (transport, mut peer) = connected(world, &probe);
            let before = common::block(&transport, b'<');
            let sender = transport.clone();
            let sending = world.event_loop.spawn({
                let file = file.try_clone().unwrap();
                async move { sender.send_file(SendFile::new(&file).native(native)).await }
            });
            world.turn();
            world.turn();
            // Meanwhile nothing is read, and writes are refused.
            peer.write_all(b"later").unwrap();
            assert!(!transport.is_reading());
            assert_eq!(transport.write(b"between"), WriteState::Closed);
            world.idle();
            assert_eq!(probe.trace.count("data"), 0);
            let busy = world.block_on(transport.send_file(SendFile::new(&file))).unwrap_err();
            assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
            let received = collect(peer);
            assert_eq!(world.block_on(sending).unwrap().unwrap(), SIZE as u64);
            // And everything is as before.
            world.until(|| probe.trace.has("data later"));
            assert_eq!(transport.write(b">>"), WriteState::Open);
            transport.close();
            world.until(|| received.is_finished());
            let received = received.join().unwrap();
            let expected = [&vec![b'<'; before], content(), b">>"].concat();
            assert!(received == expected, "{} of {}", received.len(), expected.len());
        }
    });
}

#[test]
fn b_sfl_06_dropped_at_any_time_it_leaves_a_connection_that_works() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let file = file(&dir);
        for native in [true, false] {
            for turns in [0, 1, 2, 5, 20] {
                for flushed in [true, false] {
                    let probe = Probe::new();
                    let (transport, peer) = connected(world, &probe);
                    let before = if flushed { 0 } else { common::block(&transport, b'<') };
                    let (sender, copy) = (transport.clone(), file.try_clone().unwrap());
                    (&file).seek(SeekFrom::Start(7)).unwrap();
                    let sending = world.event_loop.spawn(async move {
                        sender.send_file(SendFile::new(&copy).native(native)).await
                    });
                    for _ in 0..turns {
                        world.turn();
                    }
                    sending.cancel();
                    let _ = world.block_on(sending);
                    assert!(transport.is_reading());
                    assert_ne!(transport.write(b">>"), WriteState::Closed);
                    let received = collect(peer);
                    transport.close();
                    world.until(|| received.is_finished());
                    let received = received.join().unwrap();
                    let sent = received.len() - before - 2;
                    assert!(received[before..before + sent] == content()[..sent]);
                    assert!(received.ends_with(b">>"));
                    let at = position(&file);
                    // Cancelled before its first step it touches nothing.
                    assert!(at == sent as u64 || (sent == 0 && at == 7), "{at} and {sent}");
                }
            }
        }
    });
}

#[test]
fn b_sfl_08_closed_connections_and_reading_ends_are_refused() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let file = file(&dir);
        let part = SendFile::new(&file);
        let (transport, _peer) = connected(world, &Probe::new());
        transport.write_eof();
        let error = world.block_on(transport.send_file(part)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        transport.close();
        let error = world.block_on(transport.send_file(part)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        world.idle();
        let error = world.block_on(transport.send_file(part)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);

        let (reader, _writer) = common::pipe();
        let end = world.net.read_pipe(reader).unwrap();
        let (transport, _) = world.block_on(end.connect(Probe::new)).unwrap();
        let error = world.block_on(transport.send_file(part)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        transport.close();
        world.idle();

        // Closing meanwhile ends it.
        let file = huge(&dir);
        let part = SendFile::new(&file);
        let (transport, _peer) = connected(world, &Probe::new());
        let closer = transport.clone();
        world.event_loop.call_later(Duration::from_millis(5), move || closer.close());
        let error = world.block_on(transport.send_file(part)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
        assert!(position(&file) < HUGE);
    });
}

#[test]
fn b_sfl_09_a_peer_that_closes_in_the_middle_is_an_error() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let file = huge(&dir);
        for way in both(SendFile::new(&file)) {
            let (transport, peer) = connected(world, &Probe::new());
            world.event_loop.call_later(Duration::from_millis(5), move || drop(peer));
            let error = world.block_on(transport.send_file(way)).unwrap_err();
            let kinds = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
            assert!(kinds.contains(&error.kind()), "{error:?}");
            assert!(position(&file) < HUGE);
            transport.abort();
            let (fd, peer) = descriptor(world);
            world.event_loop.call_later(Duration::from_millis(5), move || drop(peer));
            let error = world.block_on(fd.send_file(way)).unwrap_err();
            assert!(kinds.contains(&error.kind()), "{error:?}");
        }
        world.idle();
    });
}

#[test]
fn b_sfl_10_an_empty_file_and_an_offset_beyond_the_end_send_nothing() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("empty");
        std::fs::write(&path, "").unwrap();
        let empty = File::open(path).unwrap();
        let full = file(&dir);
        let (transport, _peer) = connected(world, &Probe::new());
        let (fd, _other) = descriptor(world);
        for part in [SendFile::new(&empty), SendFile::new(&full).offset(SIZE as u64 + 10)] {
            for way in both(part) {
                assert_eq!(world.block_on(transport.send_file(way)).unwrap(), 0);
                assert_eq!(world.block_on(fd.send_file(way)).unwrap(), 0);
            }
        }
    });
}

#[test]
fn ending_our_side_meanwhile_waits_for_the_file() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let file = file(&dir);
        let (transport, peer) = connected(world, &Probe::new());
        let ended = Rc::new(Cell::new(false));
        let (ender, done) = (transport.clone(), ended.clone());
        world.event_loop.call_later(Duration::from_millis(5), move || {
            ender.write_eof();
            done.set(true);
        });
        let sender = transport.clone();
        let sending =
            world.event_loop.spawn(async move { sender.send_file(SendFile::new(&file)).await });
        world.until(|| ended.get());
        let received = collect(peer);
        assert_eq!(world.block_on(sending).unwrap().unwrap(), SIZE as u64);
        world.until(|| received.is_finished());
        assert!(received.join().unwrap() == content(), "and then the end");
    });
}

#[test]
fn b_sfl_02_offset_zero_is_set_and_not_taken_from_the_files_position() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let file = file(&dir);
        for way in both(SendFile::new(&file).offset(0).count(100)) {
            (&file).seek(SeekFrom::Start(777)).unwrap();
            let (fd, mut peer) = descriptor(world);
            assert_eq!(world.block_on(fd.send_file(way)).unwrap(), 100);
            let mut received = [0; 100];
            peer.read_exact(&mut received).unwrap();
            assert_eq!(received, content()[..100]);
        }
    });
}

/// Its blocks wait for room in the socket and not in memory, and the loop goes on meanwhile.
#[test]
fn b_sfl_05_the_fallback_reads_on_a_thread_and_waits_for_room() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let file = huge(&dir);
        let (transport, peer) = connected(world, &Probe::new());
        let sender = transport.clone();
        let part_of = file.try_clone().unwrap();
        let sending = world
            .event_loop
            .spawn(async move { sender.send_file(SendFile::new(&part_of).native(false)).await });
        // Nobody reads: it stops with what the system buffers.
        let mut last = (0, 0);
        while last.1 < 50 {
            world.event_loop.run_once(Some(Duration::from_millis(1))).unwrap();
            let read = rustix::fs::tell(&file).unwrap_or(0);
            last = (transport.write_buffer_size(), last.1 + 1);
            assert_eq!(last.0, 0, "nothing is buffered in the program");
            assert_eq!(read, 0, "the position is set at the end");
        }
        assert!(!sending.is_done());
        drop(peer);
        assert!(world.block_on(sending).unwrap().is_err());
        let sent = position(&file);
        assert!(sent > 0 && sent < HUGE, "{sent}");
        world.idle();
    });
}
