//! io_uring against the suite, and what only a ring can get wrong.
//!
//! Where the kernel refuses a ring, each test says so, with the reason, and is skipped.
#![cfg(all(feature = "uring", target_os = "linux"))]

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use loop_selector::conformance;
use loop_selector::{
    Event, Events, Interest, IoUringSelector, RawSource, Readiness, Selector, Token, by_name,
};

/// Enough for the kernel to notice anything.
const SOON: Duration = Duration::from_secs(10);

/// What the kernel says against a ring, if it does.
fn refusal() -> Option<io::Error> {
    IoUringSelector::new().err()
}

/// The suite, behaviour by behaviour, as `conformance_tests!` runs it.
macro_rules! unless_refused {
    ($name:ident, $make:expr; $($behaviour:ident)*) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $behaviour() {
                    if let Some(error) = refusal() {
                        println!("skipped: {error}");
                        return;
                    }
                    conformance::run(stringify!($behaviour), conformance::$behaviour, &$make);
                }
            )*
        }
    };
}

loop_selector::__for_all_behaviours! { unless_refused, uring, || by_name("uring") }

// Every queue overflows.
loop_selector::__for_all_behaviours! { unless_refused, uring_with_few_entries, || {
    Ok(Box::new(IoUringSelector::with_entries(2, 4)?) as Box<dyn Selector>)
} }

// Somebody has asked for the ring's descriptor, so it is kept up to date between waits.
loop_selector::__for_all_behaviours! { unless_refused, uring_observed, || {
    let selector = by_name("uring")?;
    Selector::as_fd(&selector);
    Ok(selector)
} }

/// Runs a test on rings with the usual number of entries, and with hardly any, unless refused.
fn on_rings(name: &'static str, test: fn(IoUringSelector)) {
    for (submissions, completions) in [(1024, 4096), (8, 16), (1, 2)] {
        match IoUringSelector::with_entries(submissions, completions) {
            Ok(selector) => conformance::watched(name, || test(selector)),
            Err(error) => println!("skipped: {error}"),
        }
    }
}

fn pairs(count: usize) -> (Vec<Rc<UnixStream>>, Vec<UnixStream>) {
    let pair = || UnixStream::pair().expect("a pair of sockets");
    let (near, far): (Vec<_>, Vec<_>) = (0..count).map(|_| pair()).unzip();
    for end in near.iter().chain(&far) {
        end.set_nonblocking(true).expect("non-blocking");
    }
    (near.into_iter().map(Rc::new).collect(), far)
}

fn select(selector: &mut IoUringSelector, timeout: Duration) -> Vec<Token> {
    let mut events = Events::new();
    selector.select(&mut events, Some(timeout)).expect("a wait succeeds");
    let token = |event: &Event| match event {
        Event::Ready { token, .. } => *token,
        other => panic!("{other:?}"),
    };
    events.iter().map(token).collect()
}

fn sorted(mut tokens: Vec<Token>) -> Vec<Token> {
    tokens.sort();
    tokens
}

// compio-rs/compio#11, DataDog/glommio#274: EBUSY, or a full queue, came out of the runtime.
/// Two hundred polls fit through a ring with eight submission and sixteen completion entries: all
/// that were ready when they were submitted, and all that become ready together afterwards.
#[test]
fn s17_more_polls_than_the_ring_has_room_for() {
    on_rings("s17", |mut selector| {
        let (near, mut far) = pairs(200);
        let start = Instant::now();
        let mut tokens = Vec::new();
        for (near, far) in near.iter().zip(&mut far).take(100) {
            tokens.push(selector.register(near.clone(), Interest::READ).unwrap());
            far.write_all(b"x").unwrap();
        }
        assert_eq!(sorted(select(&mut selector, SOON)), tokens);
        for near in &near[..100] {
            assert_eq!((&**near).read(&mut [0; 2]).unwrap(), 1);
        }
        for near in &near[100..] {
            tokens.push(selector.register(near.clone(), Interest::READ).unwrap());
        }
        assert_eq!(select(&mut selector, Duration::ZERO), []);
        // All two hundred polls are in the kernel now. They complete without anybody looking.
        for (index, far) in far.iter_mut().enumerate() {
            far.write_all(&[index as u8]).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(sorted(select(&mut selector, SOON)), tokens);
        }
        for (index, (near, token)) in near.iter().zip(&tokens).enumerate() {
            let mut byte = [0; 2];
            assert_eq!((&**near).read(&mut byte).unwrap(), 1);
            assert_eq!(byte[0], index as u8);
            selector.modify(*token, Some(Interest::READ | Interest::WRITE)).unwrap();
        }
        assert_eq!(sorted(select(&mut selector, SOON)), tokens);
        for token in &tokens {
            selector.modify(*token, Some(Interest::READ)).unwrap();
        }
        assert_eq!(select(&mut selector, Duration::ZERO), []);
        for token in tokens {
            selector.deregister(token).unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    });
}

/// The answers to changes fill the completion queue, so that those to the new polls overflow: one
/// wait brings them all the same.
#[test]
fn s17_what_overflows_is_part_of_the_wait() {
    conformance::watched("overflow", || {
        let mut selector = match IoUringSelector::with_entries(4, 4) {
            Ok(selector) => selector,
            Err(error) => return println!("skipped: {error}"),
        };
        for count in 1..20 {
            let (near, _far) = pairs(count);
            let mut tokens = Vec::new();
            for near in near {
                tokens.push(selector.register(near, Interest::READ).unwrap());
            }
            assert_eq!(select(&mut selector, Duration::ZERO), []);
            for token in &tokens {
                selector.modify(*token, Some(Interest::WRITE)).unwrap();
            }
            let mut ready = select(&mut selector, Duration::ZERO);
            ready.sort();
            tokens.sort();
            assert_eq!(ready, tokens);
            for token in tokens {
                selector.deregister(token).unwrap();
            }
        }
    });
}

/// A poll keeps the file open. Deregistering ends it, so that closing the descriptor is noticed by
/// the peer at once, and not only when somebody waits again.
#[test]
fn b_sel_33_deregister_lets_go_of_the_file() {
    on_rings("lets go", |mut selector| {
        let (near, mut far) = pairs(10);
        let register = |near: Rc<UnixStream>| selector.register(near, Interest::READ).unwrap();
        let tokens: Vec<_> = near.into_iter().map(register).collect();
        assert_eq!(select(&mut selector, Duration::ZERO), []);
        for (token, far) in tokens.into_iter().zip(&mut far) {
            drop(selector.deregister(token).unwrap());
            assert_eq!(far.read(&mut [0; 1]).expect("end of file"), 0);
        }
    });
}

/// So does dropping the selector, although the kernel takes a ring down in its own time.
#[test]
fn b_sel_27_drop_lets_go_of_the_files() {
    on_rings("drop", |mut selector| {
        let (near, far) = pairs(50);
        for near in near {
            selector.register(near, Interest::READ).unwrap();
        }
        assert_eq!(select(&mut selector, Duration::ZERO), []);
        drop(selector);
        for mut far in far {
            assert_eq!(far.read(&mut [0; 1]).expect("end of file"), 0);
        }
    });
}

/// A poll that completed before the wait says nothing about now.
#[test]
fn b_sel_22_what_was_used_up_before_the_wait_is_not_reported() {
    on_rings("level", |mut selector| {
        for is_observed in [false, true] {
            let (near, mut far) = pairs(20);
            let register =
                |near: &Rc<UnixStream>| selector.register(near.clone(), Interest::READ).unwrap();
            let tokens: Vec<_> = near.iter().map(register).collect();
            if is_observed {
                Selector::as_fd(&selector);
            }
            for _ in 0..3 {
                assert_eq!(select(&mut selector, Duration::ZERO), []);
                for (near, far) in near.iter().zip(&mut far) {
                    far.write_all(b"x").unwrap();
                    assert_eq!((&**near).read(&mut [0; 2]).unwrap(), 1);
                }
            }
            for token in tokens {
                selector.deregister(token).unwrap();
            }
        }
    });
}

/// A poll that has completed by the time its registration is over, or changed, is not reported, not
/// even under the token that has its slot next.
#[test]
fn b_sel_33_late_completions_are_dropped() {
    on_rings("late", |mut selector| {
        let (near, mut far) = pairs(2);
        let old = selector.register(near[0].clone(), Interest::READ).unwrap();
        assert_eq!(select(&mut selector, Duration::ZERO), []);
        far[0].write_all(b"x").unwrap(); // completes the poll, in the middle of this very call
        selector.deregister(old).unwrap();
        let new = selector.register(near[1].clone(), Interest::READ).unwrap();
        assert_eq!(new.index(), old.index());
        assert_eq!(select(&mut selector, Duration::ZERO), []);
        far[1].write_all(b"x").unwrap();
        selector.modify(new, Some(Interest::WRITE)).unwrap();
        let mut events = Events::new();
        selector.select(&mut events, Some(SOON)).unwrap();
        let writable = Event::Ready { token: new, readiness: Readiness::WRITABLE };
        assert_eq!(events.iter().collect::<Vec<_>>(), [&writable]);
    });
}

/// A change of interest just before a wait does not end it.
#[test]
fn b_sel_15_the_answer_to_a_change_ends_no_wait() {
    on_rings("change", |mut selector| {
        let (near, _far) = pairs(2);
        let token = selector.register(near[0].clone(), Interest::WRITE).unwrap();
        let other = selector.register(near[1].clone(), Interest::READ).unwrap();
        assert_eq!(select(&mut selector, SOON), [token]);
        assert_eq!(select(&mut selector, SOON), [token]);
        for interest in [Some(Interest::READ), None, Some(Interest::READ)] {
            selector.modify(token, interest).unwrap();
            selector.rearm(other).unwrap();
            let (start, timeout) = (Instant::now(), Duration::from_millis(20));
            assert_eq!(select(&mut selector, timeout), []);
            assert!(start.elapsed() >= timeout, "{interest:?}: {:?}", start.elapsed());
        }
    });
}

/// Numbers that the kernel does not accept for its queues.
#[test]
fn impossible_rings_are_refused() {
    if let Some(error) = refusal() {
        return println!("skipped: {error}");
    }
    for (submissions, completions) in [(0, 0), (1 << 20, 1 << 21), (64, 32)] {
        let error = IoUringSelector::with_entries(submissions, completions).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().starts_with("uring: create: "), "{error}");
    }
}

fn is_readable(fd: RawFd) -> bool {
    let mut fds = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    // SAFETY: there is one element.
    unsafe { libc::poll(fds.as_mut_ptr(), 1, 0) == 1 }
}

/// The ring's descriptor, for a host loop: it follows what becomes ready, what is used up, changes,
/// and wakes, though nobody waits in between.
#[test]
fn b_sel_27_the_ring_tells_a_host_loop_the_truth() {
    on_rings("host", |mut selector| {
        let (near, mut far) = pairs(3);
        let a = selector.register(near[0].clone(), Interest::READ).unwrap();
        let b = selector.register(near[1].clone(), Interest::READ).unwrap();
        let ring = Selector::as_fd(&selector).unwrap().as_raw_fd();
        let waker = selector.waker();
        for _ in 0..3 {
            assert!(!is_readable(ring));
            assert!(waker.park());
            waker.wake();
            assert!(is_readable(ring), "a wake");
            assert_eq!(select(&mut selector, Duration::ZERO), []);
            assert!(!is_readable(ring), "after a wake");
            far[0].write_all(b"x").unwrap();
            assert!(is_readable(ring), "became ready");
            // What is taken out of the ring together with the answer to a change stays known.
            selector.modify(b, Some(Interest::WRITE)).unwrap();
            selector.modify(b, Some(Interest::READ)).unwrap();
            assert!(is_readable(ring), "is ready, and another changed");
            assert_eq!(select(&mut selector, Duration::ZERO), [a]);
            assert!(is_readable(ring), "is still ready");
            let c = selector.register(near[2].clone(), Interest::READ).unwrap();
            selector.modify(a, None).unwrap();
            assert!(!is_readable(ring), "is silent");
            selector.modify(a, Some(Interest::READ)).unwrap();
            assert!(is_readable(ring), "is no longer silent");
            selector.deregister(c).unwrap();
            assert!(is_readable(ring), "is ready, and another went");
            assert_eq!((&*near[0]).read(&mut [0; 2]).unwrap(), 1);
            assert_eq!(select(&mut selector, Duration::ZERO), []);
        }
    });
}

/// A descriptor that is not open, as behind a raw number may be, is reported once, so that the next read
/// tells, and then is silent: no spin.
#[test]
fn b_sel_06_a_closed_descriptor_is_reported_once() {
    on_rings("closed", |mut selector| {
        // SAFETY: not open, on purpose. It is above every limit, so no other file is ever meant.
        let source = unsafe { RawSource::new(i32::MAX) }.unwrap();
        let token = selector.register(Rc::new(source), Interest::READ).unwrap();
        assert_eq!(select(&mut selector, SOON), [token]);
        assert_eq!(selector.registry().get(token).unwrap().interest(), None);
        assert_eq!(select(&mut selector, Duration::ZERO), []);
        selector.deregister(token).unwrap();
    });
}
