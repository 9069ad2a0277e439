//! In steady state a wait allocates nothing, on any backend.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use allocation_counter::measure;
use loop_selector::conformance::usable;
use loop_selector::{Events, Interest, by_name};

#[test]
fn a_wait_allocates_nothing_in_steady_state() {
    for name in usable() {
        let mut selector = by_name(name).unwrap();
        let pairs: Vec<_> = (0..100).map(|_| UnixStream::pair().unwrap()).collect();
        let mut peers = Vec::new();
        for (a, b) in pairs {
            selector.register(Rc::new(a), Interest::READ).unwrap();
            peers.push(b);
        }
        peers[..50].iter_mut().for_each(|peer| peer.write_all(b"x").unwrap());
        let waker = selector.waker();
        let mut events = Events::new();
        let mut waits = || {
            for round in 0..20 {
                let timeout = [Duration::ZERO, Duration::from_micros(300), Duration::MAX];
                selector.select(&mut events, Some(timeout[round % 3])).unwrap();
                assert_eq!(events.len(), 50);
                waker.wake();
            }
        };
        let first = measure(&mut waits).count_total; // everything grows to its size
        assert!(first > 0, "{name}: the counter counts");
        assert_eq!(measure(&mut waits).count_total, 0, "{name}");
        println!("{name}: no allocation in 20 waits");
    }
}
