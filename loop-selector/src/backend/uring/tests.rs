//! What cannot be seen from outside: how often the kernel is entered, and on which rings.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use super::*;
use crate::event::Event;
use crate::selector::Selector;

/// A selector, unless the kernel refuses every ring.
fn selector() -> Option<IoUringSelector> {
    IoUringSelector::new().map_err(|error| println!("skipped: {error}")).ok()
}

fn pairs(count: usize) -> (Vec<Rc<UnixStream>>, Vec<UnixStream>) {
    (0..count).map(|_| UnixStream::pair().unwrap()).map(|(a, b)| (Rc::new(a), b)).unzip()
}

/// What a step costs, in calls.
fn calls<T>(
    selector: &mut IoUringSelector,
    step: impl FnOnce(&mut IoUringSelector) -> T,
) -> (T, u32) {
    let before = selector.watched.kernel.ring.calls.get();
    let value = step(selector);
    (value, selector.watched.kernel.ring.calls.get() - before)
}

fn select(selector: &mut IoUringSelector) -> usize {
    let mut events = Events::new();
    selector.select(&mut events, Some(Duration::ZERO)).unwrap();
    events.len()
}

/// One call a wait, though a tenth of what is registered is ready each time: what stays ready, what becomes
/// ready while nobody waits, and what is used up. No call for what is registered, or for what is
/// deregistered right after it was reported.
#[test]
fn one_call_moves_everything() {
    let Some(mut selector) = selector() else { return };
    let (near, mut far) = pairs(400);
    let (tokens, cost) = calls(&mut selector, |s| {
        let register = |near: &Rc<UnixStream>| s.register(near.clone(), Interest::READ).unwrap();
        near.iter().map(register).collect::<Vec<_>>()
    });
    assert_eq!(cost, 0);
    assert_eq!(calls(&mut selector, select), (0, 1));
    for round in 0..10 {
        let ready = round * 40..(round + 1) * 40;
        for far in &mut far[ready.clone()] {
            far.write_all(b"x").unwrap();
        }
        assert_eq!(calls(&mut selector, select), (40, 1), "became ready before the wait");
        assert_eq!(calls(&mut selector, select), (40, 1), "is still ready");
        for near in &near[ready] {
            (&**near).read_exact(&mut [0]).unwrap();
        }
        assert_eq!(calls(&mut selector, select), (0, 1), "was used up");
    }
    for far in &mut far[..200] {
        far.write_all(b"x").unwrap();
    }
    assert_eq!(calls(&mut selector, select), (200, 1));
    let (_, cost) = calls(&mut selector, |s| {
        for token in &tokens[..200] {
            s.deregister(*token).unwrap();
        }
    });
    assert_eq!(cost, 0, "none was being polled");
    let (_, cost) = calls(&mut selector, |s| s.deregister(tokens[200]).unwrap());
    assert_eq!(cost, 1);
    assert_eq!(calls(&mut selector, select), (0, 1));
}

/// A wait that sleeps is one call too, and so is one that a waker ends.
#[test]
fn b_thr_05_a_wake_costs_one_call() {
    let Some(mut selector) = selector() else { return };
    let (near, mut far) = pairs(1);
    selector.register(near[0].clone(), Interest::READ).unwrap();
    let sleep = |s: &mut IoUringSelector| {
        let mut events = Events::new();
        s.select(&mut events, None).unwrap();
        events.len()
    };
    far[0].write_all(b"x").unwrap();
    assert_eq!(calls(&mut selector, sleep), (1, 1));
    (&*near[0]).read_exact(&mut [0]).unwrap();
    for _ in 0..3 {
        let waker = selector.waker();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            waker.wake();
        });
        assert_eq!(calls(&mut selector, sleep), (0, 1));
        thread.join().unwrap();
    }
}

/// The tags of a slot's polls go round without an accident.
#[test]
fn b_sel_33_tags_wrap_around() {
    let Some(mut selector) = selector() else { return };
    let (near, mut far) = pairs(1);
    let token = selector.register(near[0].clone(), Interest::READ).unwrap();
    far[0].write_all(b"x").unwrap();
    assert_eq!(select(&mut selector), 1);
    selector.watched.kernel.polls.get_mut().skip_tags(token, u32::MAX - 2);
    for interest in [Interest::WRITE, Interest::READ, Interest::READ | Interest::WRITE].repeat(2) {
        let mut events = Events::new();
        selector.modify(token, Some(interest)).unwrap();
        selector.select(&mut events, None).unwrap();
        let readiness = interest.into();
        assert_eq!(events.iter().collect::<Vec<_>>(), [&Event::Ready { token, readiness }]);
    }
}

/// The suite on a ring as kernels before 6.0 have it, where completions come at any time.
#[test]
#[cfg(feature = "conformance")]
fn kernels_before_6_0() {
    if selector().is_some() {
        crate::conformance::run_all(|| {
            let ring = Ring::plain(SUBMISSIONS, COMPLETIONS);
            Ok(Box::new(IoUringSelector::around(ring, Waker::new()?)?))
        });
    }
}

/// Each refusal has its cause beside it.
#[test]
fn refusals_name_their_usual_cause() {
    let table =
        [(libc::ENOSYS, "no io_uring"), (libc::EPERM, "seccomp"), (libc::ENOMEM, "MEMLOCK")];
    for (errno, text) in table {
        let refused = Err(io::Error::from_raw_os_error(errno));
        let error = IoUringSelector::around(refused, Waker::new().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::Error::from_raw_os_error(errno).kind());
        let message = error.to_string();
        assert!(message.starts_with("uring: create: ") && message.contains(text), "{message}");
    }
}
