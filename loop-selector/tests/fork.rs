//! A process that forks, without a test harness: it must have one thread only at that moment.
// eventlet/eventlet#68: the child, cleaning up, removed the parent's registrations.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loop_selector::conformance::usable;
use loop_selector::{Event, Events, Interest, Readiness, Selector, by_name};

fn main() {
    for name in usable() {
        s16_child_leaves_the_parents_registrations_alone(name);
    }
}

fn s16_child_leaves_the_parents_registrations_alone(name: &str) {
    let mut selector = by_name(name).unwrap();
    let ((a, mut a_peer), (b, _b_peer)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    let a = selector.register(Rc::new(a), Interest::READ).unwrap();
    let b = selector.register(Rc::new(b), Interest::READ).unwrap();
    // SAFETY: there is no other thread.
    match unsafe { libc::fork() } {
        0 => {
            let removed = selector.deregister(a).is_ok();
            // What would reach the parent's kernel object is refused.
            let refused = (name == "poll" || selector.modify(b, Some(Interest::WRITE)).is_err())
                && selector.select(&mut Events::new(), Some(Duration::ZERO)).is_err();
            drop(selector);
            // SAFETY: nothing is left to be done in the child.
            unsafe { libc::_exit(if removed && refused { 0 } else { 1 }) }
        }
        child => {
            let mut status = -1;
            // SAFETY: `status` is ours to be filled in.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "{name}: in the child");
        }
    }
    let mut events = Events::new();
    a_peer.write_all(b"x").unwrap();
    selector.select(&mut events, Some(Duration::from_secs(10))).unwrap();
    let expected = Event::Ready { token: a, readiness: Readiness::READABLE };
    assert_eq!(events.iter().collect::<Vec<_>>(), [&expected], "{name}");
    selector.deregister(a).unwrap();
    let waker = selector.waker();
    let published = Arc::new(AtomicBool::new(false));
    let flag = published.clone();
    let wake = std::thread::spawn(move || {
        flag.store(true, Ordering::Relaxed);
        waker.wake();
    });
    // More than once, perhaps: a wait may end early, for instance when the kernel has something to
    // tidy up behind an io_uring that this process had before.
    let start = Instant::now();
    while !published.load(Ordering::Relaxed) {
        selector.select(&mut events, Some(Duration::from_secs(30))).unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{name}: the wake did not arrive");
    wake.join().unwrap();
}
