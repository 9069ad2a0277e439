//! Contexts: what a callback sees, and who sees what it writes.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use loop_handle::{AlreadyEntered, Context, ContextVar, Handle, Run, Snapshot, ThreadsafeHandle};

/// Each test has variables of its own: a snapshot is left by the end of its thread.
type Var = ContextVar<u32>;

fn run(handle: &Handle) {
    assert!(matches!(handle.run(), Run::Done));
}

#[test]
fn b_hnd_05_a_callback_runs_in_the_context_of_its_scheduling() {
    static VAR: Var = ContextVar::new();
    VAR.set(1);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let handle = {
        let seen = seen.clone();
        Handle::repeating(move || seen.borrow_mut().push(VAR.get()))
    };
    VAR.set(2);
    run(&handle);
    run(&handle);
    assert_eq!(*seen.borrow(), [Some(1), Some(1)]);
    assert_eq!(VAR.get(), Some(2));
}

#[test]
fn b_hnd_05_an_explicit_context_goes_before_the_current_one() {
    static VAR: Var = ContextVar::new();
    VAR.set(1);
    let context = Context::current();
    VAR.set(2);
    run(&Handle::once_in(&context, || assert_eq!(VAR.get(), Some(1))));
    run(&Handle::repeating_in(&context, || assert_eq!(VAR.get(), Some(1))));
    run(&Handle::once_in(&Context::new(), || assert_eq!(VAR.get(), None)));
}

#[test]
fn b_hnd_05_a_callback_passes_its_context_on() {
    static VAR: Var = ContextVar::new();
    let inner = Rc::new(RefCell::new(None));
    let slot = inner.clone();
    run(&Handle::once(move || {
        VAR.set(7);
        *slot.borrow_mut() = Some(Handle::once(|| assert_eq!(VAR.get(), Some(7))));
    }));
    assert_eq!(VAR.get(), None);
    run(&inner.take().expect("scheduled"));
}

#[test]
fn b_hnd_06_writes_in_a_snapshot_are_invisible_elsewhere() {
    static VAR: Var = ContextVar::with_default(|| 0);
    let first = Handle::repeating(|| {
        assert_eq!(VAR.get(), Some(0), "nor to its own next run");
        VAR.set(5);
        assert_eq!(VAR.get(), Some(5));
    });
    let second = Handle::once(|| assert_eq!(VAR.get(), Some(0)));
    run(&first);
    run(&first);
    run(&second);
    assert_eq!(VAR.get(), Some(0));
}

#[test]
fn b_hnd_06_writes_in_one_explicit_context_are_shared() {
    static VAR: Var = ContextVar::with_default(|| 0);
    let context = Context::new();
    for _ in 0..3 {
        run(&Handle::once_in(&context, || drop(VAR.set(VAR.get().map_or(0, |v| v + 1)))));
    }
    assert_eq!(VAR.get(), Some(0));
    assert!(matches!(context.run(|| VAR.get()), Ok(Some(3))));
}

#[test]
fn b_hnd_06_a_copy_is_independent() {
    static VAR: Var = ContextVar::new();
    let context = Context::new();
    context.run(|| VAR.set(1)).expect("not entered");
    let copy = context.copy();
    context.run(|| VAR.set(2)).expect("not entered");
    assert_eq!(copy.run(|| VAR.get()).expect("not entered"), Some(1));
    assert_eq!(context.clone().run(|| VAR.get()).expect("not entered"), Some(2));
}

#[test]
fn b_hnd_06_a_context_made_of_a_snapshot_starts_with_its_values() {
    static VAR: Var = ContextVar::new();
    VAR.set(1);
    let snapshot = Snapshot::current();
    let context = Context::from(snapshot.clone());
    context.run(|| VAR.set(VAR.get().map_or(0, |v| v + 1))).expect("not entered");
    assert_eq!(context.run(|| VAR.get()).expect("not entered"), Some(2));
    assert_eq!(snapshot.run(|| VAR.get()), Some(1));
}

#[test]
fn b_hnd_06_what_is_written_for_one_item_is_not_seen_for_the_next() {
    static VAR: Var = ContextVar::new();
    let run = |snapshot: &Snapshot| {
        let (mut seen, items) = (Vec::new(), [1, 2, 3]);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            snapshot.run_each(items, |item| {
                seen.push(VAR.get());
                VAR.set(item);
                assert!(item < 3);
            });
        }));
        assert!(panicked.is_err());
        seen
    };
    let (empty, outside) = (Snapshot::default(), Snapshot::current());
    assert_eq!(run(&empty), [None; 3]);
    assert_eq!(VAR.get(), None);
    VAR.set(7);
    assert_eq!(run(&empty), [None; 3]);
    assert_eq!(run(&outside), [None; 3]);
    assert_eq!(run(&Snapshot::current()), [Some(7); 3]);
    assert_eq!(VAR.get(), Some(7));
}

#[test]
fn b_hnd_06_copies_are_exact_wherever_the_context_stands() {
    static VAR: Var = ContextVar::new();
    let (outer, inner) = (Context::new(), Context::new());
    let read = |context: &Context| context.copy().run(|| VAR.get()).expect("a fresh copy");
    outer
        .run(|| {
            VAR.set(1);
            assert_eq!(read(&outer), Some(1), "innermost");
            inner
                .run(|| {
                    VAR.set(2);
                    assert_eq!(read(&outer), Some(1), "entered, but not innermost");
                    assert_eq!(read(&inner), Some(2));
                })
                .expect("another context");
            assert_eq!(VAR.get(), Some(1));
            Snapshot::default().run(|| {
                assert_eq!(VAR.get(), None);
                assert_eq!(read(&outer), Some(1), "under a snapshot");
            });
            VAR.set(3);
        })
        .expect("not entered");
    assert_eq!(read(&outer), Some(3), "left");
    assert_eq!(read(&inner), Some(2));
    assert_eq!(VAR.get(), None);
}

#[test]
fn b_hnd_07_entering_a_context_twice_is_an_error_that_returns_the_closure() {
    static VAR: Var = ContextVar::new();
    let context = Context::new();
    let refused = context.run(|| {
        VAR.set(1);
        let again: Result<u32, AlreadyEntered<_>> = context.clone().run(|| VAR.set(9)).map(|_| 0);
        // Also with another context in between.
        let between = Context::new().run(|| context.run(|| ()).is_err()).expect("a fresh one");
        assert!(between);
        assert_eq!(VAR.get(), Some(1), "nothing ran");
        again.expect_err("entered already")
    });
    let refused = refused.expect("not entered");
    assert_eq!(refused.to_string(), "the context is entered already");
    drop(refused.into_inner()());
    assert_eq!(VAR.get(), Some(9), "the closure came back and ran out here");
    assert!(context.run(|| ()).is_ok(), "left again");
}

#[test]
fn b_hnd_07_a_handle_whose_context_is_entered_fails() {
    let context = Context::new();
    let captured = Rc::new(());
    let held = captured.clone();
    let once = Handle::once_in(&context, move || drop(held));
    let repeating = Handle::repeating_in(&context, || ());
    context
        .run(|| {
            for handle in [&once, &repeating] {
                match handle.run() {
                    Run::Failed(error) => assert!(error.is::<AlreadyEntered>()),
                    run => panic!("{run:?}"),
                }
                assert_eq!(handle.failures(), 1);
            }
        })
        .expect("not entered");
    assert!(once.is_done());
    assert_eq!(Rc::strong_count(&captured), 1);
    run(&repeating);
    assert_eq!(repeating.failures(), 0);
}

#[test]
fn b_exc_06_an_error_handler_sees_the_variables_of_the_handle() {
    static VAR: Var = ContextVar::new();
    let context = Context::new();
    context.run(|| VAR.set(4)).expect("not entered");
    let handle = Handle::once_in(&context, || {
        VAR.set(5);
        Err("fails")
    });
    assert!(matches!(handle.run(), Run::Failed(_)));
    assert_eq!(handle.in_context(|| VAR.get()).expect("left"), Some(5));
    let refused = context.run(|| handle.in_context(|| 6).err().map(AlreadyEntered::into_inner));
    assert_eq!(refused.expect("not entered").expect("refused")(), 6);

    VAR.set(1);
    let snapshot = Handle::once(|| panic!("boom"));
    VAR.set(2);
    assert!(catch_unwind(AssertUnwindSafe(|| snapshot.run())).is_err());
    assert_eq!(snapshot.in_context(|| VAR.get()).expect("a snapshot"), Some(1));
}

#[test]
fn a_panic_restores_the_context_and_keeps_what_was_written() {
    static VAR: Var = ContextVar::new();
    VAR.set(1);
    let context = Context::new();
    for handle in [
        Handle::once_in(&context, || {
            VAR.set(2);
            panic!("in a context")
        }),
        Handle::once(|| {
            VAR.set(3);
            panic!("in a snapshot")
        }),
    ] {
        assert!(catch_unwind(AssertUnwindSafe(|| handle.run())).is_err());
        assert_eq!(VAR.get(), Some(1));
    }
    assert_eq!(context.run(|| VAR.get()).expect("left by the panic"), Some(2));
}

#[test]
fn a_token_puts_the_old_value_back() {
    static VAR: Var = ContextVar::with_default(|| 0);
    static OTHER: Var = ContextVar::new();
    let unset = VAR.set(1);
    let one = VAR.set(2);
    VAR.reset(one).expect("its own token");
    assert_eq!(VAR.get(), Some(1));
    VAR.reset(unset).expect("its own token");
    assert_eq!(VAR.get(), Some(0));

    let foreign = OTHER.set(8);
    let foreign = VAR.reset(foreign).expect_err("another variable's token");
    assert_eq!((VAR.get(), OTHER.get()), (Some(0), Some(8)));
    OTHER.reset(foreign).expect("its own token");
    assert_eq!(OTHER.get(), None);
}

#[test]
fn with_looks_at_a_value_that_stays_as_it_was() {
    static VAR: ContextVar<String> = ContextVar::new();
    VAR.with(|value| assert_eq!(value, None));
    VAR.set("old".to_string());
    VAR.with(|value| {
        VAR.set("new".to_string());
        assert_eq!(value.map(String::as_str), Some("old"));
    });
    assert_eq!(VAR.get().as_deref(), Some("new"));
}

#[test]
fn many_variables_do_not_mix() {
    // In a fresh context, so that the count is exact whatever else this thread has set.
    Context::new()
        .run(|| {
            let vars: Vec<Var> = (0..50).map(|_| ContextVar::new()).collect();
            for (value, var) in (0..50).zip(&vars).rev() {
                var.set(value);
            }
            let snapshot = Snapshot::current();
            vars[10].set(1000);
            for (value, var) in (0..).zip(&vars) {
                assert_eq!(var.get(), Some(if value == 10 { 1000 } else { value }));
                assert_eq!(snapshot.run(|| var.get()), Some(value));
            }
            assert_eq!(format!("{snapshot:?}"), "Snapshot { variables: 50 }");
        })
        .expect("not entered");
}

/// A value whose clone and destructor use its own variable.
struct Meddles;

static MEDDLED: ContextVar<Meddles> = ContextVar::new();
static MEDDLING: AtomicU32 = AtomicU32::new(0);

impl Clone for Meddles {
    fn clone(&self) -> Meddles {
        drop(MEDDLED.set(Meddles));
        Meddles
    }
}

impl Drop for Meddles {
    fn drop(&mut self) {
        let seen = MEDDLED.with(|value| value.is_some());
        MEDDLING.fetch_add(1 + u32::from(seen), Ordering::Relaxed);
        let _ = Snapshot::current();
    }
}

#[test]
fn a_value_may_use_its_variable_when_it_is_cloned_or_dropped() {
    std::thread::spawn(|| {
        drop(MEDDLED.set(Meddles));
        drop(MEDDLED.get());
        let context = Context::current();
        context.run(|| drop(MEDDLED.set(Meddles))).expect("not entered");
        run(&Handle::once_in(&context, || drop(MEDDLED.get())));
        drop(context);
        let token = MEDDLED.set(Meddles);
        MEDDLED.reset(token).expect("its own token");
        // The last value is dropped with the thread's locals.
    })
    .join()
    .expect("no borrow was held while user code ran");
    assert!(MEDDLING.load(Ordering::Relaxed) >= 6);
}

#[test]
fn a_threads_values_go_with_the_thread() {
    static VAR: ContextVar<Arc<()>> = ContextVar::new();
    let value = Arc::new(());
    let moved = value.clone();
    std::thread::spawn(move || drop(VAR.set(moved))).join().expect("sets a variable");
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(VAR.get(), None);
}

#[test]
fn contexts_work_while_the_threads_locals_are_destroyed() {
    static VAR: Var = ContextVar::with_default(|| 6);
    struct AtExit(Arc<AtomicU32>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            let context = Context::new();
            run(&Handle::once_in(&context, || ()));
            run(&Handle::once_in(&context, || ()));
            run(&Handle::once(|| drop(VAR.set(1))));
            self.0.store(VAR.get().unwrap_or(0), Ordering::Relaxed);
        }
    }
    thread_local! {
        static EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    }
    let seen = Arc::new(AtomicU32::new(0));
    let exit = AtExit(seen.clone());
    std::thread::spawn(move || {
        EXIT.with(|slot| *slot.borrow_mut() = Some(exit));
        Snapshot::current();
    })
    .join()
    .expect("no panic at the thread's end");
    assert_eq!(seen.load(Ordering::Relaxed), 6);
}

#[test]
fn a_threadsafe_handle_carries_the_context_of_its_maker() {
    static VAR: Var = ContextVar::new();
    VAR.set(1);
    let handle = std::thread::spawn(|| {
        VAR.set(2);
        ThreadsafeHandle::new(|| {
            assert_eq!(VAR.get(), Some(2));
            VAR.set(3);
        })
    })
    .join()
    .expect("makes a handle");
    assert!(matches!(handle.run(), Run::Done));
    assert_eq!(handle.in_context(|| VAR.get()), Some(2));
    assert_eq!(VAR.get(), Some(1));
}

#[test]
fn a_default_is_made_at_each_read() {
    thread_local! {
        static MADE: Cell<u32> = const { Cell::new(0) };
    }
    static VAR: Var = ContextVar::with_default(|| {
        MADE.with(|made| made.set(made.get() + 1));
        MADE.with(Cell::get)
    });
    assert_eq!((VAR.get(), VAR.get()), (Some(1), Some(2)));
}

// uvloop ran a server's protocol in whatever context was current: MagicStack/uvloop#305.
#[test]
fn s02_callbacks_run_in_the_context_of_their_set_up_whoever_sets_them_off() {
    static VAR: Var = ContextVar::with_default(|| 0);
    VAR.set(7);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let hooks: Vec<Handle> = (0..2)
        .map(|_| {
            let seen = seen.clone();
            Handle::repeating(move || seen.borrow_mut().push(VAR.get()))
        })
        .collect();
    let client = Context::new();
    let ran = client.run(|| {
        VAR.set(99);
        for hook in hooks.iter().chain(&hooks) {
            run(hook);
        }
        VAR.get()
    });
    assert_eq!(*seen.borrow(), [Some(7); 4]);
    assert!(matches!(ran, Ok(Some(99))));
    assert_eq!(VAR.get(), Some(7));
}
