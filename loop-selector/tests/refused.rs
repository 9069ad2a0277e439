//! What a process may not do: system calls that a seccomp filter forbids, files beyond its limit.
//!
//! A filter holds for one thread, so each test has a thread of its own.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use loop_selector::conformance::watched;
use loop_selector::{EpollSelector, Events, Selector, SelectorChoice};

/// From here on the system call fails in this thread with that errno.
fn forbid(call: libc::c_long, errno: libc::c_int) {
    let load_call = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 }; // BPF_LD | BPF_W | BPF_ABS
    let compare = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: call as u32 }; // JMP | JEQ | K
    let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k }; // BPF_RET | BPF_K
    let mut program = [
        load_call,
        compare,
        answer(libc::SECCOMP_RET_ERRNO | errno as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program outlives the call, which copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter), 0);
    }
}

fn in_thread(test: impl FnOnce() + Send + 'static) {
    watched("refused", || thread::spawn(test).join().unwrap());
}

#[test]
fn b_sel_15_without_epoll_pwait2_a_wait_is_rounded_up() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        in_thread(move || {
            forbid(libc::SYS_epoll_pwait2, errno);
            let mut selector = EpollSelector::new().unwrap();
            for micros in [1, 100, 1_100, 2_900] {
                let start = Instant::now();
                selector.select(&mut Events::new(), Some(Duration::from_micros(micros))).unwrap();
                assert!(start.elapsed() >= Duration::from_millis(micros.div_ceil(1_000)));
            }
        });
    }
}

#[test]
fn b_sel_15_with_epoll_pwait2_a_short_wait_is_short() {
    in_thread(|| {
        let mut selector = EpollSelector::new().unwrap();
        let wait = Duration::from_micros(100);
        let shortest = (0..200).map(|_| {
            let start = Instant::now();
            selector.select(&mut Events::new(), Some(wait)).unwrap();
            start.elapsed()
        });
        let shortest = shortest.min().unwrap();
        assert!(shortest >= wait, "{shortest:?}");
        // SAFETY: a wait on no descriptor, to ask whether there is such a call.
        let probe = unsafe { libc::syscall(libc::SYS_epoll_pwait2, -1, 0, 0, 0, 0, 0) };
        assert_eq!(probe, -1);
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS) {
            assert!(shortest < Duration::from_millis(1), "{shortest:?}");
        }
    });
}

#[test]
fn b_sel_30_a_forbidden_epoll_is_reported_and_strict_mode_fails() {
    in_thread(|| {
        forbid(libc::SYS_epoll_create1, libc::EPERM);
        let (selector, report) = SelectorChoice::best().probe();
        assert_eq!((selector.unwrap().name(), report.chosen()), ("poll", Some("poll")));
        let [refusal] = report.refused() else { panic!("{report}") };
        assert_eq!((refusal.name(), refusal.kind()), ("epoll", ErrorKind::PermissionDenied));
        assert!(report.to_string().starts_with("poll (not epoll: epoll: create: "), "{report}");

        for choice in [SelectorChoice::best().strict(true), SelectorChoice::named("epoll")] {
            let (selector, report) = choice.probe();
            assert_eq!(selector.err().unwrap().kind(), ErrorKind::PermissionDenied);
            assert_eq!((report.chosen(), report.refused().len()), (None, 1));
        }
    });
}

/// A filter against rings is told at construction, with its cause, also one that lets rings be made
/// and then forbids their use.
#[test]
#[cfg(feature = "uring")]
fn b_sel_33_a_forbidden_ring_is_reported_at_construction() {
    if let Err(error) = loop_selector::IoUringSelector::new() {
        return println!("skipped: {error}");
    }
    for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter] {
        for (errno, cause) in [(libc::EPERM, "seccomp"), (libc::ENOSYS, "no io_uring")] {
            in_thread(move || {
                forbid(call, errno);
                let error = loop_selector::by_name("uring").err().unwrap();
                let text = error.to_string();
                assert!(text.starts_with("uring: create: ") && text.contains(cause), "{text}");
                let inner =
                    error.get_ref().and_then(|e| e.downcast_ref::<loop_selector::SelectorError>());
                assert_eq!(inner.unwrap().os_error().raw_os_error(), Some(errno));
            });
        }
    }
}

#[test]
fn b_sel_30_what_must_be_named_is_no_fall_back() {
    in_thread(|| {
        // All that any of them could be made with.
        for call in [libc::SYS_epoll_create1, libc::SYS_eventfd2] {
            forbid(call, libc::EMFILE);
        }
        let (selector, report) = SelectorChoice::best().probe();
        assert!(selector.is_err());
        let tried: Vec<_> = report.refused().iter().map(|refusal| refusal.name()).collect();
        assert_eq!(tried, ["epoll", "poll", "select"], "{report}");
    });
}
