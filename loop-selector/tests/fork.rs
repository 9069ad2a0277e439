//! A process that forks, without a test harness: it must have one thread only at that moment.
// eventlet/eventlet#68: the child, cleaning up, removed the parent's registrations.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use loop_selector::{Event, Events, Interest, Readiness, Selector, available, by_name};

fn main() {
    for name in available() {
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
            let refused = name == "poll" || selector.modify(b, Some(Interest::WRITE)).is_err();
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
    let wake = std::thread::spawn(move || waker.wake());
    selector.select(&mut events, Some(Duration::from_secs(10))).unwrap();
    wake.join().unwrap();
    assert!(!selector.waker().is_notified(), "{name}: the wake did not arrive");
}
