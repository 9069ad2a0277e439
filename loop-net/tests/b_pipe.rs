//! Pipes and terminals: B-PIPE-01 to 07 of the contract, on each backend.

mod common;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use common::{Hook, Probe, World, block, fill, for_each_backend, pipe, terminal, text};
use loop_net::{Transport, WriteState};
use rustix::fs::{OFlags, fcntl_getfl};

fn read_pipe(world: &mut World, probe: &Probe) -> (Transport, File) {
    let (reader, writer) = pipe();
    let end = world.net.read_pipe(reader).unwrap();
    let (transport, _) = world.block_on(end.connect(|| probe.clone())).unwrap();
    (transport, writer)
}

fn write_pipe(world: &mut World, probe: &Probe) -> (Transport, File) {
    let (reader, writer) = pipe();
    let end = world.net.write_pipe(writer).unwrap();
    let (transport, _) = world.block_on(end.connect(|| probe.clone())).unwrap();
    (transport, reader)
}

/// A terminal: what is written to one end is read from the other as it is.
fn raw_terminal() -> (File, OwnedFd) {
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
    let (person, program) = terminal();
    let mut modes = tcgetattr(&program).unwrap();
    modes.make_raw();
    tcsetattr(&program, OptionalActions::Now, &modes).unwrap();
    (person, program)
}

/// Reads everything up to the end while the loop runs.
fn drain(world: &mut World, reader: &mut File) -> Vec<u8> {
    rustix::io::ioctl_fionbio(&*reader, true).unwrap();
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return bytes,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => world.turn(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn b_pipe_01_takes_pipes_sockets_and_devices_and_gives_other_things_back() {
    for_each_backend(|world| {
        let (reader, writer) = pipe();
        let (one, two) = UnixStream::pair().unwrap();
        let (_person, program) = raw_terminal();
        for fd in [reader.into(), OwnedFd::from(one), program.try_clone().unwrap()] {
            let copy = fd.try_clone().unwrap();
            drop(world.net.read_pipe(fd).unwrap());
            assert!(fcntl_getfl(&copy).unwrap().contains(OFlags::NONBLOCK));
        }
        for fd in [writer.into(), OwnedFd::from(two), program] {
            drop(world.net.write_pipe(fd).unwrap());
        }
        let file = File::open("/proc/self/status").unwrap();
        let rejected = world.net.read_pipe(file).unwrap_err();
        assert_eq!(rejected.error.kind(), io::ErrorKind::InvalidInput, "{rejected}");
        assert!(!fcntl_getfl(&rejected.source).unwrap().contains(OFlags::NONBLOCK), "untouched");
        let rejected = world.net.write_pipe(rejected.source).unwrap_err();
        assert_eq!(rejected.error.kind(), io::ErrorKind::InvalidInput, "{rejected}");
        (&rejected.source).read_exact(&mut [0]).unwrap();
    });
}

#[test]
fn b_pipe_02_the_end_of_a_pipe_closes_it_whatever_the_protocol_says() {
    for_each_backend(|world| {
        for probe in [Probe::new(), Probe::new().kept_open()] {
            let (transport, mut writer) = read_pipe(world, &probe);
            writer.write_all(b"hello").unwrap();
            world.until(|| probe.trace.has("data hello"));
            assert!(transport.is_reading() && !transport.can_write_eof());
            drop(writer);
            world.until(|| probe.trace.has("lost"));
            assert_eq!(probe.trace.take(), ["made", "data hello", "eof", "lost"]);
            assert_eq!(world.log.registered(), 0);
        }
    });
}

#[test]
fn b_pipe_02_a_reading_end_takes_no_writes() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, writer) = read_pipe(world, &probe);
        for _ in 0..5 {
            assert_eq!(transport.write(b"x"), WriteState::Closed);
        }
        assert_eq!(world.reports.take().len(), 1, "the fifth is reported");
        transport.write_eof();
        world.idle();
        assert_eq!(probe.trace.take(), ["made"]);
        drop(writer);
        world.until(|| probe.trace.has("lost"));
    });
}

#[test]
fn b_pipe_03_a_read_error_is_reported_but_for_a_terminal_that_was_left() {
    for_each_backend(|world| {
        let (person, program) = raw_terminal();
        let probe = Probe::new();
        let end = world.net.read_pipe(program).unwrap();
        world.block_on(end.connect(|| probe.clone())).unwrap();
        (&person).write_all(b"typed").unwrap();
        world.until(|| probe.trace.has("data typed"));
        drop(person);
        world.until(|| probe.trace.count("lost") == 1);
        let trace = probe.trace.take();
        // Linux says EIO on a terminal whose other side has gone, or just the end of it.
        assert!(trace[2..] == ["lost Uncategorized"] || trace[2..] == ["eof", "lost"], "{trace:?}");

        // A socket in the place of a pipe that is reset.
        let (listener, addr) = common::listener();
        let ours = std::net::TcpStream::connect(addr).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let probe = Probe::new();
        let end = world.net.read_pipe(ours).unwrap();
        world.block_on(end.connect(|| probe.clone())).unwrap();
        common::reset(peer);
        world.until(|| probe.trace.count("lost") == 1);
        assert_eq!(probe.trace.take(), ["made", "lost ConnectionReset"]);
        let reports = world.reports.take();
        assert!(reports.len() == 1 && reports[0].contains("pipe fd"), "{reports:?}");
    });
}

/// The second read of a turn found it out, after a hook had ended the connection with what the first one brought.
#[test]
fn b_pipe_03_an_error_behind_what_made_the_protocol_abort_is_nobodys() {
    const FIRST: usize = 64 * 1024;
    for_each_backend(|world| {
        let (listener, addr) = common::listener();
        let ours =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        // Before the connection is made, for the peer sends no more than there is room for.
        ours.set_recv_buffer_size(4 * FIRST).unwrap();
        ours.connect(&addr.into()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let probe = Probe::acting(|hook, transport| {
            if let Hook::Data(_) = hook {
                transport.abort();
            }
        });
        let made = probe.clone();
        let end = world.net.read_pipe(ours).unwrap();
        let (transport, _) = world.block_on(end.connect(|| made)).unwrap();
        transport.pause_reading();
        peer.write_all(&[7; FIRST]).unwrap();
        let ours = world.only_owner();
        while rustix::io::ioctl_fionread(&ours).unwrap() < FIRST as u64 {
            std::thread::yield_now();
        }
        common::reset(peer);
        world.idle();
        transport.resume_reading();
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "data of 65536", "lost"]);
        drop(ours);
        assert_eq!(world.reports.take(), [""; 0]);
    });
}

#[test]
fn b_pipe_04_a_reader_that_goes_ends_the_writing_side() {
    for_each_backend(|world| {
        // Nothing was left to write.
        let probe = Probe::new();
        let (transport, reader) = write_pipe(world, &probe);
        transport.write(b"read by nobody");
        assert!(!transport.is_reading());
        transport.pause_reading();
        drop(reader);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "lost"]);

        // Something was.
        let probe = Probe::new();
        let (transport, reader) = write_pipe(world, &probe);
        fill(&transport, b'x');
        drop(reader);
        world.until(|| probe.trace.count("lost") == 1);
        assert_eq!(probe.trace.take(), ["made", "pause", "lost BrokenPipe"]);

        // Also while closing.
        let probe = Probe::new();
        let (transport, reader) = write_pipe(world, &probe);
        block(&transport, b'x');
        transport.close();
        world.idle();
        drop(reader);
        world.until(|| probe.trace.count("lost") == 1);
        assert!(probe.trace.has("lost BrokenPipe"));
        assert_eq!(world.log.registered(), 0);

        // A socket in the place of a pipe.
        let (ours, theirs) = UnixStream::pair().unwrap();
        let probe = Probe::new();
        let end = world.net.write_pipe(ours).unwrap();
        world.block_on(end.connect(|| probe.clone())).unwrap();
        drop(theirs);
        world.until(|| probe.trace.has("lost"));
    });
}

#[test]
fn b_pipe_04_a_terminal_is_written_to_and_not_watched() {
    for_each_backend(|world| {
        let (mut person, program) = raw_terminal();
        let probe = Probe::new();
        let end = world.net.write_pipe(program).unwrap();
        let (transport, _) = world.block_on(end.connect(|| probe.clone())).unwrap();
        person.write_all(b"typed").unwrap();
        transport.resume_reading();
        world.idle();
        assert_eq!(probe.trace.all(), ["made"], "what is typed is not for us");
        transport.write(b"shown");
        let mut shown = [0; 5];
        person.read_exact(&mut shown).unwrap();
        assert_eq!(&shown, b"shown");
        transport.close();
        world.until(|| probe.trace.has("lost"));
    });
}

#[test]
fn b_pipe_05_write_eof_and_close_flush_and_abort_drops() {
    for_each_backend(|world| {
        for end in [Transport::write_eof as fn(&Transport), Transport::close] {
            let probe = Probe::new();
            let (transport, mut reader) = write_pipe(world, &probe);
            let size = block(&transport, b'x');
            end(&transport);
            assert!(transport.is_closing());
            world.idle();
            assert!(!probe.trace.has("lost"), "not flushed yet");
            assert_eq!(drain(world, &mut reader).len(), size);
            world.until(|| probe.trace.has("lost"));
            // Too late, from the fifth on reported.
            for _ in 0..5 {
                assert_eq!(transport.write(b"late"), WriteState::Closed);
            }
            assert_eq!(world.reports.take().len(), 1);
        }
        let probe = Probe::new();
        let (transport, mut reader) = write_pipe(world, &probe);
        let size = block(&transport, b'x');
        transport.abort();
        world.until(|| probe.trace.has("lost"));
        assert!(drain(world, &mut reader).len() < size);
    });
}

#[test]
fn b_pipe_06_partial_writes_lose_nothing_and_pause_and_resume() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, mut reader) = write_pipe(world, &probe);
        let mut expected = Vec::new();
        for round in 0..20_000u32 {
            let piece = round.to_le_bytes().repeat(1 + (round % 9) as usize);
            transport.write(&piece);
            expected.extend_from_slice(&piece);
        }
        transport.write_all_vectored(&vec![[7u8; 5]; 2_000]);
        expected.extend_from_slice(&[7; 10_000]);
        transport.close();
        assert!(drain(world, &mut reader) == expected);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "pause", "resume", "lost"]);
    });
}

/// How often this thread has called `write` and its like, which count on pipes and not on sockets; `None` where
/// the system does not count.
fn writes() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("syscw: "))?.parse().ok()
}

#[test]
fn what_a_hook_writes_leaves_in_one_system_call() {
    if writes().is_none() {
        return println!("left out: system calls are not counted here");
    }
    for_each_backend(|world| {
        let (mut reader, writer) = pipe();
        let probe = Probe::acting(|hook, transport| {
            if let Hook::Made = hook {
                for _ in 0..10 {
                    transport.write(b"one ");
                    transport.write_all_vectored(&["or ", "two "]);
                }
            }
        });
        let end = world.net.write_pipe(writer).unwrap();
        let called = writes().unwrap();
        let (transport, _) = world.block_on(end.connect(|| probe)).unwrap();
        assert_eq!(writes().unwrap() - called, 1);
        let mut heard = [0; 110];
        reader.read_exact(&mut heard).unwrap();
        assert!(heard.starts_with(b"one or two one or two "));
        // Outside of the loop each write is tried at once, all pieces of one together.
        let called = writes().unwrap();
        transport.write(b"now");
        transport.write_all_vectored(&["or", "never"]);
        assert_eq!(writes().unwrap() - called, 2);
        reader.read_exact(&mut heard[..10]).unwrap();
        transport.abort();
        world.idle();
    });
}

#[test]
fn b_pipe_07_pausing_is_idempotent_and_nothing_on_a_closed_pipe() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, mut writer) = read_pipe(world, &probe);
        transport.pause_reading();
        transport.pause_reading();
        writer.write_all(b"later").unwrap();
        world.idle();
        assert_eq!(probe.trace.all(), ["made"]);
        transport.resume_reading();
        transport.resume_reading();
        world.until(|| probe.trace.has("data later"));
        transport.close();
        transport.pause_reading();
        transport.resume_reading();
        world.until(|| probe.trace.has("lost"));
        transport.pause_reading();
        transport.resume_reading();
        world.idle();
        assert_eq!(probe.trace.take(), ["made", "data later", "lost"]);
        assert!(writer.write_all(b"x").is_err(), "the pipe is closed");
    });
}

#[test]
fn streams_are_made_of_single_ends() {
    for_each_backend(|world| {
        let (reader, writer) = pipe();
        let reader = world.net.read_pipe(reader).unwrap().open_stream();
        let mut reader = world.block_on(reader).unwrap();
        let writer = world.net.write_pipe(writer).unwrap().open_stream();
        let writer = Rc::new(world.block_on(writer).unwrap());
        let sender = writer.clone();
        let task = world.event_loop.spawn(async move {
            for _ in 0..100 {
                sender.write(&[5; 10_000]);
                sender.drain().await.unwrap();
            }
        });
        let content = world.block_on(reader.read_exact(1_000_000)).unwrap();
        assert!(content.iter().all(|byte| *byte == 5));
        world.block_on(task).unwrap();
        drop(writer);
        assert_eq!(world.block_on(reader.read(9)).unwrap(), b"");

        // Dropping either closes its end.
        let (reader, writer) = pipe();
        let stream = world.net.read_pipe(reader).unwrap().open_stream();
        drop(world.block_on(stream).unwrap());
        world.idle();
        assert!((&writer).write_all(b"x").is_err());
        let (mut reader, writer) = pipe();
        let stream = world.net.write_pipe(writer).unwrap().open_stream();
        drop(world.block_on(stream).unwrap());
        world.idle();
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        assert_eq!(world.log.registered(), 0);
    });
}

#[test]
fn a_pipe_may_be_closed_in_every_hook() {
    for_each_backend(|world| {
        for hook in ["made", "data", "eof", "lost"] {
            let probe = Probe::acting(move |now: Hook<'_>, transport| {
                if now.name() == hook {
                    transport.close();
                }
            });
            let (_transport, mut writer) = read_pipe(world, &probe);
            // Refused when it is closed already.
            let _ = writer.write_all(b"x");
            drop(writer);
            world.until(|| probe.trace.has("lost"));
            world.idle();
            assert_eq!(probe.trace.count("lost"), 1);
        }
        let error = world.net.read_pipe(File::open("/").unwrap()).unwrap_err();
        assert!(text(&error).contains("Directory"), "{error}");
        assert!(error.source.as_fd().try_clone_to_owned().is_ok());
    });
}
