//! Changing protocols, receiving into one's own buffer, the socket view: B-TRN-33, 34 and 36 of the
//! contract, on each backend.

mod common;

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use common::{Hook, Kind, OnDrop, PIPES, Probe, Trace, block, every_kind, fill, text};
use loop_net::{Buffered, BufferedProtocol, KeepOpen, NetError, Protocol, ProtocolBusy, Transport};

/// Receives into a buffer of its own, of the size that the test wants.
#[derive(Clone)]
struct Own {
    trace: Trace,
    buffer: Vec<u8>,
    received: Rc<RefCell<Vec<u8>>>,
    hints: Rc<RefCell<Vec<Option<usize>>>>,
    panics: Rc<Cell<bool>>,
}

impl Own {
    fn new(size: usize) -> Own {
        Own {
            trace: Trace::new(),
            buffer: vec![0; size],
            received: Rc::default(),
            hints: Rc::default(),
            panics: Rc::default(),
        }
    }
}

impl BufferedProtocol for Own {
    fn connection_made(&mut self, _: &Transport) {
        self.trace.push("made");
    }

    fn buffer(&mut self, hint: Option<usize>) -> &mut [u8] {
        assert!(!self.panics.get(), "no buffer today");
        self.hints.borrow_mut().push(hint);
        &mut self.buffer
    }

    fn buffer_updated(&mut self, count: usize) {
        assert!(count > 0);
        self.received.borrow_mut().extend_from_slice(&self.buffer[..count]);
    }

    fn eof_received(&mut self) -> KeepOpen {
        self.trace.push("eof");
        KeepOpen::No
    }

    fn connection_lost(&mut self, error: Option<&NetError>) {
        self.trace.push(error.map_or("lost".to_owned(), |error| format!("lost {error}")));
    }
}

#[test]
fn b_trn_34_a_buffered_protocol_receives_into_its_own_memory() {
    every_kind().that_read().run(|world| {
        let own = Own::new(7);
        let (_transport, protocol, mut peer) = world.connect(Buffered(own.clone()));
        peer.write_all(b"hello, world").unwrap();
        world.until(|| own.received.borrow().len() == 12);
        assert_eq!(&*own.received.borrow(), b"hello, world");
        // TLS knows how much it has decrypted; what is received there and then is of any size.
        let hinted = world.kind == Kind::Tls;
        assert!(own.hints.borrow().iter().all(|hint| hint.is_some() == hinted));
        protocol.with(|Buffered(own)| own.buffer.truncate(1)).unwrap();
        peer.write_all(b"!!").unwrap();
        world.until(|| own.received.borrow().len() == 14);
        drop(peer);
        world.until(|| own.trace.has("lost"));
        assert_eq!(own.trace.take(), ["made", "eof", "lost"]);
    });
}

#[test]
fn b_trn_34_an_empty_buffer_or_a_panic_is_fatal() {
    every_kind().that_read().run(|world| {
        let own = Own::new(0);
        let (transport, _, mut peer) = world.connect(Buffered(own.clone()));
        peer.write_all(b"x").unwrap();
        world.until(|| transport.is_closing());
        world.idle();
        let [made, lost] = &own.trace.take()[..] else { panic!() };
        assert!(made == "made" && lost.contains("empty buffer"), "{lost}");
        assert_eq!(world.reports.take().len(), 1);

        let own = Own::new(9);
        own.panics.set(true);
        let (transport, _, mut peer) = world.connect(Buffered(own.clone()));
        peer.write_all(b"x").unwrap();
        world.until(|| transport.is_closing());
        world.idle();
        assert!(own.trace.take()[1].contains("no buffer today"));
        assert_eq!(world.reports.take().len(), 1);
    });
}

#[test]
fn b_trn_34_bytes_from_elsewhere_are_copied_there() {
    let own = Own::new(3);
    let mut protocol = Buffered(own.clone());
    protocol.data_received(b"eight by");
    assert_eq!(&*own.received.borrow(), b"eight by");
    assert_eq!(&*own.hints.borrow(), &[Some(8), Some(5), Some(2)]);
}

#[test]
fn b_trn_33_protocols_of_both_kinds_follow_each_other() {
    every_kind().that_read().run(|world| {
        let plain = Probe::new();
        let (transport, first, mut peer) = world.connect(plain.clone());
        peer.write_all(b"one").unwrap();
        world.until(|| plain.trace.has("data one"));

        let own = Own::new(9);
        let second = transport.set_protocol(Buffered(own.clone()));
        assert_eq!(first.with(|_| ()).unwrap_err(), ProtocolBusy::Replaced);
        peer.write_all(b"two").unwrap();
        world.until(|| *own.received.borrow() == b"two");

        // The new one is not told of the connection, which it knows already.
        let probe = Probe::traced(&plain.trace, |_, _| {});
        transport.set_protocol(Told { probe, transport: transport.clone() });
        assert_eq!(second.with(|_| ()).unwrap_err(), ProtocolBusy::Replaced);
        peer.write_all(b"three").unwrap();
        world.until(|| plain.trace.has("data three"));
        drop(peer);
        world.until(|| plain.trace.has("lost"));
        assert_eq!(plain.trace.take(), ["made", "data one", "made", "data three", "eof", "lost"]);
        assert_eq!(own.trace.take(), [""; 0], "it came later and went earlier");
        // On a connection that is over it is dropped.
        let gone = transport.set_protocol(Probe::new());
        assert_eq!(gone.with(|_| ()).unwrap_err(), ProtocolBusy::Gone);
    });
}

/// Makes its probe known before the first hook.
struct Told {
    probe: Probe,
    transport: Transport,
}

impl Protocol for Told {
    fn data_received(&mut self, data: &[u8]) {
        self.probe.connection_made(&self.transport);
        self.probe.data_received(data);
    }
    fn eof_received(&mut self) -> KeepOpen {
        self.probe.eof_received()
    }
    fn connection_lost(&mut self, error: Option<&NetError>) {
        self.probe.connection_lost(error);
    }
}

#[test]
fn b_trn_33_changing_inside_a_hook_drops_the_old_one_after_it() {
    every_kind().that_read().run(|world| {
        let trace = Trace::new();
        let (noted, dropped) = (trace.clone(), trace.clone());
        let next = Own::new(9);
        let new = next.clone();
        let gone = OnDrop(move || dropped.push("dropped"));
        let probe = Probe::acting(move |hook, transport| {
            let _ = &gone;
            if matches!(hook, Hook::Data(_)) {
                transport.set_protocol(Buffered(new.clone()));
                transport.write(b"from the old one");
                noted.push("hook ends");
            }
        });
        let (_transport, _, mut peer) = world.connect(probe);
        peer.write_all(b"switch").unwrap();
        world.until(|| trace.has("dropped"));
        assert_eq!(trace.take(), ["hook ends", "dropped"]);
        if world.kind.writes() {
            assert_eq!(world.read(&mut peer, 16), b"from the old one");
        }
        peer.set_nonblocking(false).unwrap();
        peer.write_all(b"more").unwrap();
        world.until(|| *next.received.borrow() == b"more");
    });
}

#[test]
fn b_trn_33_a_new_protocol_is_told_of_a_full_buffer_and_the_old_one_is_not_asked() {
    every_kind().that_write().run(|world| {
        let old = Probe::new();
        let (transport, _, mut peer) = world.connect(old.clone());
        let size = fill(&transport, b'x');
        assert!(old.trace.has("pause"));
        let new = Rc::new(RefCell::new(Vec::new()));
        struct Flow(Rc<RefCell<Vec<&'static str>>>);
        impl Protocol for Flow {
            fn data_received(&mut self, _: &[u8]) {}
            fn pause_writing(&mut self) {
                self.0.borrow_mut().push("pause");
            }
            fn resume_writing(&mut self) {
                self.0.borrow_mut().push("resume");
            }
        }
        transport.set_protocol(Flow(new.clone()));
        assert_eq!(*new.borrow(), ["pause"]);
        assert_eq!(world.read(&mut peer, size).len(), size);
        world.until(|| transport.write_buffer_size() == 0);
        assert_eq!(*new.borrow(), ["pause", "resume"]);
        assert_eq!(old.trace.take(), ["made", "pause"]);
    });
}

#[test]
fn b_trn_36_the_socket_view_sets_options_and_nothing_else() {
    every_kind()
        .not_over(&[Kind::Unix], "it has no such options")
        .not_over(PIPES, "a pipe is no socket")
        .run(|world| {
            let (transport, _, _peer) = world.connect(Probe::new());
            let socket = transport.socket();
            assert!(socket.nodelay().unwrap());
            socket.set_nodelay(false).unwrap();
            assert!(!socket.nodelay().unwrap());
            assert_eq!(socket.keepalive().unwrap(), None);
            socket.set_keepalive(Some(Duration::from_secs(77))).unwrap();
            assert_eq!(socket.keepalive().unwrap(), Some(Duration::from_secs(77)));
            socket.set_keepalive(Some(Duration::from_millis(1))).unwrap();
            assert_eq!(
                socket.keepalive().unwrap(),
                Some(Duration::from_secs(1)),
                "the least there is"
            );
            socket.set_keepalive(None).unwrap();
            assert_eq!(socket.keepalive().unwrap(), None);
            socket.set_send_buffer_size(100_000).unwrap();
            assert!(socket.send_buffer_size().unwrap() >= 100_000);
            socket.set_recv_buffer_size(100_000).unwrap();
            assert!(socket.recv_buffer_size().unwrap() >= 100_000);
            assert!(socket.fileno().unwrap() > 2);
            let error = socket.set_linger(Some(Duration::from_secs(1))).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", text(&error));
            socket.set_linger(Some(Duration::ZERO)).unwrap();
            block(&transport, b'x');
            transport.abort();
            world.idle();
            assert_eq!(socket.nodelay().unwrap_err().kind(), io::ErrorKind::NotConnected);
            assert_eq!(socket.fileno().unwrap_err().kind(), io::ErrorKind::NotConnected);
            assert!(transport.peer_addr().is_some(), "addresses stay");
        });
}
