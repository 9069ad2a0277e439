//! Registering, changing, removing.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use super::Make;
use super::fixture::*;
use crate::error::SelectorError;
use crate::interest::Readiness;
use crate::selector::Selector;
use crate::source::OwnedSource;
use crate::token::Token;

/// What is registered can be looked up again, unchanged.
pub fn b_sel_01_register_keeps_number_interest_and_owner(make: Make<'_>) {
    let mut selector = create(make);
    for interest in [READ, WRITE, both()] {
        let (a, _b) = pair();
        let fd = a.as_raw_fd();
        let owner = rc(a);
        let token = selector.register(owner.clone(), interest).unwrap();
        let entry = selector.registry().get(token).unwrap();
        assert_eq!((entry.token(), entry.fd()), (token, fd));
        assert_eq!(entry.interest(), Some(interest));
        assert!(Rc::ptr_eq(entry.owner(), &owner));
        assert_eq!(selector.registry().by_fd(fd), Some(token));
    }
}

/// A negative number is `InvalidInput`, and nothing is stored.
pub fn b_sel_02_negative_number_is_refused(make: Make<'_>) {
    let mut selector = create(make);
    let error = selector.register(Rc::new(Negative), READ).unwrap_err();
    assert_eq!(error.error().kind(), ErrorKind::InvalidInput);
    assert!(selector.registry().is_empty());
}

/// The same number twice, through whatever object, is `AlreadyExists`; the first entry works on,
/// and the second owner comes back.
pub fn b_sel_03_second_registration_is_refused(make: Make<'_>) {
    struct Twin(Rc<UnixStream>);
    impl AsFd for Twin {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
    let mut selector = create(make);
    let (a, _b) = ready_pair();
    let (fd, a) = (a.as_raw_fd(), Rc::new(a));
    let token = selector.register(a.clone(), READ).unwrap();
    let twin = rc(Twin(a));
    let error = selector.register(twin.clone(), WRITE).unwrap_err();
    assert_eq!(error.error().kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains(&fd.to_string()), "it names the descriptor: {error}");
    assert!(Rc::ptr_eq(error.owner(), &twin));
    assert_eq!(selector.registry().len(), 1);
    assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
}

/// A failed registration leaves nothing behind, gives the owner back, and says what failed.
pub fn b_sel_04_failed_registration_is_rolled_back(make: Make<'_>) {
    let mut selector = create(make);
    let fd = lonely(make, pair().0);
    let (number, source) = (fd.as_raw_fd(), unowned(&fd));
    drop(fd);
    let Err(error) = selector.register(source.clone(), READ) else { return };
    assert!(Rc::ptr_eq(error.owner(), &source));
    let text = error.to_string();
    assert!(text.contains(selector.name()) && text.contains(&number.to_string()), "{text}");
    drop(error);
    assert_eq!(Rc::strong_count(&source), 1);
    assert!(selector.registry().is_empty() && selector.registry().by_fd(number).is_none());
    // The number can be registered as soon as it is a file again.
    let (a, _b) = ready_pair();
    let token = selector.register(rc(with_number(a, number)), READ).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
}

/// A regular file is either `EPERM`, or ready for what is asked.
pub fn b_sel_05_regular_file(make: Make<'_>) {
    refused_or_always_ready(make, File::open(std::env::current_exe().unwrap()).unwrap().into());
}

// php/php-src#23805: what epoll cannot watch must neither panic, hang, nor leave a phantom entry.
/// The same for a directory and /dev/null; the selector works on.
pub fn s11_directory_and_dev_null(make: Make<'_>) {
    refused_or_always_ready(make, File::open("/").unwrap().into());
    refused_or_always_ready(make, File::open("/dev/null").unwrap().into());
}

fn refused_or_always_ready(make: Make<'_>, file: OwnedFd) {
    let mut selector = create(make);
    match selector.register(rc(file), READ) {
        Ok(token) => {
            assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
            selector.deregister(token).unwrap();
        }
        Err(error) => {
            assert_eq!(error.error().kind(), ErrorKind::PermissionDenied, "{error}");
            let inner = error.error().get_ref().and_then(|e| e.downcast_ref::<SelectorError>());
            let os_error = inner.expect("it says which backend and descriptor").os_error();
            assert_eq!(os_error.raw_os_error(), Some(libc::EPERM));
            assert!(selector.registry().is_empty());
            let again = selector.register(error.into_parts().0, READ).unwrap_err();
            assert_eq!(again.error().kind(), ErrorKind::PermissionDenied, "no phantom entry");
        }
    }
    let (a, _b) = ready_pair();
    let token = selector.register(rc(a), READ).unwrap();
    assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
}

/// Deregistering gives the owner back, and does it once.
pub fn b_sel_07_deregister_returns_the_owner_once(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _b) = ready_pair();
    let owner = rc(a);
    let token = selector.register(owner.clone(), READ).unwrap();
    let back = selector.deregister(token).unwrap();
    assert!(Rc::ptr_eq(&back, &owner));
    drop(back);
    assert_eq!(Rc::strong_count(&owner), 1, "the selector keeps no owner");
    assert_eq!(kind(selector.deregister(token)), Some(ErrorKind::NotFound));
    assert_eq!(kind(selector.deregister(Token::from_bits(7 << 32 | 9))), Some(ErrorKind::NotFound));
    assert_eq!(select(&mut *selector, ZERO), []);
}

/// A changed interest counts at once, and the registry shows it.
pub fn b_sel_10_modify_changes_the_interest(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _b) = ready_pair();
    let token = selector.register(rc(a), READ).unwrap();
    for interest in [WRITE, both(), READ, WRITE] {
        selector.modify(token, Some(interest)).unwrap();
        assert_eq!(selector.registry().get(token).unwrap().interest(), Some(interest));
        assert_eq!(select(&mut *selector, SOON), [(token, interest.into())]);
    }
    selector.deregister(token).unwrap();
    assert_eq!(kind(selector.modify(token, Some(READ))), Some(ErrorKind::NotFound));
    assert_eq!(kind(selector.modify(token, None)), Some(ErrorKind::NotFound));
    assert_eq!(kind(selector.rearm(token)), Some(ErrorKind::NotFound));
}

/// `None` silences without forgetting, and `Some` brings the descriptor back.
pub fn modify_to_none_is_silent_and_reversible(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _b) = ready_pair();
    let token = selector.register(rc(a), both()).unwrap();
    for _ in 0..2 {
        selector.modify(token, None).unwrap();
        assert_eq!(selector.registry().get(token).unwrap().interest(), None);
        selector.rearm(token).unwrap();
        assert_eq!(select(&mut *selector, ZERO), []);
        selector.modify(token, Some(READ)).unwrap();
        assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
    }
    selector.modify(token, None).unwrap();
    selector.deregister(token).unwrap();
}

/// The registry shows every change at once.
pub fn b_sel_26_registry_is_current(make: Make<'_>) {
    let mut selector = create(make);
    assert!(selector.registry().is_empty() && selector.registry().iter().next().is_none());
    let pairs: Vec<_> = (0..5).map(|_| pair()).collect();
    let copy = |s: &UnixStream| Rc::new(OwnedSource::dup(s.as_fd()).unwrap());
    let tokens: Vec<_> =
        pairs.iter().map(|(a, _)| selector.register(copy(a), READ).unwrap()).collect();
    assert_eq!(selector.registry().len(), 5);
    let mut seen: Vec<_> = selector.registry().iter().map(|entry| entry.token()).collect();
    seen.sort();
    assert_eq!(seen, tokens);
    let fd = selector.registry().get(tokens[2]).unwrap().fd();
    selector.deregister(tokens[2]).unwrap();
    assert_eq!(selector.registry().len(), 4);
    assert!(selector.registry().get(tokens[2]).is_none());
    assert_eq!(selector.registry().by_fd(fd), None);
    assert_eq!(selector.registry().iter().count(), 4);
}

/// Dropping the selector lets go of every owner and closes what is its own.
pub fn b_sel_27_drop_releases_everything(make: Make<'_>) {
    let mut selector = create(make);
    let (a, b) = pair();
    let (a, b) = (rc(a), rc(b));
    selector.register(a.clone(), READ).unwrap();
    let silent = selector.register(b.clone(), WRITE).unwrap();
    selector.modify(silent, None).unwrap();
    if let Some(fd) = Selector::as_fd(&*selector) {
        assert!(fd.as_raw_fd() >= 0);
    }
    drop(selector);
    assert_eq!((Rc::strong_count(&a), Rc::strong_count(&b)), (1, 1));
}

/// What the selector opens does not leak into programs that are executed.
pub fn b_sel_31_close_on_exec(make: Make<'_>) {
    use rustix::io::{FdFlags, fcntl_getfd};
    let selector = create(make);
    let waker = selector.waker();
    assert!(fcntl_getfd(&waker).unwrap().contains(FdFlags::CLOEXEC));
    if let Some(fd) = Selector::as_fd(&*selector) {
        assert!(fcntl_getfd(fd).unwrap().contains(FdFlags::CLOEXEC));
    }
}

/// A token is never given out twice, even for the same number and slot.
pub fn b_sel_35_tokens_are_fresh(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _b) = ready_pair();
    let mut owner = rc(a);
    let mut old = Vec::new();
    for _ in 0..100 {
        let token = selector.register(owner, READ).unwrap();
        assert!(!old.contains(&token));
        for stale in &old {
            assert!(selector.registry().get(*stale).is_none());
            assert_eq!(kind(selector.deregister(*stale)), Some(ErrorKind::NotFound));
        }
        assert_eq!(select(&mut *selector, SOON), [(token, Readiness::READABLE)]);
        owner = selector.deregister(token).unwrap();
        old.push(token);
    }
}
