//! What a callback costs: allocations, counted, and sizes.

use std::cell::Cell;
use std::mem::size_of;
use std::rc::{Rc, Weak};
use std::time::Instant;

use loop_handle::{
    AlreadyEntered, CancelOnDrop, Context, ContextVar, Handle, HandlePool, ResetToken, Run,
    Snapshot, ThreadsafeHandle, TimerHandle, TimerOwner,
};

/// How often `f` allocates.
fn allocations<R>(f: impl FnOnce() -> R) -> (u64, R) {
    let mut result = None;
    let counted = allocation_counter::measure(|| result = Some(f()));
    (counted.count_total, result.unwrap())
}

struct Nobody;

impl TimerOwner for Nobody {
    fn timer_cancelled(&self, _: u64) {}
}

#[test]
fn a_callback_is_one_allocation_and_its_runs_are_none() {
    let captured = [Cell::new(7_u64), Cell::new(8)];
    let also = captured.clone();
    let (count, once) = allocations(|| Handle::once(move || captured[0].set(captured[1].get())));
    assert_eq!(count, 1);
    let (count, repeating) = allocations(|| Handle::repeating(move || also[0].set(also[1].get())));
    assert_eq!(count, 1);
    let (count, ()) = allocations(|| {
        for _ in 0..100 {
            let queued = repeating.clone();
            assert!(matches!(queued.run(), Run::Done));
        }
        assert!(matches!(once.run(), Run::Done));
        repeating.cancel();
    });
    assert_eq!(count, 0);
}

#[test]
fn a_pool_pays_the_allocator_once() {
    let pool = HandlePool::new();
    let ran = Rc::new(Cell::new(0_u64));
    let turn = || {
        let ran = ran.clone();
        let handle = pool.once(move || ran.set(ran.get() + 1));
        assert!(matches!(handle.run(), Run::Done));
        pool.recycle(handle);
    };
    assert_eq!(allocations(turn).0, 2, "the handle, and the list of spare ones");
    assert_eq!(allocations(|| (0..100).for_each(|_| turn())).0, 0);
    assert_eq!(ran.get(), 101);
    assert_eq!(allocations(|| pool.once(|| ())).0, 1, "it was made for another closure");
}

#[test]
fn a_timer_is_one_allocation() {
    let owner: Weak<Nobody> = Weak::new();
    let now = Instant::now();
    let (count, timer) =
        allocations(|| TimerHandle::new(Handle::once(|| ()), now, owner.clone(), 1));
    assert_eq!(count, 1);
    let owner = Rc::new(Nobody);
    let owned = TimerHandle::new(Handle::once(|| ()), now, Rc::downgrade(&owner) as Weak<_>, 2);
    let (count, ()) = allocations(|| {
        timer.clone().cancel();
        owned.cancel();
    });
    assert_eq!(count, 0);
}

#[test]
fn a_threadsafe_callback_is_one_allocation() {
    let (count, handle) = allocations(|| ThreadsafeHandle::new(|| ()));
    assert_eq!(count, 1);
    let (count, ()) = allocations(|| assert!(matches!(handle.run(), Run::Done)));
    assert_eq!(count, 0);
}

#[test]
fn a_snapshot_never_allocates_and_a_context_once() {
    static VAR: ContextVar<u32> = ContextVar::new();
    for _ in 0..2 {
        let (count, snapshot) = allocations(Snapshot::current);
        assert_eq!(count, 0);
        assert_eq!(allocations(|| snapshot.run(|| VAR.get())).0, 0);
        let (count, context) = allocations(Context::current);
        assert_eq!(count, 1);
        assert_eq!(allocations(|| context.run(|| VAR.get()).is_ok()).0, 0);
        assert_eq!(allocations(|| Handle::once_in(&context, || ())).0, 1);
        // Once more with a variable set.
        VAR.set(1);
    }
}

#[test]
fn unsetting_the_last_variable_costs_nothing_and_leaves_nothing() {
    static VAR: ContextVar<u32> = ContextVar::new();
    let unset = Context::new().run(|| {
        let token = VAR.set(1);
        allocations(|| VAR.reset(token).is_ok())
    });
    assert!(matches!(unset, Ok((0, true))));
}

#[test]
fn sizes() {
    let word = size_of::<usize>();
    assert_eq!(size_of::<Handle>(), 2 * word);
    assert_eq!(size_of::<Option<Handle>>(), 2 * word);
    assert_eq!(size_of::<ThreadsafeHandle>(), 2 * word);
    assert_eq!(size_of::<HandlePool>(), 4 * word);
    assert_eq!(size_of::<Run>(), 3 * word);
    assert_eq!(size_of::<Snapshot>(), word);
    assert_eq!(size_of::<Context>(), word);
    assert_eq!(size_of::<AlreadyEntered>(), 0);
    assert_eq!(size_of::<AlreadyEntered<[u8; 7]>>(), 7, "the closure alone");
    assert_eq!(size_of::<ContextVar<[u64; 8]>>(), 2 * word);
    assert_eq!(size_of::<ResetToken<[u64; 8]>>(), 3 * word);
    assert_eq!(size_of::<TimerHandle>(), 4 * word + size_of::<Instant>() + size_of::<u64>());
    assert_eq!(size_of::<CancelOnDrop<Handle>>(), size_of::<Handle>());
    assert_eq!(size_of::<CancelOnDrop<TimerHandle>>(), size_of::<TimerHandle>());
    assert_eq!(size_of::<CancelOnDrop<ThreadsafeHandle>>(), size_of::<ThreadsafeHandle>());
}
