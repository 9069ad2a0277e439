//! Public bug reports of other event loops, as tests. Each names its source.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use common::{Hook, Kind, Probe, Trace, backends, block, every_kind, for_each_backend, listener};
use loop_core::{Context, ContextVar, sleep, yield_now};
use loop_net::{KeepOpen, NetError, Protocol, ReadError, StreamReader, Transport};

static V: ContextVar<i32> = ContextVar::with_default(|| 0);

/// Notes what the context variable is in each hook.
struct Reader(Trace);

impl Reader {
    fn note(&self, hook: &str) {
        self.0.push(format!("{hook} {}", V.get().unwrap()));
    }
}

impl Protocol for Reader {
    fn connection_made(&mut self, _: &Transport) {
        self.note("made");
    }

    fn data_received(&mut self, _: &[u8]) {
        self.note("data");
    }

    fn eof_received(&mut self) -> KeepOpen {
        self.note("eof");
        KeepOpen::No
    }

    fn connection_lost(&mut self, _: Option<&NetError>) {
        self.note("lost");
    }
}

/// MagicStack/uvloop#305: protocol callbacks ran in an empty context, or in the client's.
#[test]
fn s02_hooks_run_in_the_context_of_the_server_s_set_up() {
    for_each_backend(|world| {
        let trace = Trace::new();
        let context = Context::current();
        let (log, net) = (trace.clone(), world.net.clone());
        let ran = context.run(|| {
            V.set(7);
            let bind = net.tcp_server("127.0.0.1:0").bind(move || Reader(log.clone()));
            let server = world.block_on(bind).unwrap();
            let addr = server.local_addrs()[0];
            let net = world.net.clone();
            let client = world.event_loop.spawn(async move {
                V.set(99);
                let (_reader, writer) = net.tcp_connect(addr).open_stream().await.unwrap();
                writer.write(b"x");
                writer.close();
                writer.wait_closed().await.unwrap();
                V.get().unwrap()
            });
            assert_eq!(world.block_on(client).unwrap(), 99);
            world.until(|| trace.has("lost 7"));
            assert_eq!(trace.take(), ["made 7", "data 7", "eof 7", "lost 7"]);
            assert_eq!(V.get(), Some(7));
        });
        assert!(ran.is_ok());
    });
}

/// Not a case: what `ci/each-selector` asks before it runs all tests with a selector by name.
#[test]
fn the_selectors_that_are_tested() {
    // What is left out says why.
    match backends()[..] {
        [] => println!("there is nothing to test"),
        ref names => println!("tested with {}", names.join(", ")),
    }
}

/// oven-sh/bun#37920: a hang-up that nobody reads kept epoll returning.
#[test]
fn s15_a_hang_up_on_a_connection_kept_open_does_not_spin() {
    every_kind().half_closed().run(|world| {
        let probe = Probe::new().kept_open();
        let (transport, peer) = world.accept(&probe);
        if world.kind == Kind::Tcp {
            // It hangs up once both sides have ended; a Unix socket does with its peer.
            transport.write_eof();
            world.turn();
        }
        drop(peer);
        world.until(|| probe.trace.has("eof"));
        let waits = world.log.waits.get();
        world.block_on(sleep(Duration::from_millis(100)));
        let returns = world.log.waits.get() - waits;
        assert!(returns < 10, "{returns} wake-ups in 100 ms");
        transport.close();
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "eof", "lost"]);
    });
}

/// python/cpython#156512: closing the transport inside `resume_writing` tore it down twice.
#[test]
fn s28_a_close_in_resume_writing_loses_the_connection_once() {
    for end in [Transport::close as fn(&Transport), Transport::abort] {
        for_each_backend(|world| {
            let probe = Probe::acting(move |hook, transport| {
                if let Hook::Resume = hook {
                    end(transport);
                }
            });
            let (transport, mut peer) = world.accept(&probe);
            transport.set_write_buffer_limits(1024, Some(0)).unwrap();
            // The socket may take megabytes, so until it takes no more.
            let data = vec![b'x'; 2 << 20];
            let mut written = 0;
            while probe.trace.count("pause") == 0 {
                transport.write(&data);
                written += data.len();
            }
            assert_eq!(world.read_to_end(&mut peer).len(), written);
            world.idle();
            assert_eq!(probe.trace.take(), ["made", "pause", "resume", "lost"]);
            assert_eq!(world.log.registered(), 0);
        });
    }
}

/// python/cpython#103462: `writelines` of more than one system call takes registered no writer.
#[test]
fn s29_vectored_writes_larger_than_a_system_call_arrive_whole() {
    for_each_backend(|world| {
        let zeros = vec![0; 65_536];
        let mut large: Vec<&[u8]> = vec![&zeros; 200];
        large.push(b"end");
        // More pieces than a vectored write takes.
        let small: Vec<&[u8]> = vec![b"x"; 2000];
        for (pieces, total, tail) in [(large, 13_107_203, b"end"), (small, 2000, b"xxx")] {
            let (listener, addr) = listener();
            let stream = world.net.tcp_connect(addr).open_stream();
            let (_reader, writer) = world.block_on(stream).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            writer.write_all_vectored(&pieces);
            // Nothing is read before the writer waits.
            let server = std::thread::spawn(move || {
                let mut got = Vec::new();
                peer.read_to_end(&mut got).unwrap();
                got
            });
            world.block_on(async {
                writer.drain().await.unwrap();
                writer.close();
                writer.wait_closed().await.unwrap();
            });
            let got = server.join().unwrap();
            assert_eq!((got.len(), &got[got.len() - 3..]), (total, &tail[..]));
        }
    });
}

/// What this thread has computed for, whatever else runs on the machine.
fn thread_time() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().unwrap()
}

/// python/cpython#146507: each small write into a blocked socket counted the whole buffer anew.
#[test]
fn s30_many_small_writes_into_a_blocked_socket_take_linear_time() {
    for_each_backend(|world| {
        let mut timed = |count: usize| -> Duration {
            let (transport, mut peer) = world.accept(&Probe::new());
            let filled = block(&transport, b'x');
            let start = transport.write_buffer_size();
            let began = thread_time();
            for _ in 0..count {
                transport.write(b"sixteen bytes...");
            }
            let took = thread_time() - began;
            assert_eq!(transport.write_buffer_size(), start + 16 * count);
            let got = world.read(&mut peer, filled + 16 * count);
            assert!(got[filled..].chunks(16).all(|chunk| chunk == b"sixteen bytes..."));
            world.until(|| transport.write_buffer_size() == 0);
            transport.abort();
            took
        };
        // Linear is 4, quadratic 16, but something else may get in the way of a run.
        let ratios = (0..10).map(|_| {
            let (few, many) = (timed(20_000), timed(80_000));
            many.as_secs_f64() / few.as_secs_f64()
        });
        let seen: Vec<f64> = ratios.take_while(|ratio| *ratio >= 8.0).collect();
        assert!(seen.len() < 10, "times for four times as much: {seen:?}");
    });
}

async fn until_ab(reader: &mut StreamReader) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    loop {
        match reader.read_until(b"ab").await {
            Ok(piece) => found.push(piece),
            Err(ReadError::Incomplete { partial, expected: None }) => {
                assert_eq!(partial, b"");
                return found;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// aio-libs/aiohttp#6701: a separator of several bytes was missed at the border of two chunks.
#[test]
fn s37_a_separator_split_over_chunks_is_found() {
    for_each_backend(|world| {
        let text = b"11ab\n22ab33ab";
        let bytewise: Vec<&[u8]> = text.chunks(1).collect();
        let feedings: [&[&[u8]]; 3] = [&[b"11a", b"b\n22ab", b"33a", b"b"], &bytewise, &[text]];
        for chunks in feedings {
            let (listener, addr) = listener();
            let stream = world.net.tcp_connect(addr).open_stream();
            let (mut reader, _writer) = world.block_on(stream).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            let chunks: Vec<Vec<u8>> = chunks.iter().map(|chunk| chunk.to_vec()).collect();
            let feeder = async move {
                for chunk in chunks {
                    peer.write_all(&chunk).unwrap();
                    for _ in 0..4 {
                        yield_now().await;
                    }
                }
            };
            world.event_loop.spawn(feeder).detach();
            let found = world.block_on(until_ab(&mut reader));
            assert_eq!(found, [&b"11ab"[..], b"\n22ab", b"33ab"]);
        }
    });
}

/// Not in the reports, but of S28's kind: each hook ends its own connection, and all else goes on.
#[test]
fn a_close_in_any_hook_loses_the_connection_once() {
    for end in [Transport::close as fn(&Transport), Transport::abort] {
        for keep_open in [false, true] {
            for inside in ["made", "data", "eof", "pause", "resume", "lost"] {
                for_each_backend(|world| {
                    let probe = Probe::acting(move |hook, transport| {
                        if hook.name() == inside {
                            end(transport);
                            transport.pause_reading();
                            transport.resume_reading();
                            transport.write_eof();
                        }
                    });
                    probe.keep_open.set(keep_open);
                    let server = world.serve(&probe);
                    let mut peer = TcpStream::connect(server.local_addrs()[0]).unwrap();
                    world.until(|| probe.trace.has("made"));
                    let transport = probe.transport().unwrap();
                    peer.write_all(b"x").unwrap();
                    world.until(|| probe.trace.has("data x") || transport.is_closing());
                    if !transport.is_closing() {
                        common::fill(&transport, b'y');
                    }
                    // The peer ends and reads; what is left open then is ended from outside.
                    let _ = peer.shutdown(Shutdown::Write);
                    peer.set_nonblocking(true).unwrap();
                    let mut chunk = vec![0; 1 << 20];
                    while server.connections() > 0 {
                        let _ = peer.read(&mut chunk);
                        if transport.write_buffer_size() == 0 && probe.trace.has("eof") {
                            end(&transport);
                        }
                        world.turn();
                    }
                    world.idle();
                    let trace = probe.trace.take();
                    assert_eq!(trace[0], "made", "{trace:?}");
                    assert_eq!(trace[trace.len() - 1], "lost", "{inside}: {trace:?}");
                    assert_eq!(trace.iter().filter(|hook| *hook == "lost").count(), 1);
                    server.close();
                    assert_eq!(world.log.registered(), 0, "{inside}: something stays registered");
                });
            }
        }
    }
}
