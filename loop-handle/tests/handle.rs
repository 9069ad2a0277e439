//! Handles: one run, or many; cancelled before, during, after, and from a destructor.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;

use loop_handle::{CancelOnDrop, Handle, Run};

/// Runs a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A place for a handle that its own closure can reach.
#[derive(Clone, Default)]
struct Slot(Rc<RefCell<Option<Handle>>>);

impl Slot {
    fn put(&self, handle: &Handle) {
        *self.0.borrow_mut() = Some(handle.clone());
    }

    fn handle(&self) -> Handle {
        self.0.borrow().clone().expect("put before the run")
    }
}

fn counter() -> (Rc<Cell<u32>>, impl Fn() + Clone) {
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    (count, move || counted.set(counted.get() + 1))
}

fn panics(handle: &Handle) -> bool {
    catch_unwind(AssertUnwindSafe(|| handle.run())).is_err()
}

#[test]
fn b_hnd_01_a_one_shot_handle_runs_once() {
    let (count, tick) = counter();
    let handle = Handle::once(tick);
    assert!(!handle.is_repeating() && !handle.is_done());
    assert!(matches!(handle.run(), Run::Done));
    assert!(matches!(handle.run(), Run::Skipped));
    assert!(matches!(handle.clone().run(), Run::Skipped));
    assert_eq!(count.get(), 1);
    assert!(handle.is_done() && !handle.is_cancelled());
}

#[test]
fn b_hnd_01_a_repeating_handle_runs_many_times() {
    let (count, tick) = counter();
    let handle = Handle::repeating(tick);
    for _ in 0..5 {
        assert!(matches!(handle.run(), Run::Done));
    }
    assert_eq!(count.get(), 5);
    assert!(handle.is_repeating() && !handle.is_done());
}

#[test]
fn b_hnd_01_a_one_shot_handle_has_run_when_it_panicked() {
    let handle = Handle::once(|| panic!("boom"));
    assert!(panics(&handle));
    assert!(handle.is_done());
    assert!(matches!(handle.run(), Run::Skipped));
}

#[test]
fn b_hnd_02_cancel_is_idempotent_before_the_run() {
    for make in [|tick| Handle::once(tick), |tick| Handle::repeating(tick)] {
        let (count, tick) = counter();
        let boxed: Box<dyn Fn()> = Box::new(tick);
        let handle: Handle = make(boxed);
        handle.cancel();
        handle.clone().cancel();
        assert!(handle.is_cancelled());
        assert!(matches!(handle.run(), Run::Skipped));
        assert!(handle.is_cancelled());
        assert_eq!(count.get(), 0);
    }
}

#[test]
fn b_hnd_02_cancel_after_the_run_is_remembered() {
    let handle = Handle::once(|| ());
    assert!(matches!(handle.run(), Run::Done));
    handle.cancel();
    assert!(handle.is_cancelled() && handle.is_done());
}

#[test]
fn b_hnd_02_cancel_from_inside_does_not_interrupt_a_one_shot_handle() {
    let (count, tick) = counter();
    let slot = Slot::default();
    let inside = slot.clone();
    let handle = Handle::once(move || {
        inside.handle().cancel();
        assert!(inside.handle().is_cancelled() && !inside.handle().is_done());
        tick();
    });
    slot.put(&handle);
    assert!(matches!(handle.run(), Run::Done));
    assert_eq!(count.get(), 1);
    assert!(handle.is_cancelled() && handle.is_done());
}

#[test]
fn b_hnd_02_cancel_from_inside_ends_a_repeating_handle_when_the_run_returns() {
    let (count, tick) = counter();
    let captured = Rc::new(());
    let slot = Slot::default();
    let (inside, held) = (slot.clone(), captured.clone());
    let handle = Handle::repeating(move || {
        inside.handle().cancel();
        inside.handle().cancel();
        assert_eq!(Rc::strong_count(&held), 2, "the running closure keeps its captures");
        tick();
    });
    slot.put(&handle);
    assert!(matches!(handle.run(), Run::Done));
    assert_eq!(Rc::strong_count(&captured), 1, "dropped when the run returned");
    assert!(matches!(handle.run(), Run::Skipped));
    assert_eq!(count.get(), 1);
}

#[test]
fn b_hnd_03_cancel_drops_the_closure_at_once() {
    let captured = Rc::new(());
    let (once, many) = (captured.clone(), captured.clone());
    let handles = [Handle::once(move || drop(once)), Handle::repeating(move || drop(many.clone()))];
    let queue: VecDeque<Handle> = handles.iter().cloned().collect();
    assert_eq!(Rc::strong_count(&captured), 3);
    handles.iter().for_each(Handle::cancel);
    assert_eq!(Rc::strong_count(&captured), 1);
    assert!(queue.iter().all(Handle::is_cancelled), "the queue is tidied up later");
}

#[test]
fn b_hnd_03_the_destructor_of_a_capture_may_use_the_handle() {
    for repeating in [false, true] {
        let (count, tick) = counter();
        let slot = Slot::default();
        let inside = slot.clone();
        let captured = OnDrop(move || {
            let handle = inside.handle();
            assert!(handle.is_cancelled() && handle.is_done() != repeating);
            handle.cancel();
            assert!(matches!(handle.run(), Run::Skipped));
            assert!(format!("{handle:?}").contains("cancelled"));
            tick();
        });
        let handle = if repeating {
            Handle::repeating(move || {
                let _ = &captured;
            })
        } else {
            Handle::once(move || drop(captured))
        };
        slot.put(&handle);
        handle.cancel();
        assert_eq!(count.get(), 1);
        slot.0.take();
    }
}

#[test]
fn b_hnd_03_a_capture_dropped_by_the_run_may_use_the_handle() {
    let (count, tick) = counter();
    let slot = Slot::default();
    let inside = slot.clone();
    let captured = OnDrop(move || {
        assert!(matches!(inside.handle().run(), Run::Skipped));
        inside.handle().cancel();
        tick();
    });
    let handle = Handle::once(move || drop(captured));
    slot.put(&handle);
    assert!(matches!(handle.run(), Run::Done));
    assert_eq!(count.get(), 1);
}

#[test]
fn b_hnd_03_a_destructor_may_cancel_a_chain_of_handles() {
    let (count, tick) = counter();
    let mut next: Option<Handle> = None;
    for _ in 0..100 {
        let (victim, tick) = (next.take(), tick.clone());
        let captured = OnDrop(move || {
            tick();
            victim.iter().for_each(Handle::cancel);
        });
        next = Some(Handle::once(move || drop(captured)));
    }
    next.expect("a hundred").cancel();
    assert_eq!(count.get(), 100);
}

#[test]
fn b_hnd_03_a_destructor_that_panics_leaves_the_handle_cancelled() {
    let captured = OnDrop(|| panic!("destructor"));
    let handle = Handle::once(move || drop(captured));
    assert!(catch_unwind(AssertUnwindSafe(|| handle.cancel())).is_err());
    assert!(handle.is_cancelled());
    handle.cancel();
    assert!(matches!(handle.run(), Run::Skipped));
}

#[test]
fn b_hnd_04_a_callback_cancels_one_later_in_the_batch() {
    let (count, tick) = counter();
    let later = Handle::once(tick.clone());
    let victim = later.clone();
    let batch = [Handle::once(move || victim.cancel()), later, Handle::once(tick)];
    let runs: Vec<Run> = batch.iter().map(Handle::run).collect();
    assert!(matches!(runs[..], [Run::Done, Run::Skipped, Run::Done]));
    assert_eq!(count.get(), 1);
}

#[test]
fn b_hnd_08_debug_shows_name_site_and_state_but_no_capture() {
    let secret = String::from("hunter2");
    let handle = Handle::once(move || drop(secret));
    let shown = format!("{handle:?}");
    assert!(shown.contains("b_hnd_08_debug_shows_name_site_and_state_but_no_capture"), "{shown}");
    assert!(shown.contains("handle.rs:"), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("cancelled"), "{shown}");
    handle.cancel();
    assert!(format!("{handle:?}").ends_with(", cancelled)"));
}

#[test]
fn b_hnd_09_the_creation_site_survives_a_cancel() {
    let (made, line) = (Handle::once(|| ()), line!());
    made.cancel();
    assert_eq!((made.site().file(), made.site().line()), (file!(), line));
    let site = Location::caller();
    for handle in [
        Handle::once_at(site, None, || ()),
        Handle::repeating_at(site, None, || ()),
        Handle::new_cancelled(site, || ()),
    ] {
        assert_eq!(handle.site(), site);
    }
    let repeating = Handle::repeating(|| ());
    assert_eq!(repeating.site().line(), line!() - 1);
}

#[test]
fn b_hnd_11_dropping_a_handle_does_not_cancel() {
    let (count, tick) = counter();
    let queued = Handle::once(tick);
    drop(queued.clone());
    assert!(matches!(queued.run(), Run::Done));
    assert_eq!(count.get(), 1);
}

#[test]
fn the_last_handle_drops_a_closure_that_never_ran() {
    let captured = Rc::new(());
    let held = captured.clone();
    let handle = Handle::once(move || drop(held));
    drop(handle.clone());
    assert_eq!(Rc::strong_count(&captured), 2);
    drop(handle);
    assert_eq!(Rc::strong_count(&captured), 1);
}

#[test]
fn all_other_handles_may_go_during_the_run() {
    let slot = Slot::default();
    let inside = slot.clone();
    let (count, tick) = counter();
    let handle = Handle::repeating(move || {
        inside.0.take();
        tick();
    });
    slot.put(&handle);
    assert!(matches!(handle.run(), Run::Done));
    assert!(matches!(handle.run(), Run::Done));
    assert_eq!(count.get(), 2);
}

#[test]
fn a_repeating_handle_is_not_run_from_inside_itself() {
    let (count, tick) = counter();
    let slot = Slot::default();
    let inside = slot.clone();
    let handle = Handle::repeating(move || {
        assert!(matches!(inside.handle().run(), Run::Skipped));
        tick();
    });
    slot.put(&handle);
    assert!(matches!(handle.run(), Run::Done));
    assert!(matches!(handle.run(), Run::Done));
    assert_eq!(count.get(), 2);
    handle.cancel();
}

#[test]
fn a_panic_puts_a_repeating_closure_back() {
    let mut runs = 0;
    let handle = Handle::repeating(move || {
        runs += 1;
        assert!(runs != 2, "second run");
    });
    assert!(matches!(handle.run(), Run::Done));
    assert!(panics(&handle));
    assert_eq!(handle.failures(), 1);
    assert!(matches!(handle.run(), Run::Done));
    assert_eq!(handle.failures(), 0);
}

#[test]
fn a_panic_after_a_cancel_drops_the_repeating_closure() {
    let captured = Rc::new(());
    let held = captured.clone();
    let slot = Slot::default();
    let inside = slot.clone();
    let handle = Handle::repeating(move || {
        let _ = &held;
        inside.handle().cancel();
        panic!("after the cancel");
    });
    slot.put(&handle);
    assert!(panics(&handle));
    assert_eq!(Rc::strong_count(&captured), 1);
    assert!(matches!(handle.run(), Run::Skipped));
}

#[test]
fn an_error_is_handed_out_and_counted() {
    let fails = Rc::new(Cell::new(true));
    let failing = fails.clone();
    let handle =
        Handle::repeating(move || if failing.get() { Err("no luck".to_string()) } else { Ok(()) });
    for expected in (1..=255).chain([255; 3]) {
        match handle.run() {
            Run::Failed(error) => assert_eq!(error.to_string(), "no luck"),
            run => panic!("{run:?}"),
        }
        assert_eq!(handle.failures(), expected);
    }
    fails.set(false);
    assert!(matches!(handle.run(), Run::Done));
    assert_eq!(handle.failures(), 0);
}

#[test]
fn a_skipped_run_is_neither_clean_nor_failed() {
    let handle = Handle::repeating(|| Err("always"));
    assert!(matches!(handle.run(), Run::Failed(_)));
    handle.cancel();
    assert!(matches!(handle.run(), Run::Skipped));
    assert_eq!(handle.failures(), 1);
}

#[test]
fn every_kind_of_outcome_is_accepted() {
    fn never() -> ! {
        panic!("never returns")
    }
    let question_mark = Handle::once(|| -> Result<(), Box<dyn std::error::Error>> {
        "twelve".parse::<u32>()?;
        Ok(())
    });
    assert!(matches!(question_mark.run(), Run::Failed(_)));
    assert!(matches!(Handle::once(|| Err(std::io::Error::last_os_error())).run(), Run::Failed(_)));
    assert!(panics(&Handle::once(never as fn() -> !)));
    assert!(panics(&Handle::repeating(|| never())));
}

#[test]
fn a_handle_made_cancelled_holds_nothing() {
    let captured = Rc::new(());
    let held = captured.clone();
    let handle = Handle::new_cancelled(Location::caller(), move || drop(held));
    assert_eq!(Rc::strong_count(&captured), 1);
    assert!(handle.is_cancelled() && handle.is_done());
    assert!(handle.name().contains("a_handle_made_cancelled_holds_nothing"));
    assert!(matches!(handle.run(), Run::Skipped));
    handle.cancel();
}

#[test]
fn ptr_eq_tells_callbacks_apart() {
    let handles = [Handle::once(|| ()), Handle::once(|| ())];
    assert!(handles[0].ptr_eq(&handles[0].clone()));
    assert!(!handles[0].ptr_eq(&handles[1]));
}

#[test]
fn cancel_on_drop_cancels_unless_it_is_taken_apart() {
    let handle = Handle::repeating(|| ());
    let kept = CancelOnDrop::new(handle.clone()).into_inner();
    assert!(kept.ptr_eq(&handle) && !handle.is_cancelled());
    let scope = CancelOnDrop::new(kept);
    assert!(matches!(scope.run(), Run::Done), "derefs");
    drop(scope);
    assert!(handle.is_cancelled());
}
