//! What is reported: which directions, how often, how many at once.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};

use super::Make;
use super::fixture::*;
use crate::interest::Readiness;
use crate::selector::Selector;
use crate::source::OwnedSource;

/// Only what was asked for is reported, and nothing if nothing of it is ready.
pub fn b_sel_18_readiness_is_masked(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _a) = ready_pair();
    let (b, _b) = pair();
    let a = selector.register(rc(a), READ).unwrap();
    let b = selector.register(rc(b), READ).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(a, Readiness::READABLE)]);
    selector.modify(a, Some(WRITE)).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(a, Readiness::WRITABLE)]);
    selector.deregister(a).unwrap();
    assert_eq!(select(&mut *selector, ZERO), []);
    selector.modify(b, Some(both())).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(b, Readiness::WRITABLE)]);
}

/// A hang-up wakes whichever side is registered: the cases of B-SEL-20 with pipes and sockets.
pub fn b_sel_19_hang_up_wakes_every_registered_side(make: Make<'_>) {
    let mut selector = create(make);
    let (reader, writer) = pipe();
    drop(reader);
    let token = selector.register(rc(writer), both()).unwrap();
    for interest in [WRITE, READ, both()] {
        selector.modify(token, Some(interest)).unwrap();
        assert_eq!(select(&mut *selector, SOON), [(token, interest.into())]);
    }
    selector.deregister(token).unwrap();

    let (reader, writer) = pipe();
    drop(writer);
    let token = selector.register(rc(reader), READ).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(token, READ.into())]);
    selector.modify(token, Some(both())).unwrap();
    match select(&mut *selector, SOON)[..] {
        // What `select` answers: it cannot tell the hang-up from data, and so not report it to
        // somebody who wants to write.
        [(_, Readiness::READABLE)] if bound(make) == FD_SETSIZE => {}
        ref ready => {
            assert_eq!(ready, [(token, both().into())]);
            selector.modify(token, Some(WRITE)).unwrap();
            assert_eq!(select(&mut *selector, SOON), [(token, WRITE.into())]);
        }
    }
    selector.deregister(token).unwrap();

    let (a, b) = pair();
    drop(b);
    let token = selector.register(rc(a), both()).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(token, both().into())]);
}

/// A peer that finished sending is an end of file: READ, and never more than was asked for. What it
/// has not read yet can still be written.
pub fn b_sel_19_half_closed_is_readable(make: Make<'_>) {
    let mut selector = create(make);
    let (a, b) = pair();
    let a = Rc::new(a);
    b.shutdown(Shutdown::Write).unwrap();
    let token = selector.register(a.clone(), READ).unwrap();
    for interest in [READ, both(), WRITE] {
        selector.modify(token, Some(interest)).unwrap();
        assert_eq!(select(&mut *selector, SOON), [(token, interest.into())]);
    }
    assert_eq!((&*a).write(b"x").unwrap(), 1);
    b.shutdown(Shutdown::Read).unwrap();
    for interest in [READ, both(), WRITE] {
        selector.modify(token, Some(interest)).unwrap();
        assert_eq!(select(&mut *selector, SOON), [(token, interest.into())]);
    }
}

/// A refused connect is WRITE; on Linux a socket that was never connected hangs up at once.
pub fn b_sel_20_refused_and_unconnected_sockets(make: Make<'_>) {
    let mut selector = create(make);
    let nobody = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::io::ioctl_fionbio(&socket, true).unwrap();
    if rustix::net::connect(&socket, &nobody) == Err(rustix::io::Errno::INPROGRESS) {
        let token = selector.register(rc(socket), WRITE).unwrap();
        assert_eq!(select(&mut *selector, SOON), [(token, Readiness::WRITABLE)]);
        selector.deregister(token).unwrap();
    }
    if cfg!(target_os = "linux") {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let token = selector.register(rc(socket), both()).unwrap();
        assert_eq!(select(&mut *selector, SOON), [(token, both().into())]);
    }
}

/// Ready both ways is one event.
pub fn b_sel_21_both_directions_are_one_event(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _b) = ready_pair();
    let token = selector.register(rc(a), both()).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(token, both().into())]);
}

/// What was not read is reported again, every time; what was read is not.
pub fn b_sel_22_and_32_level_triggered(make: Make<'_>) {
    let mut selector = create(make);
    let (a, mut b) = ready_pair();
    let a = Rc::new(a);
    let token = selector.register(a.clone(), READ).unwrap();
    for _ in 0..5 {
        assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
    }
    b.write_all(b"yz").unwrap();
    assert_eq!((&*a).read(&mut [0; 2]).unwrap(), 2);
    assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
    assert_eq!((&*a).read(&mut [0; 2]).unwrap(), 1);
    assert_eq!(select(&mut *selector, ZERO), []);
    b.write_all(b"x").unwrap();
    assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
}

/// Twelve pairs, a random writer each time: each message arrives once, at the reader it was for.
pub fn b_sel_22_each_message_reaches_its_reader_once(make: Make<'_>) {
    let mut selector = create(make);
    let mut readers = HashMap::new();
    let mut writers = Vec::new();
    for index in 0..12u8 {
        let (reader, writer) = pair();
        let reader = Rc::new(reader);
        let token = selector.register(reader.clone(), READ).unwrap();
        readers.insert(token, (reader, index));
        writers.push(writer);
    }
    let mut random = 0x9e37_79b9_u32;
    for _ in 0..500 {
        // xorshift: any order will do, as long as it is the same in each run.
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let index = random as usize % writers.len();
        writers[index].write_all(&[index as u8]).unwrap();
        let ready = select(&mut *selector, SOON);
        assert_eq!(ready.len(), 1);
        let (reader, expected) = &readers[&ready[0].0];
        let mut message = [0; 8];
        assert_eq!((&**reader).read(&mut message).unwrap(), 1);
        assert_eq!((message[0], *expected), (index as u8, index as u8));
    }
    assert_eq!(select(&mut *selector, ZERO), []);
}

/// One wait reports everything that is ready, however much is registered.
pub fn b_sel_23_one_batch_holds_all(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _b) = ready_pair();
    let crowd_bound = crowd_bound(make);
    for registered in 1..=1500 {
        let copy = OwnedSource::dup(a.as_fd()).unwrap();
        if copy.as_fd().as_raw_fd() >= crowd_bound {
            break;
        }
        selector.register(Rc::new(copy), READ).unwrap();
        if registered % 100 == 1 {
            assert_eq!(select(&mut *selector, SOON).len(), registered);
        }
    }
    let registered = selector.registry().len();
    assert!(registered >= 100);
    assert_eq!(select(&mut *selector, SOON).len(), registered);
}

/// Ten thousand registrations: one of them ready, all of them ready, none left. As many as the
/// limits of the process and of the selector allow.
pub fn b_sel_29_ten_thousand_descriptors(make: Make<'_>) {
    const WANTED: usize = 10_000;
    // One crowd at a time in the process.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut selector = create(make);
    let (a, mut b) = pair();
    let (single, mut peer) = pair();
    let single = selector.register(rc(single), READ).unwrap();
    let (crowd_bound, mut tokens) = (crowd_bound(make), vec![single]);
    while tokens.len() < WANTED {
        let copy = OwnedSource::dup(a.as_fd()).unwrap();
        if copy.as_fd().as_raw_fd() >= crowd_bound {
            let (name, count) = (selector.name(), tokens.len());
            eprintln!(
                "{name}: {count} descriptors instead of {WANTED}: the limit is {crowd_bound}"
            );
            break;
        }
        tokens.push(selector.register(Rc::new(copy), READ).unwrap());
    }
    assert_eq!(selector.registry().len(), tokens.len());
    assert_eq!(select(&mut *selector, ZERO), []);
    peer.write_all(b"x").unwrap();
    assert_eq!(select(&mut *selector, SOON), [(single, Readiness::READABLE)]);
    b.write_all(b"x").unwrap();
    for _ in 0..2 {
        let mut ready: Vec<_> = select(&mut *selector, SOON).into_iter().map(|e| e.0).collect();
        ready.sort();
        tokens.sort();
        assert!(ready == tokens, "{} of {}", ready.len(), tokens.len());
    }
    for token in tokens {
        selector.deregister(token).unwrap();
    }
    assert_eq!(select(&mut *selector, ZERO), []);
}

/// A descriptor of 1024 or more works, or is refused at registration (B-SEL-28); the waits of
/// others never suffer.
pub fn b_sel_28_and_29_numbers_above_fd_setsize(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _b) = ready_pair();
    let (small, _s) = ready_pair();
    if lift_file_limit() < 2048 {
        eprintln!("skipped: the limit on open files is below 2048");
        return;
    }
    let high = rustix::io::fcntl_dupfd_cloexec(a, FD_SETSIZE).unwrap();
    let number = high.as_raw_fd().to_string();
    let mut expected = vec![(selector.register(rc(small), READ).unwrap(), Readiness::READABLE)];
    match selector.register(rc(high), READ) {
        Ok(token) => expected.push((token, Readiness::READABLE)),
        Err(error) => {
            let text = error.to_string();
            assert_eq!(error.error().kind(), ErrorKind::InvalidInput);
            assert!(text.contains(selector.name()) && text.contains(&number), "{text}");
        }
    }
    let mut ready = select(&mut *selector, SOON);
    ready.sort_by_key(|(token, _)| *token);
    assert_eq!(ready, expected);
}

// tokio-rs/mio#219: both ready in one batch, the handler of the first removes the second.
/// Late events name a token that is stale by then; the next wait does not report it at all.
pub fn s10_stale_token_in_the_same_batch(make: Make<'_>) {
    for _ in 0..100 {
        let mut selector = create(make);
        let (a, _a) = ready_pair();
        let (b, _b) = ready_pair();
        let (a, b) = (Rc::new(a), Rc::new(b));
        selector.register(a, READ).unwrap();
        selector.register(b, READ).unwrap();
        let batch = select(&mut *selector, SOON);
        assert_eq!(batch.len(), 2);
        let (first, second) = (batch[0].0, batch[1].0);
        let removed = selector.deregister(second).unwrap();
        let live: Vec<_> =
            batch.iter().filter(|e| selector.registry().get(e.0).is_some()).collect();
        assert_eq!(live, [&(first, Readiness::READABLE)]);
        // Registered anew, the same descriptor, and slot, is still not the one in the batch.
        let third = selector.register(removed, READ).unwrap();
        assert_ne!(third, second);
        assert!(selector.registry().get(second).is_none());
    }
}

/// What is deregistered is not reported, though the kernel was about to.
pub fn b_sel_24_removed_descriptors_are_not_reported(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _a) = ready_pair();
    let (b, _b) = ready_pair();
    let a = selector.register(rc(a), READ).unwrap();
    let b = selector.register(rc(b), READ).unwrap();
    let owner = selector.deregister(a).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(b, Readiness::READABLE)]);
    drop(owner);
    assert_eq!(select(&mut *selector, SOON), [(b, Readiness::READABLE)]);
    assert!(!is_quiet(&*selector) || Selector::as_fd(&*selector).is_none());
    let owner = selector.deregister(b).unwrap();
    assert!(is_quiet(&*selector), "the kernel still watches what was deregistered");
    drop(owner);
}

// oven-sh/bun#37920: a hang-up cannot be masked, so watching for nothing must mean not watching.
/// After the peer is gone, a silent descriptor ends no wait.
pub fn s15_hang_up_of_a_silent_descriptor_does_not_spin(make: Make<'_>) {
    let mut selector = create(make);
    let (a, b) = pair();
    let token = selector.register(rc(a), READ).unwrap();
    drop(b);
    assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
    selector.modify(token, None).unwrap();
    assert!(is_quiet(&*selector), "the kernel still watches what is silent");
    let (start, mut returns) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(200) {
        assert_eq!(select(&mut *selector, Some(Duration::from_millis(50))), []);
        returns += 1;
    }
    assert!(returns < 10, "{returns} returns in 200 ms");
    selector.modify(token, Some(READ)).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
}

/// The buffer is emptied by each wait, also by one that finds nothing.
pub fn select_empties_the_buffer(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _b) = ready_pair();
    let token = selector.register(rc(a), READ).unwrap();
    let mut events = crate::event::Events::new();
    selector.select(&mut events, SOON).unwrap();
    selector.select(&mut events, SOON).unwrap();
    assert_eq!(events.len(), 1);
    selector.deregister(token).unwrap();
    selector.select(&mut events, ZERO).unwrap();
    assert!(events.is_empty());
}

/// A selector that has a descriptor can be waited for in another loop.
pub fn b_sel_27_descriptor_is_readable_when_something_is_ready(make: Make<'_>) {
    let mut selector = create(make);
    let (a, mut b) = pair();
    selector.register(rc(a), READ).unwrap();
    let Some(fd) = Selector::as_fd(&*selector) else { return };
    let mut outer = crate::backend::poll::PollSelector::new().unwrap();
    outer.register(Rc::new(OwnedSource::dup(fd).unwrap()), READ).unwrap();
    assert_eq!(select(&mut outer, ZERO), []);
    b.write_all(b"x").unwrap();
    assert_eq!(select(&mut outer, SOON).len(), 1);
}
