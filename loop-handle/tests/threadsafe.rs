//! Thread-safe handles: a run and a cancel that race have one winner.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use loop_handle::{CancelOnDrop, Run, ThreadsafeHandle};

/// Fails a test that hangs.
fn watched(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel::<()>();
    let watched = thread::spawn(move || {
        test();
        drop(done);
    });
    match ended.recv_timeout(Duration::from_secs(10)) {
        Err(RecvTimeoutError::Disconnected) => watched.join().expect("the test failed"),
        _ => panic!("the test hangs"),
    }
}

#[test]
fn b_thr_08_a_cancelled_callback_never_runs() {
    let captured = Arc::new(());
    let held = captured.clone();
    let handle = ThreadsafeHandle::new(move || drop(held));
    assert!(!handle.is_cancelled());
    assert!(handle.cancel());
    assert_eq!(Arc::strong_count(&captured), 1, "dropped at once");
    assert!(handle.is_cancelled());
    assert!(handle.clone().cancel(), "still true that it never ran and never will");
    assert!(matches!(handle.run(), Run::Skipped));
}

#[test]
fn b_thr_08_a_cancel_after_the_run_returns_false() {
    let handle = ThreadsafeHandle::new(|| Err("fails"));
    assert!(matches!(handle.run(), Run::Failed(_)));
    assert!(matches!(handle.run(), Run::Skipped));
    assert!(!handle.cancel());
    assert!(!handle.is_cancelled());
}

#[test]
fn b_thr_08_cancel_from_inside_the_callback_does_not_deadlock() {
    watched(|| {
        let slot: Arc<Mutex<Option<ThreadsafeHandle>>> = Arc::default();
        let inside = slot.clone();
        let handle = ThreadsafeHandle::new(move || {
            let own = inside.lock().expect("not poisoned").take().expect("put before the run");
            assert!(!own.cancel());
            assert!(matches!(own.run(), Run::Skipped));
        });
        *slot.lock().expect("not poisoned") = Some(handle.clone());
        assert!(matches!(handle.run(), Run::Done));
    });
}

#[test]
fn b_thr_08_a_destructor_may_cancel_its_own_handle() {
    struct Cancels(Arc<Mutex<Option<ThreadsafeHandle>>>, Arc<AtomicU32>);
    impl Drop for Cancels {
        fn drop(&mut self) {
            let own = self.0.lock().expect("not poisoned").take().expect("put before the drop");
            assert!(own.cancel() && own.is_cancelled());
            assert!(matches!(own.run(), Run::Skipped));
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    watched(|| {
        let slot: Arc<Mutex<Option<ThreadsafeHandle>>> = Arc::default();
        let drops = Arc::new(AtomicU32::new(0));
        let captured = Cancels(slot.clone(), drops.clone());
        let handle = ThreadsafeHandle::new(move || drop(captured));
        *slot.lock().expect("not poisoned") = Some(handle.clone());
        assert!(handle.cancel());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn b_thr_08_run_and_cancel_that_race_have_one_winner() {
    watched(|| {
        let (mut ran_first, mut cancelled_first) = (0, 0);
        for _ in 0..2000 {
            let runs = Arc::new(AtomicU32::new(0));
            let counted = runs.clone();
            let handle = ThreadsafeHandle::new(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            let gate = Arc::new(Barrier::new(2));
            let canceller = {
                let (handle, gate) = (handle.clone(), gate.clone());
                thread::spawn(move || {
                    gate.wait();
                    (handle.cancel(), handle.cancel())
                })
            };
            gate.wait();
            let ran = matches!(handle.run(), Run::Done);
            let (cancelled, again) = canceller.join().expect("cancels");
            assert_ne!(ran, cancelled, "exactly one of the two happened");
            assert_eq!(cancelled, again);
            assert_eq!(cancelled, handle.is_cancelled());
            assert_eq!(runs.load(Ordering::Relaxed), u32::from(ran));
            assert_eq!(Arc::strong_count(&runs), 1);
            *(if ran { &mut ran_first } else { &mut cancelled_first }) += 1;
        }
        assert_eq!(ran_first + cancelled_first, 2000);
    });
}

#[test]
fn b_thr_08_a_cancel_while_it_runs_elsewhere_returns_false_at_once() {
    watched(|| {
        let (started, wait_for_start) = mpsc::channel();
        let (go_on, wait_to_go_on) = mpsc::channel::<()>();
        let handle = ThreadsafeHandle::new(move || {
            started.send(()).expect("the test waits");
            wait_to_go_on.recv().map_err(|_| "the test is gone")
        });
        let running = handle.clone();
        // `Run` may hold an error that must stay on its thread, so only the verdict comes back.
        let runner = thread::spawn(move || matches!(running.run(), Run::Done));
        wait_for_start.recv().expect("the callback starts");
        assert!(!handle.cancel());
        go_on.send(()).expect("the callback waits");
        assert!(runner.join().expect("runs"));
        assert!(!handle.cancel());
    });
}

#[test]
fn a_panic_unwinds_through_and_poisons_nothing() {
    let handle = ThreadsafeHandle::new(|| panic!("boom"));
    assert!(catch_unwind(AssertUnwindSafe(|| handle.run())).is_err());
    assert!(!handle.cancel());
    assert!(matches!(handle.run(), Run::Skipped));
}

#[test]
fn it_is_send_and_sync_and_shows_its_name() {
    fn crosses_threads<T: Send + Sync + Clone>(_: &T) {}
    let (handle, line) = (ThreadsafeHandle::new(|| ()), line!());
    crosses_threads(&handle);
    assert_eq!(handle.site().line(), line);
    assert!(handle.ptr_eq(&handle.clone()));
    assert!(!handle.ptr_eq(&ThreadsafeHandle::new(|| ())));
    let shown = format!("{handle:?}");
    assert!(shown.contains("it_is_send_and_sync_and_shows_its_name"), "{shown}");
    drop(CancelOnDrop::new(handle.clone()));
    assert!(format!("{handle:?}").ends_with(", cancelled)"));
}
