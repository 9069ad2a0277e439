//! Random operations in every hook, on connections of every kind, while their peers write, read, end and reset. The
//! hooks keep to their grammar, none is called inside another one of its protocol, what arrives is what was sent, and
//! nothing is left. The operations are random, from a seed that a failure names.

mod common;

use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read, Write};
use std::rc::Rc;

use common::{Kind, Peer, Random, World, every_kind};
use loop_net::{KeepOpen, LoopRef, NetError, Protocol, Server, Transport, WriteState};

const CONNECTIONS: usize = 3;

/// What is told to whoever writes too late for the fifth time, or keeps what cannot be kept.
const WARNINGS: [&str; 2] = [
    "data written to a closed connection is dropped",
    "a TLS connection cannot be kept open after the peer's end",
];

/// What all hooks share.
struct Wild {
    lp: LoopRef,
    random: Random,
    /// How many operations are left; hooks inside hooks would go on for ever.
    left: Cell<usize>,
    connections: RefCell<Vec<Rc<Connection>>>,
    panics: Cell<usize>,
    server: RefCell<Option<Rc<Server>>>,
}

/// What is known of a connection, from its hooks and from what was done to it.
#[derive(Default)]
struct Connection {
    transport: RefCell<Option<Transport>>,
    made: Cell<bool>,
    eof: Cell<bool>,
    lost: Cell<bool>,
    /// A write came too late.
    shut: Cell<bool>,
    reading_paused: Cell<bool>,
    written: RefCell<Vec<u8>>,
    received: RefCell<Vec<u8>>,
}

/// A protocol of one of the connections. It may be replaced by another one.
struct Hooks {
    wild: Rc<Wild>,
    own: Rc<Connection>,
    inside: Cell<bool>,
    full: Cell<bool>,
}

impl Wild {
    fn hooks(self: &Rc<Self>, own: &Rc<Connection>) -> Hooks {
        Hooks {
            wild: self.clone(),
            own: own.clone(),
            inside: Cell::default(),
            full: Cell::default(),
        }
    }

    /// Some operations on any of the connections.
    fn operate(self: &Rc<Self>) {
        for _ in 0..self.random.below(5) {
            let Some(left) = self.left.get().checked_sub(1) else { return };
            self.left.set(left);
            let connections = self.connections.borrow();
            let connection = connections[self.random.below(connections.len())].clone();
            drop(connections);
            let transport = connection.transport.borrow().clone();
            if let Some(transport) = transport {
                self.operate_on(&connection, &transport);
            }
        }
    }

    fn operate_on(self: &Rc<Self>, connection: &Rc<Connection>, transport: &Transport) {
        match self.random.below(40) {
            0..=11 => {
                let piece = self.random.piece(60);
                connection.wrote(&piece.clone(), || transport.write(&piece));
            }
            12..=15 => {
                let pieces: Vec<_> =
                    (0..self.random.below(5)).map(|_| self.random.piece(40)).collect();
                connection.wrote(&pieces.concat(), || transport.write_all_vectored(&pieces));
            }
            16..=19 => {
                let piece = self.random.piece(150_000);
                connection.wrote(&piece.clone(), || transport.write(&piece));
            }
            20..=22 => {
                connection.reading_paused.set(true);
                transport.pause_reading();
            }
            23..=26 => {
                connection.reading_paused.set(false);
                transport.resume_reading();
            }
            27..=29 => {
                let high = self.random.below(60_000);
                transport.set_write_buffer_limits(high, Some(self.random.below(high + 1))).unwrap();
            }
            30..=32 => drop(transport.set_protocol(self.hooks(connection))),
            33..=34 => {
                let (transport, wild) = (transport.clone(), self.clone());
                let flushes = async move {
                    transport.flushed().await;
                    wild.operate();
                };
                self.lp.spawn(flushes).detach();
            }
            35 => {
                let wild = self.clone();
                self.lp.call_soon(move || wild.operate());
            }
            36 if transport.can_write_eof() => transport.write_eof(),
            37 => transport.close(),
            38 => transport.abort(),
            _ => self.end_all(),
        }
    }
}

impl Wild {
    fn end_all(&self) {
        let server = self.server.borrow().clone();
        let Some(server) = server else { return };
        match self.random.below(30) {
            0 => server.close(),
            1 => server.close_clients(),
            2 => server.abort_clients(),
            _ => assert!(server.connections() <= CONNECTIONS),
        }
    }
}

impl Connection {
    /// Notes what is written, before it is, for a hook that falls due inside may write behind it.
    fn wrote(&self, bytes: &[u8], write: impl FnOnce() -> WriteState) {
        self.written.borrow_mut().extend_from_slice(bytes);
        if write() == WriteState::Closed {
            self.shut.set(true);
        }
    }
}

impl Hooks {
    fn hook(&self) {
        assert!(!self.inside.replace(true), "a hook inside another one");
        assert!(self.own.made.get() && !self.own.lost.get(), "before or after its time");
        self.wild.operate();
        self.inside.set(false);
    }

    fn may_panic(&self) {
        if self.wild.left.get() > 0 && self.wild.random.below(60) == 0 {
            self.wild.panics.set(self.wild.panics.get() + 1);
            panic!("as asked");
        }
    }
}

impl Protocol for Hooks {
    fn connection_made(&mut self, transport: &Transport) {
        assert!(!self.own.made.replace(true), "made twice");
        *self.own.transport.borrow_mut() = Some(transport.clone());
        self.hook();
        self.may_panic();
    }

    fn data_received(&mut self, data: &[u8]) {
        assert!(!data.is_empty() && !self.own.eof.get() && !self.own.reading_paused.get());
        self.own.received.borrow_mut().extend_from_slice(data);
        self.hook();
        self.may_panic();
    }

    fn eof_received(&mut self) -> KeepOpen {
        assert!(!self.own.eof.replace(true), "two ends");
        self.hook();
        self.may_panic();
        if self.wild.random.below(2) == 0 { KeepOpen::Yes } else { KeepOpen::No }
    }

    fn pause_writing(&mut self) {
        assert!(!self.full.replace(true), "paused twice");
        self.hook();
        self.may_panic();
    }

    fn resume_writing(&mut self) {
        assert!(self.full.replace(false), "resumed twice");
        self.hook();
        self.may_panic();
    }

    fn connection_lost(&mut self, _: Option<&NetError>) {
        self.hook();
        self.own.lost.set(true);
        self.may_panic();
    }
}

/// The other end, until it is gone.
struct Other {
    peer: Option<Peer>,
    ended: bool,
    sent: Vec<u8>,
    heard: usize,
}

impl Other {
    fn read(&mut self, connection: &Connection) {
        let Some(peer) = &mut self.peer else { return };
        let mut chunk = [0; 16 * 1024];
        while let Ok(count @ 1..) = peer.read(&mut chunk) {
            let written = connection.written.borrow();
            let expected = written.get(self.heard..self.heard + count);
            assert!(
                expected == Some(&chunk[..count]),
                "after {}: not what was written",
                self.heard
            );
            self.heard += count;
        }
    }

    fn act(&mut self, wild: &Wild, kind: Kind, connection: &Connection) {
        let Some(peer) = &mut self.peer else { return };
        match wild.random.below(20) {
            0..=7 if !self.ended => {
                let piece = wild.random.piece(3_000);
                match peer.write(&piece) {
                    Ok(count) => self.sent.extend_from_slice(&piece[..count]),
                    Err(error) => assert_ne!(error.kind(), ErrorKind::InvalidInput),
                }
            }
            8..=15 => self.read(connection),
            16 if wild.random.below(3) == 0 => {
                self.ended = true;
                if common::PIPES.contains(&kind) {
                    self.peer = None;
                } else {
                    // What has ended as a whole cannot end a side.
                    let _ = rustix::net::shutdown(&*peer, rustix::net::Shutdown::Write);
                }
            }
            17 if wild.random.below(4) == 0 => {
                let peer = self.peer.take().unwrap();
                match kind {
                    Kind::Tcp => peer.reset(),
                    _ => drop(peer),
                }
            }
            _ => {}
        }
    }
}

fn run(world: &mut World, seed: u64, accepted: bool) {
    let wild = Rc::new(Wild {
        lp: world.net.loop_ref(),
        random: Random::new(seed),
        left: Cell::new(0),
        connections: RefCell::default(),
        panics: Cell::default(),
        server: RefCell::default(),
    });
    // Every second time they are accepted by a server, where there is one.
    let serving = (accepted && !common::PIPES.contains(&world.kind)).then(|| {
        let (builder, address) = world.server();
        let makes = wild.clone();
        let newest = move || makes.connections.borrow().last().unwrap().clone();
        let makes = wild.clone();
        let bind = builder.bind(move || makes.hooks(&newest()));
        (Rc::new(world.block_on(bind).unwrap()), address)
    });
    let mut others = Vec::new();
    for _ in 0..CONNECTIONS {
        let own = Rc::new(Connection::default());
        wild.connections.borrow_mut().push(own.clone());
        let peer = match &serving {
            None => world.connect(wild.hooks(&own)).2,
            Some((server, address)) => {
                let peer = address.dial(server);
                world.until(|| own.made.get());
                peer
            }
        };
        peer.set_nonblocking(true).unwrap();
        others.push(Other { peer: Some(peer), ended: false, sent: Vec::new(), heard: 0 });
    }
    *wild.server.borrow_mut() = serving.as_ref().map(|(server, _)| server.clone());
    let connections = wild.connections.borrow().clone();
    world.until(|| connections.iter().all(|connection| connection.made.get()));
    for _ in 0..60 {
        wild.left.set(20);
        for (other, connection) in others.iter_mut().zip(&connections) {
            other.act(&wild, world.kind, connection);
        }
        world.turn();
        wild.operate();
    }
    // Now all that is open goes on to its end.
    wild.left.set(0);
    for connection in &connections {
        connection.reading_paused.set(false);
        connection.transport.borrow().as_ref().unwrap().resume_reading();
    }
    for (other, connection) in others.iter_mut().zip(&connections) {
        let open = |other: &Other| {
            let goes = connection.transport.borrow().as_ref().unwrap().is_closing();
            !goes && !connection.shut.get() && other.peer.is_some() && !other.ended
        };
        let arrived = |other: &Other| {
            let received = connection.received.borrow().len();
            other.heard == connection.written.borrow().len() && received == other.sent.len()
        };
        while open(other) && !arrived(other) {
            other.read(connection);
            world.event_loop.run_once(Some(std::time::Duration::from_millis(1))).unwrap();
        }
        let received = connection.received.borrow();
        assert!(other.sent.starts_with(&received), "not what was sent");
    }
    for connection in &connections {
        connection.transport.borrow().as_ref().unwrap().abort();
    }
    world.until(|| connections.iter().all(|connection| connection.lost.get()));
    let log = world.log.clone();
    wild.server.take();
    if let Some((server, _)) = serving {
        world.until(|| server.connections() == 0);
        server.close();
        world.block_on(server.wait_closed());
    }
    world.until(|| log.registered() == 0);
    world.idle();
    let mut reports = world.reports.take();
    reports.retain(|report| !WARNINGS.contains(&&**report));
    assert!(reports.iter().all(|report| report.contains("as asked")), "{reports:?}");
    assert_eq!(reports.len(), wild.panics.get());
    wild.connections.take();
}

#[test]
fn any_operation_in_any_hook_is_harmless() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Panics of ours are part of the game.
        if info.payload().downcast_ref() != Some(&"as asked") {
            print(info);
        }
    }));
    every_kind().run(|world| {
        let rounds = if world.kind == Kind::Tls { 4 } else { 10 };
        for round in 1..=rounds {
            let seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(round);
            println!("seed {seed:#x}");
            run(world, seed, round % 2 == 0);
        }
    });
}
