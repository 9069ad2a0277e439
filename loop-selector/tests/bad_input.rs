//! What callers get wrong, and what runs out: each a distinct error that names the backend and the
//! descriptor; the selector works on, and nothing leaks.
//!
//! One test only: it counts the process's descriptors, and takes all of them.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use loop_selector::conformance::usable;
use loop_selector::{Event, Events, Interest, Readiness, Selector, SelectorError, by_name};
use rustix::process::{Resource, getrlimit, setrlimit};

const SOON: Option<Duration> = Some(Duration::from_secs(10));

#[test]
fn each_mistake_is_an_error_of_its_own_and_nothing_leaks() {
    for name in usable() {
        let before = open_files();
        mistakes(name);
        assert_eq!(open_files(), before, "{name}: descriptors leak");
        exhaustion(name);
        assert_eq!(open_files(), before, "{name}: descriptors leak");
        println!("{name}: done");
    }
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The error's text names the backend, and whatever else is expected.
#[track_caller]
fn assert_error(error: &io::Error, kind: ErrorKind, name: &str, also: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.starts_with(&format!("{name}: ")) && text.contains(also), "{text}");
}

fn mistakes(name: &str) {
    let mut selector = by_name(name).unwrap();
    let (a, mut b) = UnixStream::pair().unwrap();
    let number = format!("fd {}", a.as_raw_fd());
    let a = Rc::new(a);

    // Empty interest, and bits that are none.
    assert_eq!(Interest::from_bits(0), None);
    assert_eq!(Interest::from_bits(8), None);

    // Twice; the selector's own waker.
    let token = selector.register(a.clone(), Interest::READ).unwrap();
    let error = selector.register(a.clone(), Interest::WRITE).unwrap_err();
    assert_error(error.error(), ErrorKind::AlreadyExists, name, &number);
    drop(error);
    let waker = Rc::new(selector.waker());
    if let Ok(own) = selector.register(waker, Interest::READ) {
        // Only a backend that tells the kernel anew each time can bear it.
        assert!(["poll", "uring"].contains(&name));
        selector.deregister(own).unwrap();
    }

    // Calls in the wrong order.
    let (other, _o) = UnixStream::pair().unwrap();
    let gone = selector.register(Rc::new(other), Interest::READ).unwrap();
    selector.deregister(gone).unwrap();
    let label = format!("registration {}.{}", gone.index(), gone.generation());
    for error in [
        selector.deregister(gone).err().unwrap(),
        selector.modify(gone, Some(Interest::READ)).unwrap_err(),
        selector.modify(gone, None).unwrap_err(),
        selector.rearm(gone).unwrap_err(),
    ] {
        assert_error(&error, ErrorKind::NotFound, name, &label);
    }

    // A number over the limit.
    lift_file_limit();
    let high = rustix::io::fcntl_dupfd_cloexec(&b, 2_000).unwrap();
    let label = format!("fd {}", high.as_raw_fd());
    match selector.register(Rc::new(high), Interest::WRITE) {
        Ok(high) => drop(selector.deregister(high).unwrap()),
        Err(error) => {
            assert_error(error.error(), ErrorKind::InvalidInput, name, &label);
            let inner = error.error().get_ref().unwrap().downcast_ref::<SelectorError>().unwrap();
            assert_eq!((inner.backend(), inner.fd()), (name, 2_000));
            assert!(name == "select");
        }
    }

    // After all that it works.
    b.write_all(b"x").unwrap();
    assert_works(&mut *selector, token);
    drop(selector);
    assert_eq!(Rc::strong_count(&a), 1);
}

#[track_caller]
fn assert_works(selector: &mut dyn Selector, token: loop_selector::Token) {
    let mut events = Events::new();
    selector.select(&mut events, SOON).unwrap();
    let expected = Event::Ready { token, readiness: Readiness::READABLE };
    assert_eq!(events.iter().collect::<Vec<_>>(), [&expected]);
}

fn lift_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit })
        .unwrap();
}

/// With no descriptor left: creation fails and says which backend; what exists works on.
fn exhaustion(name: &str) {
    let mut selector = by_name(name).unwrap();
    let (a, mut b) = UnixStream::pair().unwrap();
    let a = Rc::new(a);
    let limit = getrlimit(Resource::Nofile);
    let low = rustix::process::Rlimit { current: Some(64), ..limit };
    setrlimit(Resource::Nofile, low).unwrap();
    let mut taken = Vec::new();
    while let Ok(copy) = b.try_clone() {
        taken.push(copy);
    }
    // At each step of the construction there is one descriptor more.
    let mut failures = 0;
    let created = loop {
        match by_name(name) {
            Ok(created) => break created,
            Err(error) => {
                assert!(error.to_string().starts_with(&format!("{name}: ")), "{error}");
                assert!(error.to_string().contains("Too many open files"), "{error}");
                failures += 1;
                taken.pop().expect("some number is enough");
            }
        }
    };
    assert!(failures >= 1);
    drop(created);
    let token = selector.register(a, Interest::READ).unwrap();
    b.write_all(b"x").unwrap();
    assert_works(&mut *selector, token);
    drop(taken);
    setrlimit(Resource::Nofile, limit).unwrap();
}
