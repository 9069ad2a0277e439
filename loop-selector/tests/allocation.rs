//! In steady state a wait allocates nothing, on any backend. Counted by an allocator of our own, for
//! which this file has one test only.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use loop_selector::conformance::usable;
use loop_selector::{Events, Interest, Selector, by_name};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is left to the system's allocator; the counter is this thread's and allocates
// nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        let mut waits = |selector: &mut dyn Selector| {
            let before = ALLOCATIONS.get();
            for round in 0..20 {
                let timeout = [Duration::ZERO, Duration::from_micros(300), Duration::MAX];
                selector.select(&mut events, Some(timeout[round % 3])).unwrap();
                assert_eq!(events.len(), 50);
                waker.wake();
            }
            ALLOCATIONS.get() - before
        };
        waits(&mut *selector); // everything grows to its size
        let counted = waits(&mut *selector);
        assert_eq!(counted, 0, "{name}");
        println!("{name}: no allocation in 20 waits");
    }
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get() - before, 1, "the counter counts");
}
