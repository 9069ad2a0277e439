//! Descriptors that are closed, or become another file, while they are registered. Safe code cannot
//! bring this about; a selector should meet it with grace all the same.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::Make;
use super::fixture::*;
use crate::error::SelectorError;
use crate::interest::Readiness;

/// A closed descriptor is either `EBADF` at once, or reported ready for all it is watched for.
pub fn b_sel_06_closed_descriptor(make: Make<'_>) {
    let mut selector = create(make);
    let fd = lonely(make, pair().0);
    let source = unowned(&fd);
    drop(fd);
    match selector.register(source, both()) {
        Ok(token) => assert_eq!(select(&mut *selector, SOON), [(token, both().into())]),
        Err(error) => {
            let inner = error.error().get_ref().and_then(|e| e.downcast_ref::<SelectorError>());
            assert_eq!(inner.unwrap().os_error().raw_os_error(), Some(libc::EBADF));
        }
    }
}

/// Deregistering what was closed meanwhile succeeds.
pub fn b_sel_08_deregister_after_close(make: Make<'_>) {
    let mut selector = create(make);
    let fd = lonely(make, ready_pair().0);
    let source = unowned(&fd);
    let token = selector.register(source.clone(), READ).unwrap();
    drop(fd);
    assert!(Rc::ptr_eq(&selector.deregister(token).unwrap(), &source));
    assert_eq!(select(&mut *selector, ZERO), []);
}

/// So does deregistering what was closed and whose number is another file's by now.
pub fn b_sel_09_deregister_after_close_and_reuse(make: Make<'_>) {
    let mut selector = create(make);
    let fd = lonely(make, pair().0);
    let (number, source) = (fd.as_raw_fd(), unowned(&fd));
    let token = selector.register(source.clone(), READ).unwrap();
    drop(fd);
    let (a, _b) = ready_pair();
    let other = with_number(a, number);
    assert!(Rc::ptr_eq(&selector.deregister(token).unwrap(), &source));
    assert_eq!(select(&mut *selector, ZERO), []);
    let token = selector.register(rc(other), READ).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
}

/// An unchanged interest makes no system call; `rearm` always does. Seen by whether a closed
/// descriptor is noticed.
pub fn b_sel_11_unchanged_interest_makes_no_call(make: Make<'_>) {
    let mut selector = create(make);
    let fd = lonely(make, pair().0);
    let token = selector.register(unowned(&fd), READ).unwrap();
    drop(fd);
    selector.modify(token, Some(READ)).unwrap();
    assert_eq!(selector.rearm(token).is_err(), refuses_closed(make));
}

/// If the kernel refuses a change, the descriptor is registered but silent until it is
/// deregistered, and the error says which it is.
pub fn b_sel_12_failed_modify_leaves_it_silent(make: Make<'_>) {
    let mut selector = create(make);
    let fd = lonely(make, ready_pair().0);
    let (number, source) = (fd.as_raw_fd(), unowned(&fd));
    let token = selector.register(source.clone(), READ).unwrap();
    drop(fd);
    match selector.modify(token, Some(both())) {
        Ok(()) => assert!(!refuses_closed(make)),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(selector.name()) && text.contains(&number.to_string()), "{text}");
            assert_eq!(selector.registry().get(token).unwrap().interest(), None);
            assert_eq!(select(&mut *selector, ZERO), []);
        }
    }
    assert!(Rc::ptr_eq(&selector.deregister(token).unwrap(), &source));
}

/// A descriptor closed behind the selector's back, its number reused: after a changed interest, or
/// `rearm`, the new file is really watched.
pub fn b_sel_13_reused_number_is_watched_after_rearm(make: Make<'_>) {
    for change in [None, Some(both())] {
        let mut selector = create(make);
        let fd = lonely(make, pair().0);
        let number = fd.as_raw_fd();
        let token = selector.register(unowned(&fd), READ).unwrap();
        drop(fd);
        let (a, _b) = ready_pair();
        let _other = with_number(a, number);
        match change {
            None => selector.rearm(token).unwrap(),
            Some(interest) => selector.modify(token, Some(interest)).unwrap(),
        }
        let expected = change.unwrap_or(READ).into();
        assert_eq!(select(&mut *selector, SOON), [(token, expected)]);
        selector.deregister(token).unwrap();
    }
}

/// A descriptor that is closed while it is watched, and stays registered: it may be reported, so that
/// the next read says what is wrong, but it neither ends each wait nor disturbs what else is watched.
pub fn b_sel_25_closed_while_watched_does_not_spin(make: Make<'_>) {
    let mut selector = create(make);
    let (reader, mut writer) = pair();
    let reader = Rc::new(reader);
    let token = selector.register(reader.clone(), READ).unwrap();
    for fd in [lonely(make, pair().0), lonely(make, ready_pair().0)] {
        let source = unowned(&fd);
        let closed = selector.register(source.clone(), both()).unwrap();
        drop(fd);
        let (start, mut returns, mut reports) = (Instant::now(), 0, 0);
        while start.elapsed() < Duration::from_millis(200) {
            let ready = select(&mut *selector, Some(Duration::from_millis(50)));
            assert!(ready.iter().all(|(ready, _)| *ready == closed));
            reports += ready.len();
            returns += 1;
        }
        let advice = "a closed descriptor is reported once and silent from then on";
        assert!(reports <= 2, "reported {reports} times: {advice}");
        assert!(returns < 10, "{returns} returns in 200 ms: {advice}");
        writer.write_all(b"x").unwrap();
        assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
        assert!(Rc::ptr_eq(&selector.deregister(closed).unwrap(), &source));
        let (a, _b) = pair();
        let number = source.source_fd().as_raw_fd();
        let again = selector.register(rc(with_number(a, number)), WRITE).unwrap();
        let mut ready = select(&mut *selector, SOON);
        ready.sort_by_key(|(token, _)| *token);
        assert_eq!(ready, [(token, READ.into()), (again, WRITE.into())]);
        selector.deregister(again).unwrap();
        assert_eq!((&*reader).read(&mut [0]).unwrap(), 1);
    }
}

/// A descriptor that was closed too early, while a duplicate keeps its file open, can no longer be
/// removed: it must neither be reported, nor end each wait, nor disturb what else is watched.
pub fn b_sel_25_orphan_does_not_spin(make: Make<'_>) {
    let mut selector = create(make);
    let (file, _f) = ready_pair();
    let (a, mut b) = pair();
    let token = selector.register(rc(a), READ).unwrap();
    let fd = lonely(make, &file);
    let orphan = selector.register(unowned(&fd), READ).unwrap();
    drop(fd);
    selector.deregister(orphan).unwrap();
    let (start, mut returns) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(200) {
        assert_eq!(select(&mut *selector, Some(Duration::from_millis(50))), []);
        returns += 1;
    }
    assert!(returns < 10, "{returns} returns in 200 ms");
    b.write_all(b"x").unwrap();
    assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
    let waker = selector.waker();
    assert!(waker.park());
    waker.wake();
    selector.deregister(token).unwrap();
    assert_eq!(select(&mut *selector, None), []);
}
