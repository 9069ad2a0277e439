//! A peer that sends and reads as fast as it can does not keep the others waiting.

mod common;

use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use common::{Hook, Probe, World, for_each_backend, watchdog};
use loop_net::{Protocol, Transport};

const BLOCK: usize = 256 * 1024;

/// Echoes, and notes how much it was given at a time.
struct Echo {
    transport: Option<Transport>,
    reads: Rc<Cell<usize>>,
    largest: Rc<Cell<usize>>,
}

impl Protocol for Echo {
    fn connection_made(&mut self, transport: &Transport) {
        self.transport = Some(transport.clone());
    }

    fn data_received(&mut self, data: &[u8]) {
        self.reads.set(self.reads.get() + 1);
        self.largest.set(self.largest.get().max(data.len()));
        self.transport.as_ref().unwrap().write(data);
    }
}

/// Writes until the socket takes no more, and reads whatever has come back.
fn pour(peer: &mut TcpStream, block: &mut [u8]) -> usize {
    while let Ok(1..) = peer.write(block) {}
    let mut came = 0;
    loop {
        match peer.read(block) {
            Ok(0) => panic!("the server has closed the firehose"),
            Ok(count) => came += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return came;
            }
        }
    }
}

/// Which of the peers had all of their answer.
fn answered(peers: &mut [TcpStream]) -> usize {
    let mut buffer = [0; 64];
    peers.iter_mut().filter_map(|peer| peer.read(&mut buffer).ok()).sum::<usize>() / 64
}

#[test]
fn b_trn_25_a_firehose_gets_one_read_a_turn_as_the_others_do() {
    let _watchdog = watchdog();
    for_each_backend(|world| {
        let (reads, largest) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let factory = {
            let (reads, largest) = (reads.clone(), largest.clone());
            move || Echo { transport: None, reads: reads.clone(), largest: largest.clone() }
        };
        let server = world.block_on(world.net.tcp_server("127.0.0.1:0").bind(factory)).unwrap();
        let addr = server.local_addrs()[0];
        let mut peers: Vec<TcpStream> =
            (0..64).map(|_| TcpStream::connect(addr).unwrap()).collect();
        world.until(|| server.connections() == 64);
        for peer in &peers {
            peer.set_nonblocking(true).unwrap();
        }
        let mut firehose = peers.pop().unwrap();
        let mut block = vec![7; BLOCK];
        let mut poured = 0;
        for _ in 0..50 {
            poured += pour(&mut firehose, &mut block);
            for peer in &mut peers {
                peer.write_all(&[1; 64]).unwrap();
            }
            reads.set(0);
            world.event_loop.run_once(Some(Duration::ZERO)).unwrap();
            let mut done = answered(&mut peers);
            // Loopback may be late with a request or an answer; no turn reads more than once each.
            assert!(reads.get() <= 64, "{} reads in one turn", reads.get());
            while done < 63 {
                poured += pour(&mut firehose, &mut block);
                world.event_loop.run_once(Some(Duration::ZERO)).unwrap();
                done += answered(&mut peers);
            }
        }
        assert!(poured > 1_000_000, "the firehose ran: {poured} bytes came back");
        assert!(largest.get() <= BLOCK, "{} bytes in one read", largest.get());
    });
}

/// A connection that notes how much it is given at a time, and its peer.
fn noting(world: &mut World) -> (Rc<RefCell<Vec<usize>>>, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    // As much as the system lets one have.
    socket2::SockRef::from(&peer).set_send_buffer_size(1 << 20).unwrap();
    peer.set_nonblocking(true).unwrap();
    let sizes = Rc::new(RefCell::new(Vec::new()));
    let log = sizes.clone();
    let probe = Probe::acting(move |hook, _| {
        if let Hook::Data(data) = hook {
            log.borrow_mut().push(data.len());
        }
    });
    let adopted = world.net.adopt(ours).unwrap();
    world.block_on(adopted.connect(move || probe)).unwrap();
    (sizes, peer)
}

#[test]
fn b_trn_25_a_firehose_has_a_smaller_share_while_others_are_ready() {
    for_each_backend(|world| {
        let _watchdog = watchdog();
        let (firehose, mut pouring) = noting(world);
        let (other, mut small) = noting(world);
        for _ in 0..3 {
            let mut waiting = 0;
            while let Ok(count @ 1..) = pouring.write(&[7; BLOCK]) {
                waiting += count;
            }
            assert!(waiting > 64 * 1024, "{waiting} bytes are no firehose");
            small.write_all(b"x").unwrap();
            world.until_readable(2);
            world.turn();
            assert_eq!((firehose.take(), other.take()), (vec![64 * 1024], vec![1]));
            // Alone it has all there is, in one piece.
            while let Ok(1..) = pouring.write(&[7; BLOCK]) {}
            world.until_readable(1);
            world.turn();
            let alone = firehose.take();
            assert!(matches!(alone[..], [size] if size > 64 * 1024 && size <= BLOCK), "{alone:?}");
            world.idle();
            firehose.take();
        }
    });
}
