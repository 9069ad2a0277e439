//! Hooks of several connections that write to each other in every way: each peer gets all that was written to
//! its own connection, in order, and nothing else. The writes are random, from a seed that a failure names.

mod common;

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::rc::Rc;

use common::{Hook, Kind, Peer, Probe, Random, World, every_kind};
use loop_net::{Transport, WriteState};

const CONNECTIONS: usize = 4;

/// What all hooks share.
struct Mixer {
    random: Random,
    transports: RefCell<Vec<Transport>>,
    /// What each peer is to get.
    written: RefCell<Vec<Vec<u8>>>,
    /// How many operations are left; hooks inside hooks would go on for ever.
    left: Cell<usize>,
}

impl Mixer {
    /// Some operations on any of the connections.
    fn operate(&self) {
        for _ in 0..self.random.below(6) {
            if self.left.get() == 0 {
                return;
            }
            self.left.set(self.left.get() - 1);
            let target = self.random.below(CONNECTIONS);
            let transport = self.transports.borrow()[target].clone();
            // Noted before it is written, for a hook that falls due inside may write behind it.
            let note = |bytes: &[u8]| self.written.borrow_mut()[target].extend_from_slice(bytes);
            let state = match self.random.below(8) {
                0..=2 => {
                    let piece = self.random.piece(40);
                    note(&piece);
                    transport.write(&piece)
                }
                3..=4 => {
                    let pieces: Vec<_> =
                        (0..self.random.below(5)).map(|_| self.random.piece(40)).collect();
                    note(&pieces.concat());
                    transport.write_all_vectored(&pieces)
                }
                5 => {
                    let piece = self.random.piece(80_000);
                    note(&piece);
                    transport.write(&piece)
                }
                6 => {
                    transport.set_write_buffer_limits(self.random.below(40_000), None).unwrap();
                    continue;
                }
                _ => {
                    transport.pause_reading();
                    transport.resume_reading();
                    continue;
                }
            };
            assert_ne!(state, WriteState::Closed);
        }
    }
}

/// Reads what has come for each peer, which must be what comes next; `heard` is how much there was before.
fn read_all(world: &mut World, mixer: &Mixer, peers: &mut [Peer], heard: &mut [usize]) {
    world.turn();
    let written = mixer.written.borrow();
    let mut chunk = [0; 16 * 1024];
    for ((peer, heard), written) in peers.iter_mut().zip(heard).zip(&*written) {
        while let Ok(count @ 1..) = peer.read(&mut chunk) {
            let expected = written.get(*heard..*heard + count);
            assert!(
                expected == Some(&chunk[..count]),
                "after {heard} bytes: out of order, or not its own"
            );
            *heard += count;
        }
    }
}

#[test]
fn each_peer_gets_what_was_written_to_it_and_nothing_else() {
    every_kind().both_ways().run(|world| {
        let rounds = if world.kind == Kind::Tls { 1 } else { 3 };
        for round in 0..rounds {
            let seed = 0x9e37_79b9_7f4a_7c15 ^ (round << 32 | u64::from(std::process::id()));
            println!("seed {seed:#x}");
            let mixer = Rc::new(Mixer {
                random: Random::new(seed),
                transports: RefCell::default(),
                written: RefCell::new(vec![Vec::new(); CONNECTIONS]),
                left: Cell::new(0),
            });
            let mut peers = Vec::new();
            for _ in 0..CONNECTIONS {
                let hooks = mixer.clone();
                let probe = Probe::acting(move |hook, _| {
                    if !matches!(hook, Hook::Made | Hook::Lost(_)) {
                        hooks.operate();
                    }
                });
                let (transport, peer) = world.accept(&probe);
                peer.set_nonblocking(true).unwrap();
                mixer.transports.borrow_mut().push(transport);
                peers.push(peer);
            }
            let mut heard = [0; CONNECTIONS];
            for _ in 0..40 {
                mixer.left.set(30);
                // From hooks, and from elsewhere.
                for peer in &mut peers {
                    let _ = peer.write(b"go");
                }
                // From callbacks and tasks of the same iteration, too, with flushes in between.
                for _ in 0..2 {
                    let (callback, task) = (mixer.clone(), mixer.clone());
                    world.event_loop.call_soon(move || callback.operate());
                    let flushed =
                        mixer.transports.borrow()[mixer.random.below(CONNECTIONS)].clone();
                    let flushes = async move {
                        task.operate();
                        flushed.flushed().await;
                        task.operate();
                    };
                    world.event_loop.spawn(flushes).detach();
                }
                read_all(world, &mixer, &mut peers, &mut heard);
                mixer.operate();
            }
            mixer.left.set(0);
            while !mixer.written.borrow().iter().map(Vec::len).eq(heard) {
                read_all(world, &mixer, &mut peers, &mut heard);
            }
            for transport in mixer.transports.take() {
                transport.abort();
            }
            world.idle();
        }
    });
}
