//! Pools: what comes back is new again, and holds nothing of what it was.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use loop_handle::{Context, ContextVar, Handle, HandlePool, Run, Snapshot};

/// Runs a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// How many handles a pool keeps, as its `Debug` tells.
fn spare(pool: &HandlePool) -> usize {
    let shown = format!("{pool:?}");
    let digits: String = shown.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{shown}"))
}

fn done(handle: &Handle) {
    assert!(matches!(handle.run(), Run::Done));
}

/// Every call makes a handle of the same closure type.
fn adder(pool: &HandlePool, sum: &Rc<Cell<u32>>, n: u32) -> Handle {
    let sum = sum.clone();
    pool.once(move || sum.set(sum.get() + n))
}

#[test]
fn a_recycled_handle_is_a_new_one() {
    let pool = HandlePool::new();
    let sum = Rc::new(Cell::new(0));
    // The second and the third are made from the memory of the first.
    for n in [1, 10, 100] {
        let handle = adder(&pool, &sum, n);
        assert_eq!(spare(&pool), 0);
        assert!(!handle.is_done() && !handle.is_cancelled() && !handle.is_repeating());
        done(&handle);
        assert!(matches!(handle.run(), Run::Skipped));
        assert!(handle.is_done());
        pool.recycle(handle);
        assert_eq!(spare(&pool), 1);
    }
    assert_eq!(sum.get(), 111);
}

#[test]
fn neither_cancel_nor_failure_nor_site_is_inherited() {
    let pool = HandlePool::new();
    let sum = Rc::new(Cell::new(0));
    let cancelled = adder(&pool, &sum, 1);
    cancelled.cancel();
    pool.recycle(cancelled);
    assert_eq!(spare(&pool), 1);
    let handle = adder(&pool, &sum, 2);
    assert!(!handle.is_cancelled());
    done(&handle);
    assert_eq!(sum.get(), 2);

    let fail = || Err("no luck");
    let failed = pool.once(fail);
    assert!(matches!(failed.run(), Run::Failed(_)));
    let site = failed.site();
    pool.recycle(failed);
    let (again, line) = (pool.once_at(Location::caller(), None, fail), line!());
    assert_eq!((again.failures(), again.site().line()), (0, line));
    assert!(site.line() < line);
}

#[test]
fn a_clone_keeps_a_handle_what_it_was() {
    let pool = HandlePool::new();
    let sum = Rc::new(Cell::new(0));
    let kept = adder(&pool, &sum, 1);
    done(&kept);
    pool.recycle(kept.clone());
    assert_eq!(spare(&pool), 0);
    let other = adder(&pool, &sum, 2);
    assert!(!other.ptr_eq(&kept));
    kept.cancel();
    assert!(!other.is_cancelled() && kept.is_done());
    done(&other);
}

#[test]
fn what_may_still_run_is_dropped() {
    let pool = HandlePool::new();
    let captured = Rc::new(());
    let (once, many) = (captured.clone(), captured.clone());
    pool.recycle(pool.once(move || drop(once)));
    let repeating = Handle::repeating(move || drop(many.clone()));
    done(&repeating);
    pool.recycle(repeating);
    assert_eq!(spare(&pool), 0);
    assert_eq!(Rc::strong_count(&captured), 1);
}

#[test]
fn a_callback_may_recycle_itself_and_lives_until_its_run_returns() {
    let pool = Rc::new(HandlePool::new());
    let slot: Rc<RefCell<Option<Handle>>> = Rc::default();
    let (inner, own) = (pool.clone(), slot.clone());
    let handle = pool.once(move || {
        let own = own.take().expect("put before the run");
        inner.recycle(own);
        assert_eq!(spare(&inner), 0);
    });
    *slot.borrow_mut() = Some(handle.clone());
    done(&handle);
    pool.recycle(handle);
    assert_eq!(spare(&pool), 1);
}

#[test]
fn a_handle_made_for_another_closure_makes_way() {
    let pool = HandlePool::new();
    let ran = Rc::new(Cell::new(0));
    pool.recycle({
        let handle = adder(&pool, &ran, 1);
        done(&handle);
        handle
    });
    assert_eq!(spare(&pool), 1);
    let counted = ran.clone();
    let other = pool.once(move || counted.set(counted.get() + 10));
    assert_eq!(spare(&pool), 0);
    done(&other);
    assert_eq!(ran.get(), 11);
}

#[test]
fn a_pool_stays_small() {
    let pool = HandlePool::new();
    let sum = Rc::new(Cell::new(0));
    let handles: Vec<Handle> = (0..1_100).map(|_| adder(&pool, &sum, 1)).collect();
    for handle in handles {
        done(&handle);
        pool.recycle(handle);
    }
    assert_eq!((sum.get(), spare(&pool)), (1_100, 1_024));

    let pool = HandlePool::new();
    let large = [7_u8; 300];
    let handle = pool.once(move || assert_eq!(large[299], 7));
    done(&handle);
    pool.recycle(handle);
    assert_eq!(spare(&pool), 0);
}

#[test]
fn a_pool_keeps_no_value_of_a_variable() {
    static VAR: ContextVar<Arc<()>> = ContextVar::new();
    let pool = HandlePool::new();
    let value = Arc::new(());
    let handle = Context::new().run(|| {
        VAR.set(value.clone());
        pool.once(|| assert!(VAR.get().is_some()))
    });
    let handle = handle.expect("entered once");
    assert_eq!(Arc::strong_count(&value), 2);
    done(&handle);
    pool.recycle(handle);
    assert_eq!(spare(&pool), 1);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_recycled_handle_runs_in_the_context_of_its_new_scheduling() {
    static VAR: ContextVar<u32> = ContextVar::new();
    let pool = HandlePool::new();
    let seen = Rc::new(RefCell::new(Vec::new()));
    for n in 0..3 {
        let handle = Snapshot::current().run(|| {
            VAR.set(n);
            let seen = seen.clone();
            pool.once(move || seen.borrow_mut().push(VAR.get()))
        });
        done(&handle);
        pool.recycle(handle);
    }
    assert_eq!(*seen.borrow(), [Some(0), Some(1), Some(2)]);
    assert_eq!(VAR.get(), None);
}

#[test]
fn an_explicit_context_is_let_go() {
    static VAR: ContextVar<Arc<()>> = ContextVar::new();
    let pool = HandlePool::new();
    let value = Arc::new(());
    let context = Context::new();
    let handle = pool.once_at(Location::caller(), Some(&context), || {});
    assert!(context.run(|| VAR.set(value.clone())).is_ok());
    drop(context);
    assert_eq!(Arc::strong_count(&value), 2);
    done(&handle);
    pool.recycle(handle);
    assert_eq!(spare(&pool), 0);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_destructor_may_use_the_pool() {
    let pool = Rc::new(HandlePool::new());
    let sum = Rc::new(Cell::new(0));
    let (inner, inner_sum) = (pool.clone(), sum.clone());
    let captured = OnDrop(move || {
        let handle = adder(&inner, &inner_sum, 1);
        done(&handle);
        inner.recycle(handle);
    });
    pool.recycle(pool.once(move || drop(captured)));
    assert_eq!((sum.get(), spare(&pool)), (1, 1));
}

#[test]
fn a_value_whose_destructor_panics_leaves_the_pool_usable() {
    struct Fails;
    impl Drop for Fails {
        fn drop(&mut self) {
            panic!("destructor");
        }
    }
    static VAR: ContextVar<Fails> = ContextVar::new();
    let pool = HandlePool::new();
    let handle = Snapshot::current().run(|| {
        VAR.set(Fails);
        pool.once(|| ())
    });
    done(&handle);
    assert!(catch_unwind(AssertUnwindSafe(|| pool.recycle(handle))).is_err());
    assert_eq!(spare(&pool), 0);
    let sum = Rc::new(Cell::new(0));
    done(&adder(&pool, &sum, 1));
    assert_eq!(sum.get(), 1);
}

/// One step after another, chosen by chance, on handles of three types of closures: each runs at most
/// once, with its own number, unless it was cancelled first; each capture is dropped exactly once.
#[test]
fn whatever_happens_a_handle_is_one_callback() {
    struct Captured(usize, Rc<RefCell<Vec<u32>>>);
    impl Drop for Captured {
        fn drop(&mut self) {
            self.1.borrow_mut()[self.0] += 1;
        }
    }
    let mut seed = 0x9e37_79b9_u64;
    let mut draw = move |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let pool = HandlePool::new();
    let drops = Rc::new(RefCell::new(Vec::new()));
    let runs = Rc::new(RefCell::new(Vec::<u32>::new()));
    let mut live: Vec<(usize, Handle)> = Vec::new();
    let mut may_run = Vec::new();
    for _ in 0..20_000 {
        let at = draw(live.len().max(1));
        match draw(6) {
            0 | 1 => {
                let id = may_run.len();
                may_run.push(true);
                drops.borrow_mut().push(0);
                runs.borrow_mut().push(0);
                let (captured, runs) = (Captured(id, drops.clone()), runs.clone());
                let handle = match draw(3) {
                    0 => pool.once(move || runs.borrow_mut()[captured.0] += 1),
                    1 => pool.once(move || {
                        runs.borrow_mut()[captured.0] += 1;
                        drop(captured);
                    }),
                    _ => {
                        let padding = [id; 4];
                        pool.once(move || {
                            assert_eq!(padding, [captured.0; 4]);
                            runs.borrow_mut()[padding[3]] += 1;
                        })
                    }
                };
                live.push((id, handle));
            }
            2 if !live.is_empty() => {
                let (id, handle) = &live[at];
                let before = runs.borrow()[*id];
                let ran = matches!(handle.run(), Run::Done);
                assert_eq!(ran, std::mem::take(&mut may_run[*id]));
                assert_eq!(runs.borrow()[*id] - before, u32::from(ran));
            }
            3 if !live.is_empty() => {
                live[at].1.cancel();
                may_run[live[at].0] = false;
            }
            4 if !live.is_empty() => {
                let clone = live[at].clone();
                live.push(clone);
            }
            5 if !live.is_empty() => pool.recycle(live.swap_remove(at).1),
            _ => {}
        }
    }
    live.into_iter().for_each(|(_, handle)| pool.recycle(handle));
    assert!(drops.borrow().iter().all(|&count| count == 1));
    assert!(runs.borrow().iter().all(|&count| count <= 1));
    assert!(runs.borrow().iter().filter(|&&count| count == 1).count() > 1_000);
    assert!(spare(&pool) > 0);
}
