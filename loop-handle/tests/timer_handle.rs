//! Timer handles: the deadline stays, the owner hears of the first cancel.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use loop_handle::{CancelOnDrop, Handle, Run, TimerHandle, TimerOwner};

/// A queue that remembers which cancels it heard of.
#[derive(Default)]
struct Queue {
    timers: RefCell<Vec<(u64, Handle)>>,
    heard: RefCell<Vec<u64>>,
}

impl TimerOwner for Queue {
    fn timer_cancelled(&self, id: u64) {
        self.heard.borrow_mut().push(id);
        let mut timers = self.timers.borrow_mut();
        let removed = timers.iter().position(|timer| timer.0 == id).map(|at| timers.remove(at));
        drop(timers);
        drop(removed);
    }
}

fn add(queue: &Rc<Queue>, when: Instant, id: u64, f: impl FnOnce() + 'static) -> TimerHandle {
    let handle = Handle::once(f);
    queue.timers.borrow_mut().push((id, handle.clone()));
    let owner: Weak<Queue> = Rc::downgrade(queue);
    TimerHandle::new(handle, when, owner, id)
}

fn pop(queue: &Queue) -> Handle {
    queue.timers.borrow_mut().remove(0).1
}

#[test]
fn b_hnd_10_timer_handles_have_no_order_and_callbacks_no_equality() {
    // Each `check` names one function only if the type does not implement the trait.
    macro_rules! lacks {
        ($type:ty: $($bound:tt)+) => {{
            trait Lacks<Marker> {
                fn check() {}
            }
            impl<T: ?Sized> Lacks<()> for T {}
            struct Has;
            impl<T: ?Sized + $($bound)+> Lacks<Has> for T {}
            <$type as Lacks<_>>::check();
        }};
    }
    lacks!(TimerHandle: PartialOrd);
    lacks!(TimerHandle: PartialEq);
    lacks!(Handle: PartialEq);
    lacks!(Handle: Send);
    lacks!(TimerHandle: Send);
}

#[test]
fn b_hnd_11_when_is_unchanged_by_run_and_cancel() {
    let queue = Rc::new(Queue::default());
    let when = Instant::now() + Duration::from_secs(5);
    let timer = add(&queue, when, 1, || ());
    assert_eq!(timer.when(), when);
    assert!(matches!(pop(&queue).run(), Run::Done));
    assert!(timer.is_done() && !timer.is_cancelled());
    timer.cancel();
    assert!(timer.is_cancelled());
    assert_eq!(timer.when(), when);
    assert_eq!(timer.clone().when(), when);
}

#[test]
fn an_owner_that_knows_no_other_deadlines_refuses_them() {
    let queue = Rc::new(Queue::default());
    let when = Instant::now();
    let mut timer = add(&queue, when, 1, || ());
    assert!(!timer.reschedule(when + Duration::from_secs(1)));
    assert_eq!(timer.when(), when);
    drop(queue);
    assert!(!timer.reschedule(when + Duration::from_secs(1)));
}

#[test]
fn b_hnd_11_dropping_a_timer_handle_does_not_cancel() {
    let queue = Rc::new(Queue::default());
    let ran = Rc::new(Cell::new(false));
    let set = ran.clone();
    drop(add(&queue, Instant::now(), 1, move || set.set(true)));
    assert!(matches!(pop(&queue).run(), Run::Done));
    assert!(ran.get());
    assert!(queue.heard.borrow().is_empty());
}

#[test]
fn the_owner_hears_of_a_cancel_once_over_all_clones() {
    let queue = Rc::new(Queue::default());
    let timer = add(&queue, Instant::now(), 42, || ());
    timer.clone().cancel();
    timer.cancel();
    drop(CancelOnDrop::new(timer.clone()));
    assert_eq!(*queue.heard.borrow(), [42]);
    assert!(timer.is_cancelled());
}

#[test]
fn the_owner_is_told_before_the_closure_is_dropped() {
    struct Looks(Rc<Queue>, Rc<Cell<bool>>);
    impl Drop for Looks {
        fn drop(&mut self) {
            assert!(self.0.timers.borrow().is_empty(), "a destructor finds the timer gone");
            assert_eq!(*self.0.heard.borrow(), [7]);
            self.1.set(true);
        }
    }
    let queue = Rc::new(Queue::default());
    let looked = Rc::new(Cell::new(false));
    let captured = Looks(queue.clone(), looked.clone());
    let timer = add(&queue, Instant::now(), 7, move || drop(captured));
    timer.cancel();
    assert!(looked.get());
}

#[test]
fn a_timer_may_cancel_itself_while_it_runs() {
    let queue = Rc::new(Queue::default());
    let slot: Rc<RefCell<Option<TimerHandle>>> = Rc::default();
    let inside = slot.clone();
    let timer = add(&queue, Instant::now(), 3, move || {
        inside.take().expect("put before the run").cancel();
    });
    *slot.borrow_mut() = Some(timer.clone());
    assert!(matches!(pop(&queue).run(), Run::Done));
    assert!(timer.is_cancelled() && timer.is_done());
    assert_eq!(*queue.heard.borrow(), [3], "its queue has no such timer, and is told so");
}

// uvloop kept what a cancelled timer's callback had captured: MagicStack/uvloop#240.
#[test]
fn s01_a_cancelled_timer_lets_go_of_its_captures_and_its_owner() {
    let queue = Rc::new(Queue::default());
    let owner = Rc::downgrade(&queue);
    let captured = Rc::new(());
    let (held, kept) = (captured.clone(), queue.clone());
    let timer = add(&queue, Instant::now() + Duration::from_secs(3600), 1, move || {
        drop((held, kept));
    });
    assert_eq!(Rc::strong_count(&captured), 2);
    timer.cancel();
    assert_eq!(Rc::strong_count(&captured), 1, "at once, with the handle still held");
    drop(queue);
    assert!(owner.upgrade().is_none(), "a held handle keeps no owner alive");
    timer.cancel();
}

#[test]
fn a_timer_that_outlives_its_owner_can_be_cancelled() {
    let queue = Rc::new(Queue::default());
    let captured = Rc::new(());
    let held = captured.clone();
    let timer = add(&queue, Instant::now(), 1, move || drop(held));
    let handle = pop(&queue);
    drop(queue);
    timer.cancel();
    assert!(handle.is_cancelled());
    assert_eq!(Rc::strong_count(&captured), 1);
}

#[test]
fn debug_shows_name_and_site() {
    let queue = Rc::new(Queue::default());
    let timer = add(&queue, Instant::now(), 1, || ());
    assert!(timer.name().contains("debug_shows_name_and_site"));
    assert!(timer.site().file().ends_with("timer_handle.rs"));
    let shown = format!("{timer:?}");
    assert!(shown.starts_with("TimerHandle(when ") && shown.contains(timer.name()), "{shown}");
}
