//! What things cost in allocations, counted.

mod common;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::Write;
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::task::{Poll, Waker};
use std::time::Duration;

use common::{pair, turn, virtual_loop};
use loop_core::sync::Event;
use loop_core::{
    EventLoop, Interest, IoHandler, Readiness, Task, TaskError, TaskGroup, catch_cancelled, gather,
    timeout, yield_now,
};

const ROUNDS: usize = 100;

/// Asserts that a round costs at most `limit` allocations once everything that grows has grown.
/// A few a hundred rounds are let pass: stores that tidy up now and then. Fewer are welcome.
fn at_most(limit: usize, mut round: impl FnMut()) {
    (0..2 * ROUNDS).for_each(|_| round());
    let counted = allocation_counter::measure(|| (0..ROUNDS).for_each(|_| round()));
    let count = counted.count_total as usize;
    assert!(count <= limit * ROUNDS + ROUNDS / 20, "{count} allocations in {ROUNDS} rounds");
}

#[test]
fn call_soon_is_at_most_one_allocation_and_running_it_none() {
    let mut event_loop = EventLoop::new().unwrap();
    let captured = [7_u64; 4];
    at_most(1, || {
        event_loop.call_soon(move || assert_eq!(captured[3], 7));
        turn(&mut event_loop);
    });
}

#[test]
fn call_later_is_at_most_one_allocation_whether_it_fires_or_is_cancelled() {
    let (mut event_loop, _clock) = virtual_loop(); // what the store of timers needs depends on time
    at_most(1, || {
        event_loop.call_later(Duration::ZERO, || ());
        turn(&mut event_loop);
    });
    at_most(1, || {
        event_loop.call_later(Duration::from_secs(1), || ()).cancel();
        turn(&mut event_loop);
    });
    let mut timer = event_loop.call_later(Duration::from_secs(1), || ());
    at_most(0, || {
        assert!(timer.reschedule(timer.when() + Duration::from_secs(1)));
        turn(&mut event_loop);
    });
}

#[test]
fn spawn_is_at_most_two_allocations_and_a_third_once_its_waker_is_kept() {
    let mut event_loop = EventLoop::new().unwrap();
    at_most(2, || {
        event_loop.spawn(async {}).detach();
        turn(&mut event_loop);
    });
    let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
    at_most(3, || {
        let keep = kept.clone();
        let task = event_loop.spawn(poll_fn(move |cx| {
            let mut kept = keep.borrow_mut();
            if kept.is_some() {
                return Poll::Ready(());
            }
            *kept = Some(cx.waker().clone());
            Poll::Pending
        }));
        task.detach();
        turn(&mut event_loop);
        kept.borrow().as_ref().unwrap().wake_by_ref();
        turn(&mut event_loop);
        kept.take();
    });
}

#[test]
fn short_tasks_of_one_kind_are_no_allocation() {
    let mut event_loop = EventLoop::new().unwrap();
    let mut tasks = Vec::with_capacity(10);
    at_most(0, || {
        tasks.extend((0..10).map(|n| event_loop.spawn(async move { n })));
        turn(&mut event_loop);
        for (n, task) in tasks.drain(..).enumerate() {
            assert_eq!(task.take_result().unwrap().unwrap(), n);
        }
    });
}

#[test]
fn detached_tasks_of_one_kind_are_no_allocation() {
    let mut event_loop = EventLoop::new().unwrap();
    at_most(0, || {
        event_loop.spawn(async {}).detach();
        turn(&mut event_loop);
    });
}

#[test]
fn what_somebody_holds_of_a_task_does_not_serve_again() {
    let mut event_loop = EventLoop::new().unwrap();
    let spawn = |event_loop: &EventLoop, n: u32| event_loop.spawn(async move { n });
    let first = spawn(&event_loop, 1);
    let (referred, watched) = (spawn(&event_loop, 2).task_ref(), spawn(&event_loop, 3));
    let mut watch = std::pin::pin!(watched.watch());
    turn(&mut event_loop);
    let later: Vec<_> = (4..8).map(|n| spawn(&event_loop, n)).collect();
    assert!(first.is_done() && referred.is_done() && watched.is_done());
    assert!(later.iter().all(|task| !task.is_done()));
    assert_eq!(first.take_result().unwrap().unwrap(), 1);
    assert_eq!(&*referred.name(), format!("Task-{}", referred.id()));
    drop(watched);
    let waker = Waker::noop();
    assert!(watch.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_ready());
    turn(&mut event_loop);
    let values = later.iter().map(|task| task.take_result().unwrap().unwrap());
    assert!(values.eq(4..8));
}

/// The future is small, so only what it returns is to be looked at.
#[test]
fn memory_of_large_outputs_is_given_back() {
    const LARGE: usize = 1 << 16;
    let mut event_loop = EventLoop::new().unwrap();
    let counted = allocation_counter::measure(|| {
        for _ in 0..100 {
            event_loop.spawn(poll_fn(|_| Poll::Ready([0_u8; LARGE]))).detach();
        }
        turn(&mut event_loop);
    });
    assert!(counted.bytes_max > 100 * LARGE as u64);
    assert!(counted.bytes_current < LARGE as i64, "{counted:?}");
}

#[test]
fn memory_that_serves_again_keeps_nothing_of_the_task_before() {
    struct Noted(Rc<Cell<u32>>);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let mut event_loop = EventLoop::new().unwrap();
    let dropped = Rc::new(Cell::new(0));
    let spawn = |event_loop: &EventLoop, fails: bool| {
        let noted = Noted(dropped.clone());
        event_loop.spawn(async move {
            let _noted = noted;
            assert!(!fails, "as asked");
            Noted(_noted.0.clone())
        })
    };
    let first = spawn(&event_loop, false);
    first.set_name("first");
    let first_id = first.id();
    turn(&mut event_loop);
    assert_eq!(dropped.get(), 1, "the future is gone, its output is not");
    drop(first);
    assert_eq!(dropped.get(), 2);

    let second = spawn(&event_loop, true);
    assert!(!second.is_done() && !second.is_cancelled());
    assert_eq!(&*second.name(), format!("Task-{}", second.id()));
    assert!(second.id() > first_id);
    turn(&mut event_loop);
    assert!(matches!(second.take_result(), Some(Err(TaskError::Panicked(_)))));
    assert_eq!(dropped.get(), 3);
    drop(second);

    let third = spawn(&event_loop, false);
    third.cancel_with("enough");
    turn(&mut event_loop);
    assert!(third.is_cancelled());
    assert_eq!(dropped.get(), 4);
    drop(third);
    let fourth = spawn(&event_loop, false);
    turn(&mut event_loop);
    assert!(!fourth.is_cancelled() && fourth.cancelling() == 0);
    drop(fourth);
    assert_eq!(dropped.get(), 6);
}

/// A task that never ends, its waker, and how often it was polled.
fn sleeper(event_loop: &mut EventLoop) -> (Task<()>, Waker, Rc<Cell<usize>>) {
    let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
    let (keep, polls) = (kept.clone(), Rc::new(Cell::new(0)));
    let count = polls.clone();
    let task = event_loop.spawn(poll_fn(move |cx| {
        count.set(count.get() + 1);
        keep.borrow_mut().get_or_insert_with(|| cx.waker().clone());
        Poll::<()>::Pending
    }));
    turn(event_loop);
    let waker = kept.take().unwrap();
    (task, waker, polls)
}

#[test]
fn waking_at_home_and_polling_again_is_no_allocation() {
    let mut event_loop = EventLoop::new().unwrap();
    let (task, waker, polls) = sleeper(&mut event_loop);
    at_most(0, || {
        waker.wake_by_ref();
        turn(&mut event_loop);
    });
    assert_eq!(polls.get(), 1 + 3 * ROUNDS);
    task.cancel();
    turn(&mut event_loop);
}

#[test]
fn a_wake_from_another_thread_is_a_sixteenth_of_an_allocation_at_most() {
    const WAKES: usize = 1_600;
    let mut event_loop = EventLoop::new().unwrap();
    let (task, waker, polls) = sleeper(&mut event_loop);
    let turns = Arc::new(Barrier::new(2));
    let theirs = turns.clone();
    let thread = std::thread::spawn(move || {
        theirs.wait();
        let counted = allocation_counter::measure(|| {
            for _ in 0..WAKES {
                waker.wake_by_ref();
                theirs.wait(); // it has been sent
                theirs.wait(); // and has arrived
            }
        });
        counted.count_total as usize
    });
    turns.wait();
    let counted = allocation_counter::measure(|| {
        for _ in 0..WAKES {
            turns.wait();
            turn(&mut event_loop);
            turns.wait();
        }
    });
    let count = thread.join().unwrap() + counted.count_total as usize;
    assert_eq!(polls.get(), 1 + WAKES);
    assert!(count <= WAKES / 16, "{count} allocations for {WAKES} wakes");
    task.cancel();
    turn(&mut event_loop);
}

/// As many as fill what they are in: of the table a fifth may be vacant, of the queue a half.
#[test]
fn an_idle_task_takes_at_most_200_bytes_with_its_places_in_table_and_queue() {
    let mut event_loop = EventLoop::new().unwrap();
    let mut tasks = Vec::with_capacity(1_000);
    let counted = allocation_counter::measure(|| {
        tasks.extend((0..1_000).map(|_| event_loop.spawn(std::future::pending::<()>())));
        turn(&mut event_loop);
    });
    let bytes = counted.bytes_current / 1_000;
    assert!(bytes <= 200, "{bytes} bytes");
    for task in tasks {
        task.cancel();
    }
    turn(&mut event_loop);
}

#[test]
fn a_handover_between_tasks_is_no_allocation_and_no_waker() {
    let mut event_loop = EventLoop::new().unwrap();
    let (ping, pong) = (Rc::new(Event::new()), Rc::new(Event::new()));
    let turns = Rc::new(Cell::new(0));
    let side = |mine: &Rc<Event>, other: &Rc<Event>| {
        let (mine, other, turns) = (mine.clone(), other.clone(), turns.clone());
        event_loop.spawn(async move {
            loop {
                mine.wait().await;
                mine.clear();
                turns.set(turns.get() + 1);
                other.set();
            }
        })
    };
    let tasks = [side(&ping, &pong), side(&pong, &ping)];
    turn(&mut event_loop);
    ping.set();
    at_most(0, || turn(&mut event_loop));
    assert_eq!(turns.get(), 3 * ROUNDS);
    // Others that begin to wait cost their two allocations and no waker.
    at_most(2, || {
        let event = ping.clone();
        event_loop.spawn(async move { event.wait().await }).detach();
        turn(&mut event_loop);
    });
    for task in tasks {
        task.cancel();
    }
    turn(&mut event_loop);
}

#[test]
fn who_awaits_a_task_keeps_no_waker() {
    let mut event_loop = EventLoop::new().unwrap();
    at_most(4, || {
        let inner = event_loop.spawn(yield_now());
        let outer = event_loop.spawn(inner);
        turn(&mut event_loop);
        assert!(!outer.is_done());
        turn(&mut event_loop);
        turn(&mut event_loop);
        outer.take_result().unwrap().unwrap().unwrap();
    });
}

/// A waker that is kept is an allocation more, the one that is lent to the steps after it.
#[test]
fn what_waits_in_a_scope_a_group_or_a_gather_keeps_no_waker() {
    let (mut event_loop, _clock) = virtual_loop();
    let event = Rc::new(Event::new());
    // The body, and the tree of its scopes: two.
    at_most(3, || {
        let waits = event.clone();
        let hour = Duration::from_secs(3_600);
        let task = event_loop.spawn(async move {
            catch_cancelled(timeout(hour, waits.wait())).await.ok().unwrap().unwrap();
        });
        turn(&mut event_loop);
        event.set();
        turn(&mut event_loop);
        event.clear();
        task.take_result().unwrap().unwrap();
    });
    // Two bodies, and the same for the group, which has a list of children.
    at_most(6, || {
        let waits = event.clone();
        let task = event_loop.spawn(TaskGroup::<()>::scope(async |group| {
            group.spawn(async move {
                waits.wait().await;
                Ok(())
            });
            Ok(())
        }));
        (0..2).for_each(|_| turn(&mut event_loop));
        event.set();
        (0..2).for_each(|_| turn(&mut event_loop));
        event.clear();
        task.take_result().unwrap().unwrap().unwrap();
    });
    // What the three tasks take, and four lists: of tasks, of those that have ended, of outputs twice.
    at_most(8, || {
        let inner = [event_loop.spawn(yield_now()), event_loop.spawn(yield_now())];
        let outer = event_loop.spawn(gather(inner));
        (0..4).for_each(|_| turn(&mut event_loop));
        outer.take_result().unwrap().unwrap().unwrap();
    });
}

#[test]
fn an_io_event_is_no_allocation() {
    struct Count(Cell<usize>);
    impl IoHandler for Count {
        fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {
            self.0.set(self.0.get() + 1);
        }
    }
    let mut event_loop = EventLoop::new().unwrap();
    let (ours, mut theirs) = pair();
    theirs.write_all(b"x").unwrap();
    let handler = Rc::new(Count(Cell::new(0)));
    let token = event_loop.register_io(ours, Interest::READ, handler.clone()).unwrap();
    at_most(0, || turn(&mut event_loop));
    assert_eq!(handler.0.get(), 3 * ROUNDS);
    // Changing the interest twice, as a full send buffer does.
    let both = Interest::READ | Interest::WRITE;
    at_most(0, || {
        event_loop.set_interest(token, Some(both));
        turn(&mut event_loop);
        event_loop.set_interest(token, Some(Interest::READ));
        turn(&mut event_loop);
    });
}

#[test]
fn a_reader_runs_without_an_allocation() {
    let mut event_loop = EventLoop::new().unwrap();
    let (ours, mut theirs) = pair();
    theirs.write_all(b"x").unwrap();
    let runs = Rc::new(Cell::new(0));
    let count = runs.clone();
    event_loop.add_reader(&ours, move || count.set(count.get() + 1)).unwrap();
    at_most(0, || turn(&mut event_loop));
    assert_eq!(runs.get(), 3 * ROUNDS);
}

#[test]
fn a_sleep_in_a_task_is_no_allocation() {
    let (mut event_loop, _clock) = virtual_loop();
    let due = event_loop.now();
    let task = event_loop.spawn(async move {
        loop {
            loop_core::sleep_until(due).await;
        }
    });
    turn(&mut event_loop);
    at_most(0, || turn(&mut event_loop));
    task.cancel();
    turn(&mut event_loop);
}
