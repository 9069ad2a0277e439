//! The behaviours of locks, events, semaphores and queues. Every cancelling test has a twin that drops the
//! waiting future instead, for on one thread that is the same thing seen from elsewhere.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use loop_core::sync::{
    Barrier, BrokenBarrier, Condition, Event, LifoQueue, Lock, PriorityQueue, Queue, QueueShutDown,
    Semaphore, Shutdown, TooManyReleases, TryGetError, TryPutError,
};
use loop_core::{LoopRef, Task, run, spawn, yield_now};

/// Polls once with a waker that does nothing.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

type Log = Rc<RefCell<Vec<String>>>;

fn log(log: &Log, text: impl Into<String>) {
    log.borrow_mut().push(text.into());
}

/// Lets everybody who is ready have a turn or two.
async fn settle() {
    for _ in 0..3 {
        yield_now().await;
    }
}

fn lock_user(lock: &Rc<Lock>, trace: &Log, name: &'static str) -> Task<()> {
    let (lock, trace) = (lock.clone(), trace.clone());
    spawn(async move {
        let _held = lock.acquire().await;
        log(&trace, name);
        yield_now().await;
    })
}

#[test]
fn b_lock_01_a_free_lock_is_taken_without_suspending() {
    let lock = Lock::new();
    let mut acquire = pin!(lock.acquire());
    let Poll::Ready(held) = poll_once(acquire.as_mut()) else { panic!("it suspended") };
    assert!(lock.is_locked() && lock.try_acquire().is_none());
    drop(held);
    assert!(!lock.is_locked() && lock.try_acquire().is_some());
}

#[test]
fn b_lock_02_nobody_overtakes_in_the_iteration_of_the_release() {
    let trace = Log::default();
    run(async {
        let lock = Rc::new(Lock::new());
        let held = lock.acquire().await;
        let first = lock_user(&lock, &trace, "first");
        let second = lock_user(&lock, &trace, "second");
        settle().await;
        drop(held);
        assert!(lock.try_acquire().is_none(), "a newcomer waits behind the chosen one");
        let third = lock_user(&lock, &trace, "third");
        for task in [first, second, third] {
            task.await.unwrap();
        }
    })
    .unwrap();
    assert_eq!(*trace.borrow(), ["first", "second", "third"]);
}

#[test]
fn b_lock_03_a_released_lock_is_not_locked_although_the_next_is_chosen() {
    run(async {
        let lock = Rc::new(Lock::new());
        let held = lock.acquire().await;
        let next = lock_user(&lock, &Log::default(), "next");
        settle().await;
        drop(held);
        assert!(!lock.is_locked());
        next.await.unwrap();
    })
    .unwrap();
}

#[test]
fn b_lock_04_a_cancelled_waiter_is_skipped() {
    let trace = Log::default();
    run(async {
        let lock = Rc::new(Lock::new());
        let held = lock.acquire().await;
        let gone = lock_user(&lock, &trace, "gone");
        let next = lock_user(&lock, &trace, "next");
        settle().await;
        gone.cancel();
        settle().await;
        drop(held);
        next.await.unwrap();
    })
    .unwrap();
    assert_eq!(*trace.borrow(), ["next"]);
}

#[test]
fn b_lock_05_a_waiter_cancelled_after_it_was_chosen_passes_the_turn_on() {
    let trace = Log::default();
    run(async {
        let lock = Rc::new(Lock::new());
        let held = lock.acquire().await;
        let chosen = lock_user(&lock, &trace, "chosen");
        let next = lock_user(&lock, &trace, "next");
        settle().await;
        drop(held);
        chosen.cancel(); // in the same iteration: its turn came and it never ran
        next.await.unwrap();
        assert!(!lock.is_locked());
    })
    .unwrap();
    assert_eq!(*trace.borrow(), ["next"]);
}

#[test]
fn b_lock_06_the_guard_releases_when_its_task_is_cancelled() {
    run(async {
        let lock = Rc::new(Lock::new());
        let holder = lock.clone();
        let task = spawn(async move {
            let _held = holder.acquire().await;
            std::future::pending::<()>().await;
        });
        settle().await;
        assert!(lock.is_locked());
        task.cancel();
        drop(lock.acquire().await);
    })
    .unwrap();
}

#[test]
fn b_lock_07_dropping_a_waiting_future_keeps_every_rule() {
    let lock = Lock::new();
    let held = lock.try_acquire();
    let mut next = pin!(lock.acquire());
    {
        let mut chosen = Box::pin(lock.acquire());
        assert!(poll_once(chosen.as_mut()).is_pending());
        assert!(poll_once(next.as_mut()).is_pending());
        drop(held); // grants `chosen`
        assert!(poll_once(next.as_mut()).is_pending());
    } // dropped with its turn unused
    assert!(poll_once(next.as_mut()).is_ready());
}

#[test]
fn b_lock_08_a_lock_is_bound_to_no_loop_and_tasks_of_two_may_share_it() {
    let trace = Log::default();
    let lock = Rc::new(Lock::new());
    let mut loops = [(); 2].map(|()| loop_core::EventLoop::new().unwrap());
    let tasks: Vec<_> = ["first", "second"]
        .into_iter()
        .zip(&loops)
        .map(|(name, lp)| {
            let (lock, trace) = (lock.clone(), trace.clone());
            lp.spawn(async move {
                let _held = lock.acquire().await;
                log(&trace, format!("{name} has it"));
                yield_now().await;
                log(&trace, format!("{name} lets go"));
            })
        })
        .collect();
    for _ in 0..2 {
        // The second waits for the first, which runs on another loop and wakes it.
        for event_loop in &mut loops {
            event_loop.run_once(Some(std::time::Duration::ZERO)).unwrap();
        }
    }
    loops[1].run_once(Some(std::time::Duration::ZERO)).unwrap();
    assert!(tasks.iter().all(Task::is_done));
    assert_eq!(
        *trace.borrow(),
        ["first has it", "first lets go", "second has it", "second lets go"]
    );
}

#[test]
fn b_evt_01_set_wakes_all_and_cancelled_waiters_are_gone() {
    run(async {
        let event = Rc::new(Event::new());
        let woken = Rc::new(Cell::new(0));
        let wait = || {
            let (event, woken) = (event.clone(), woken.clone());
            spawn(async move {
                event.wait().await;
                woken.set(woken.get() + 1);
            })
        };
        let tasks = [wait(), wait(), wait()];
        settle().await;
        tasks[1].cancel();
        settle().await;
        event.set();
        settle().await;
        assert_eq!(woken.get(), 2);
        event.wait().await; // set: at once
        assert!(format!("{event:?}").contains("waiting: 0"));
    })
    .unwrap();
}

#[test]
fn b_evt_02_set_then_clear_wakes_those_who_waited() {
    run(async {
        let event = Rc::new(Event::new());
        let waiter = event.clone();
        let task = spawn(async move { waiter.wait().await });
        settle().await;
        event.set();
        event.clear();
        task.await.unwrap();
        let mut late = pin!(event.wait());
        assert!(poll_once(late.as_mut()).is_pending());
    })
    .unwrap();
}

#[test]
fn a_wait_may_move_from_task_to_task_and_into_a_combinator() {
    run(async {
        let event = Rc::new(Event::new());
        let waiting = event.clone();
        let wait: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move { waiting.wait().await });
        let wait = Rc::new(RefCell::new(wait));
        let poller = || {
            let wait = wait.clone();
            spawn(poll_fn(move |cx| wait.borrow_mut().as_mut().poll(cx)))
        };
        // Each polls it once; the last one is to be woken, and no other is.
        let first = poller();
        settle().await;
        let second = poller();
        settle().await;
        event.set();
        second.await.unwrap();
        assert!(!first.is_done(), "the wait was not its any more");
        first.cancel();

        event.clear();
        let both = {
            let event = event.clone();
            let waits = futures::stream::FuturesUnordered::new();
            let wait = |event: Rc<Event>| async move { event.wait().await };
            waits.push(wait(event.clone()));
            waits.push(wait(event));
            spawn(async move { futures::StreamExt::count(waits).await })
        };
        settle().await;
        event.set();
        assert_eq!(both.await.unwrap(), 2);
    })
    .unwrap();
}

#[test]
fn who_waits_twice_in_one_step_or_wakes_itself_first_is_woken() {
    run(async {
        let (one, two) = (Rc::new(Event::new()), Rc::new(Event::new()));
        let (a, b) = (one.clone(), two.clone());
        let task = spawn(async move {
            // Its step has woken it before it begins to wait.
            futures::join!(yield_now(), a.wait(), b.wait());
        });
        settle().await;
        one.set();
        settle().await;
        assert!(!task.is_done());
        two.set();
        task.await.unwrap();
    })
    .unwrap();
}

#[test]
fn b_sem_01_zero_permits_make_everybody_wait() {
    let semaphore = Semaphore::new(0);
    assert!(semaphore.is_locked() && semaphore.try_acquire().is_none());
    let mut waiting = pin!(semaphore.acquire());
    assert!(poll_once(waiting.as_mut()).is_pending());
    semaphore.release(1).unwrap();
    assert!(poll_once(waiting.as_mut()).is_ready());
}

#[test]
fn b_sem_02_first_come_first_served() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire();
    let mut first = Box::pin(semaphore.acquire());
    let mut second = Box::pin(semaphore.acquire());
    assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
    drop(held);
    assert!(semaphore.is_locked() && semaphore.try_acquire().is_none(), "no barging");
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(first.as_mut()).is_ready());
}

#[test]
fn b_sem_03_a_permit_that_comes_back_goes_to_a_waiter_at_once() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire();
    let mut waiting = Box::pin(semaphore.acquire());
    assert!(poll_once(waiting.as_mut()).is_pending());
    drop(held);
    assert_eq!(semaphore.available(), 0);
}

#[test]
fn b_sem_04_a_granted_permit_that_is_not_used_goes_to_the_next() {
    let semaphore = Semaphore::new(0);
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(semaphore.acquire())).collect();
    for future in &mut waiting {
        assert!(poll_once(future.as_mut()).is_pending());
    }
    semaphore.release(2).unwrap(); // grants the first two
    drop(waiting.remove(0));
    let mut ready = waiting.iter_mut().map(|future| poll_once(future.as_mut()));
    assert!(ready.all(|polled| polled.is_ready()), "the third got the first one's permit");
}

#[test]
fn b_sem_05_permits_are_conserved_under_random_cancels() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let semaphore = Semaphore::new(3);
    let mut waiting = Vec::new();
    let mut held = Vec::new();
    for _ in 0..20_000 {
        match random(4) {
            0 => waiting.push(Box::pin(semaphore.acquire())),
            1 if !waiting.is_empty() => drop(waiting.swap_remove(random(waiting.len()))),
            2 if !held.is_empty() => drop(held.swap_remove(random(held.len()))),
            _ => {
                for mut future in std::mem::take(&mut waiting) {
                    match poll_once(future.as_mut()) {
                        Poll::Ready(permit) => held.push(permit),
                        Poll::Pending => waiting.push(future),
                    }
                }
            }
        }
        assert!(held.len() + semaphore.available() <= 3);
    }
    waiting.clear();
    held.clear();
    assert_eq!(semaphore.available(), 3);
    assert!(!semaphore.is_locked());
}

#[test]
fn b_sem_06_a_bounded_semaphore_refuses_more_than_it_began_with() {
    let semaphore = Semaphore::bounded(1);
    assert_eq!(semaphore.release(1), Err(TooManyReleases));
    semaphore.try_acquire().unwrap().forget();
    assert_eq!(semaphore.release(1), Ok(()));
    assert_eq!(semaphore.available(), 1);
    assert_eq!(Semaphore::new(1).release(usize::MAX), Err(TooManyReleases));
}

#[test]
fn a_permit_that_owns_its_semaphore_goes_to_another_task() {
    let semaphore = Rc::new(Semaphore::new(1));
    let (ours, peak) = (semaphore.clone(), Rc::new(Cell::new(0)));
    let most = peak.clone();
    run(async move {
        let running = Rc::new(Cell::new(0));
        for _ in 0..3 {
            let permit = ours.clone().acquire_owned().await;
            let (running, most) = (running.clone(), most.clone());
            spawn(async move {
                running.set(running.get() + 1);
                most.set(most.get().max(running.get()));
                yield_now().await;
                running.set(running.get() - 1);
                drop(permit);
            })
            .detach();
        }
        drop(ours.clone().acquire_owned().await);
        ours.acquire_owned().await.forget();
    })
    .unwrap();
    assert_eq!((peak.get(), semaphore.available()), (1, 0));
    semaphore.release(1).unwrap();
    assert_eq!((semaphore.available(), Rc::strong_count(&semaphore)), (1, 1));
}

#[test]
fn b_que_01_fifo_lifo_and_smallest_first() {
    fn order<S: loop_core::sync::QueueStore<u8>>(
        queue: loop_core::sync::QueueOf<u8, S>,
    ) -> Vec<u8> {
        for item in [2, 3, 1] {
            queue.try_put(item).unwrap();
        }
        std::iter::from_fn(|| queue.try_get().ok()).collect()
    }
    assert_eq!(order(Queue::new()), [2, 3, 1]);
    assert_eq!(order(LifoQueue::new()), [1, 3, 2]);
    assert_eq!(order(PriorityQueue::new()), [1, 2, 3]);
}

#[test]
fn b_que_02_without_a_bound_it_is_never_full() {
    let queue = Queue::new();
    for n in 0..10_000 {
        queue.try_put(n).unwrap();
    }
    assert!(!queue.is_full() && queue.max_size().is_none());
    assert_eq!(queue.len(), 10_000);
}

#[test]
fn b_que_03_put_waits_while_full_and_get_while_empty() {
    let queue = Queue::bounded(1.try_into().unwrap());
    assert_eq!(queue.try_get(), Err(TryGetError::Empty));
    {
        let mut get = pin!(queue.get());
        assert!(poll_once(get.as_mut()).is_pending());
        queue.try_put('a').unwrap();
        assert_eq!(poll_once(get.as_mut()), Poll::Ready(Ok('a')));
    }
    queue.try_put('b').unwrap();
    assert_eq!(queue.try_put('c'), Err(TryPutError::Full('c')));
    let mut put = pin!(queue.put('c'));
    assert!(poll_once(put.as_mut()).is_pending());
    assert_eq!(queue.try_get(), Ok('b'));
    assert!(poll_once(put.as_mut()).is_ready());
    assert_eq!(queue.try_get(), Ok('c'));
}

#[test]
fn b_que_04_one_put_wakes_one_getter_in_order() {
    let trace = Log::default();
    run(async {
        let queue = Rc::new(Queue::new());
        let getter = |name: &'static str| {
            let (queue, trace) = (queue.clone(), trace.clone());
            spawn(async move {
                let item: u32 = queue.get().await.unwrap();
                log(&trace, format!("{name} {item}"));
            })
        };
        let tasks = [getter("first"), getter("second")];
        settle().await;
        queue.try_put(1).unwrap();
        settle().await;
        assert_eq!(*trace.borrow(), ["first 1"]);
        queue.try_put(2).unwrap();
        for task in tasks {
            task.await.unwrap();
        }
    })
    .unwrap();
    assert_eq!(*trace.borrow(), ["first 1", "second 2"]);
}

// python/asyncio#256 [bpo-23812]: an item put, then its getter cancelled.
#[test]
fn b_que_05_s21_a_getter_cancelled_after_it_was_woken_loses_no_item() {
    run(async {
        let queue = Rc::new(Queue::new());
        let getter = || {
            let queue = queue.clone();
            spawn(async move { queue.get().await })
        };
        let gone = getter();
        settle().await;
        queue.try_put(7).unwrap();
        gone.cancel();
        assert!(gone.await.unwrap_err().is_cancelled());
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.try_get(), Ok(7));

        let (gone, next) = (getter(), getter());
        settle().await;
        queue.try_put(8).unwrap();
        gone.cancel();
        assert_eq!(next.await.unwrap(), Ok(8), "woken without another put");
    })
    .unwrap();
}

#[test]
fn b_que_06_a_putter_cancelled_after_it_was_woken_wakes_the_next() {
    let queue = Queue::bounded(1.try_into().unwrap());
    queue.try_put(0).unwrap();
    let mut gone = Box::pin(queue.put(1));
    let mut next = pin!(queue.put(2));
    assert!(poll_once(gone.as_mut()).is_pending() && poll_once(next.as_mut()).is_pending());
    assert_eq!(queue.try_get(), Ok(0)); // wakes `gone`
    drop(gone);
    assert!(poll_once(next.as_mut()).is_ready());
    assert_eq!(queue.try_get(), Ok(2), "the dropped put was not put in");
    assert!(queue.is_empty());
}

#[test]
fn b_que_07_cancelled_waiters_do_not_accumulate() {
    let queue = Queue::<u32>::new();
    for _ in 0..1_000 {
        let mut get = pin!(queue.get());
        assert!(poll_once(get.as_mut()).is_pending());
    }
    let mut last = pin!(queue.get());
    assert!(poll_once(last.as_mut()).is_pending());
    queue.try_put(1).unwrap();
    assert_eq!(poll_once(last.as_mut()), Poll::Ready(Ok(1)), "the only one left was woken");
}

#[test]
fn b_que_08_join_waits_for_every_item_to_be_done() {
    let queue = Queue::new();
    assert!(poll_once(pin!(queue.join())).is_ready(), "nothing was ever put in");
    queue.try_put(1).unwrap();
    let mut both = [Box::pin(queue.join()), Box::pin(queue.join())];
    assert!(both.iter_mut().all(|join| poll_once(join.as_mut()).is_pending()));
    queue.try_get().unwrap();
    assert!(both.iter_mut().all(|join| poll_once(join.as_mut()).is_pending()));
    queue.task_done();
    assert!(both.iter_mut().all(|join| poll_once(join.as_mut()).is_ready()));
    queue.try_put(2).unwrap();
    assert!(poll_once(pin!(queue.join())).is_pending());
}

#[test]
#[should_panic(expected = "more often than items were put in")]
fn b_que_08_marking_too_many_is_a_bug() {
    Queue::<u8>::new().task_done();
}

#[test]
fn b_que_09_draining_lets_what_is_left_be_got_and_wakes_all() {
    let queue = Queue::bounded(1.try_into().unwrap());
    queue.try_put(1).unwrap();
    let mut put = pin!(queue.put(2));
    assert!(poll_once(put.as_mut()).is_pending());
    queue.shutdown(Shutdown::Drain);
    assert!(matches!(poll_once(put.as_mut()), Poll::Ready(Err(error)) if error.0 == 2));
    assert_eq!(queue.try_put(3), Err(TryPutError::ShutDown(3)));
    assert_eq!(poll_once(pin!(queue.get())), Poll::Ready(Ok(1)));
    assert_eq!(poll_once(pin!(queue.get())), Poll::Ready(Err(QueueShutDown)));

    let empty = Queue::<u8>::new();
    let mut get = pin!(empty.get());
    assert!(poll_once(get.as_mut()).is_pending());
    empty.shutdown(Shutdown::Drain);
    assert_eq!(poll_once(get.as_mut()), Poll::Ready(Err(QueueShutDown)));
}

#[test]
fn b_que_10_draining_leaves_join_waiting_for_what_is_left() {
    let queue = Queue::new();
    queue.try_put(1).unwrap();
    queue.try_put(2).unwrap();
    let mut before = pin!(queue.join());
    assert!(poll_once(before.as_mut()).is_pending());
    queue.shutdown(Shutdown::Drain);
    let mut after = pin!(queue.join());
    for item in [1, 2] {
        assert!(poll_once(before.as_mut()).is_pending() && poll_once(after.as_mut()).is_pending());
        assert_eq!(queue.try_get(), Ok(item));
        assert!(poll_once(before.as_mut()).is_pending(), "got is not done");
        queue.task_done();
    }
    assert!(poll_once(before.as_mut()).is_ready() && poll_once(after.as_mut()).is_ready());
}

#[test]
fn b_que_11_immediate_counts_what_is_left_as_done_but_not_what_was_got() {
    let queue = Queue::new();
    queue.try_put(1).unwrap();
    queue.try_put(2).unwrap();
    queue.try_get().unwrap();
    queue.shutdown(Shutdown::Immediate);
    assert_eq!(queue.try_get(), Err(TryGetError::ShutDown));
    let mut join = pin!(queue.join());
    assert!(poll_once(join.as_mut()).is_pending(), "one item was handed out and is not done");
    queue.task_done();
    assert!(poll_once(join.as_mut()).is_ready());
}

#[test]
fn b_que_12_a_shutdown_may_be_repeated_and_upgraded_but_not_undone() {
    let queue = Queue::new();
    queue.try_put(1).unwrap();
    queue.try_put(2).unwrap();
    for _ in 0..2 {
        queue.shutdown(Shutdown::Drain);
        assert_eq!(queue.len(), 2);
    }
    assert_eq!(queue.try_get(), Ok(1));
    queue.task_done();
    for _ in 0..2 {
        queue.shutdown(Shutdown::Immediate);
        assert!(queue.is_empty());
        assert_eq!(queue.try_get(), Err(TryGetError::ShutDown));
    }
    assert!(poll_once(pin!(queue.join())).is_ready(), "what was dropped counts once");
    queue.shutdown(Shutdown::Drain);
    assert_eq!(queue.try_put(3), Err(TryPutError::ShutDown(3)));
    assert_eq!(queue.try_get(), Err(TryGetError::ShutDown));
}

#[test]
fn b_que_13_destructors_of_dropped_items_may_use_the_queue() {
    struct Nosy(Rc<RefCell<Option<Rc<Queue<Nosy>>>>>, Rc<Cell<u32>>);
    impl Drop for Nosy {
        fn drop(&mut self) {
            if let Some(queue) = &*self.0.borrow() {
                let _ = queue.len() + queue.try_get().is_ok() as usize;
                self.1.set(self.1.get() + 1);
            }
        }
    }
    let (slot, dropped) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(0)));
    let queue = Rc::new(Queue::new());
    for _ in 0..3 {
        assert!(queue.try_put(Nosy(slot.clone(), dropped.clone())).is_ok());
    }
    *slot.borrow_mut() = Some(queue.clone());
    queue.shutdown(Shutdown::Immediate);
    assert_eq!(dropped.get(), 3);
    slot.take();
}

#[test]
fn waking_from_inside_a_wake_up_holds_no_borrow() {
    let mut event_loop = loop_core::EventLoop::new().unwrap();
    let lp: LoopRef = event_loop.loop_ref();
    let (lock, event) = (Rc::new(Lock::new()), Rc::new(Event::new()));
    let done = event_loop.run_until_complete(async {
        let (l, e) = (lock.clone(), event.clone());
        let task = lp.spawn(async move {
            e.wait().await;
            let _held = l.acquire().await;
            e.clear();
        });
        yield_now().await;
        let held = lock.acquire().await;
        event.set();
        yield_now().await;
        drop(held);
        task.await
    });
    done.unwrap().unwrap();
    assert!(!event.is_set() && !lock.is_locked());
}

#[test]
fn b_cond_02_the_lock_is_free_while_asleep_and_held_again_afterwards() {
    run(async {
        let shared = Rc::new((Lock::new(), Condition::new()));
        let sleeper = shared.clone();
        let task = spawn(async move {
            let held = sleeper.0.acquire().await;
            let _held = sleeper.1.wait(held).await;
            sleeper.0.is_locked()
        });
        settle().await;
        let held = shared.0.try_acquire().expect("released while it sleeps");
        shared.1.notify(&held, 1);
        settle().await;
        assert!(!task.is_done(), "it waits for the lock");
        drop(held);
        assert!(task.await.unwrap());
    })
    .unwrap();
}

#[test]
fn b_cond_03_notify_wakes_at_most_so_many_in_order_and_skips_cancelled_ones() {
    let trace = Log::default();
    run(async {
        let shared = Rc::new((Lock::new(), Condition::new()));
        let sleeper = |name: &'static str| {
            let (shared, trace) = (shared.clone(), trace.clone());
            spawn(async move {
                let held = shared.0.acquire().await;
                let _held = shared.1.wait(held).await;
                log(&trace, name);
            })
        };
        let tasks = [sleeper("a"), sleeper("gone"), sleeper("b"), sleeper("c")];
        settle().await;
        tasks[1].cancel();
        settle().await;
        shared.1.notify(&shared.0.acquire().await, 2);
        settle().await;
        settle().await;
        assert_eq!(*trace.borrow(), ["a", "b"]);
        shared.1.notify(&shared.0.acquire().await, 99);
        settle().await;
        assert_eq!(*trace.borrow(), ["a", "b", "c"]);
    })
    .unwrap();
}

#[test]
fn b_cond_04_a_notified_waiter_that_goes_passes_the_notification_on() {
    let (lock, condition) = (Lock::new(), Condition::new());
    let sleep = || {
        let mut wait = Box::pin(async {
            let held = lock.acquire().await;
            drop(condition.wait(held).await);
        });
        assert!(poll_once(wait.as_mut()).is_pending());
        wait
    };
    // Dropped before it saw the notification, and while it waited for the lock again.
    for polls in 0..2 {
        let (mut gone, mut next) = (sleep(), sleep());
        let held = lock.try_acquire().unwrap();
        condition.notify(&held, 1);
        for _ in 0..polls {
            assert!(poll_once(gone.as_mut()).is_pending());
        }
        drop(gone);
        drop(held);
        assert!(poll_once(next.as_mut()).is_ready(), "{polls}");
    }
}

#[test]
fn b_cond_05_a_wait_dropped_while_it_takes_the_lock_again_leaves_both_queues() {
    let (lock, changed) = (Lock::new(), Condition::new());
    let acquire = || lock.try_acquire().expect("it is free");
    let mut gone = Box::pin(changed.wait(acquire()));
    assert!(poll_once(gone.as_mut()).is_pending());
    let mut next = Box::pin(changed.wait(acquire()));
    assert!(poll_once(next.as_mut()).is_pending());

    let held = acquire();
    changed.notify(&held, 1);
    assert!(poll_once(gone.as_mut()).is_pending(), "notified, and it waits for the lock");
    assert!(poll_once(next.as_mut()).is_pending());
    let mut behind = Box::pin(lock.acquire());
    assert!(poll_once(behind.as_mut()).is_pending());
    drop(gone);
    drop(held);
    // Its place for the lock is given up: who came behind it has the lock.
    let Poll::Ready(held) = poll_once(behind.as_mut()) else { panic!("the place is still taken") };
    // Its notification went on: nobody notifies again.
    assert!(poll_once(next.as_mut()).is_pending(), "notified, and it waits for the lock");
    drop(held);
    assert!(poll_once(next.as_mut()).is_ready());
}

#[test]
fn b_cond_06_wait_while_returns_only_when_the_predicate_allows_it() {
    let (lock, condition, level) = (Lock::new(), Condition::new(), Cell::new(0));
    let mut wait = pin!(async {
        let held = lock.acquire().await;
        drop(condition.wait_while(held, || level.get() < 2).await);
    });
    assert!(poll_once(wait.as_mut()).is_pending());
    for expected in [false, true] {
        level.set(level.get() + 1);
        condition.notify_all(&lock.try_acquire().unwrap());
        assert_eq!(poll_once(wait.as_mut()).is_ready(), expected);
    }
}

fn barrier(parties: usize) -> Barrier {
    Barrier::new(parties.try_into().unwrap())
}

#[test]
fn b_bar_01_all_are_released_together_with_distinct_numbers() {
    run(async {
        let barrier = Rc::new(barrier(5));
        let arrive = || {
            let barrier = barrier.clone();
            spawn(async move { barrier.wait().await })
        };
        for _round in 0..3 {
            let mut tasks: Vec<_> = (0..4).map(|_| arrive()).collect();
            settle().await;
            assert!(tasks.iter().all(|task| !task.is_done()));
            assert_eq!(barrier.n_waiting(), 4);
            tasks.push(arrive());
            let mut numbers = Vec::new();
            for task in tasks {
                numbers.push(task.await.unwrap().unwrap());
            }
            numbers.sort_unstable();
            assert_eq!(numbers, [0, 1, 2, 3, 4]);
        }
    })
    .unwrap();
}

#[test]
fn b_bar_02_who_comes_while_others_leave_waits_for_the_next_round() {
    let barrier = barrier(2);
    let (mut a, mut b, mut late) =
        (Box::pin(barrier.wait()), Box::pin(barrier.wait()), Box::pin(barrier.wait()));
    assert!(poll_once(a.as_mut()).is_pending());
    assert!(poll_once(b.as_mut()).is_ready());
    assert!(poll_once(late.as_mut()).is_pending(), "`a` is still inside");
    assert!(poll_once(a.as_mut()).is_ready());
    drop((a, b));
    assert!(poll_once(late.as_mut()).is_pending());
    assert_eq!(barrier.n_waiting(), 1);
}

#[test]
fn b_bar_03_dropping_a_waiter_lowers_the_count_and_breaks_nothing() {
    let barrier = barrier(2);
    {
        let mut gone = Box::pin(barrier.wait());
        assert!(poll_once(gone.as_mut()).is_pending());
    }
    assert_eq!((barrier.n_waiting(), barrier.is_broken()), (0, false));
    let mut first = pin!(barrier.wait());
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(pin!(barrier.wait())).is_ready());
    assert!(poll_once(first.as_mut()).is_ready());
}

#[test]
fn b_bar_04_a_reset_fails_who_waits_and_leaves_it_usable() {
    let barrier = barrier(2);
    {
        let mut waiting = Box::pin(barrier.wait());
        assert!(poll_once(waiting.as_mut()).is_pending());
        barrier.reset();
        assert_eq!(poll_once(waiting.as_mut()), Poll::Ready(Err(BrokenBarrier)));
    }
    let mut first = pin!(barrier.wait());
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(pin!(barrier.wait())).is_ready());
}

#[test]
fn b_bar_05_a_reset_while_they_leave_fails_only_who_is_still_inside() {
    let barrier = barrier(2);
    let (mut slow, mut late) = (Box::pin(barrier.wait()), Box::pin(barrier.wait()));
    assert!(poll_once(slow.as_mut()).is_pending());
    assert!(matches!(poll_once(pin!(barrier.wait())), Poll::Ready(Ok(_))), "it left already");
    barrier.reset();
    assert!(poll_once(late.as_mut()).is_pending(), "waits until the barrier is empty");
    assert_eq!(poll_once(slow.as_mut()), Poll::Ready(Err(BrokenBarrier)));
    drop(slow);
    assert!(poll_once(late.as_mut()).is_pending());
    assert_eq!(barrier.n_waiting(), 1);
}

#[test]
fn b_bar_06_an_abort_lasts_until_a_reset() {
    let barrier = barrier(2);
    let mut waiting = Box::pin(barrier.wait());
    assert!(poll_once(waiting.as_mut()).is_pending());
    barrier.abort();
    assert_eq!(poll_once(waiting.as_mut()), Poll::Ready(Err(BrokenBarrier)));
    assert_eq!(poll_once(pin!(barrier.wait())), Poll::Ready(Err(BrokenBarrier)));
    drop(waiting);
    assert!(barrier.is_broken());
    barrier.reset();
    assert!(!barrier.is_broken());
    assert!(poll_once(pin!(barrier.wait())).is_pending());
}

#[test]
fn b_bar_07_one_party_never_waits() {
    let barrier = barrier(1);
    assert_eq!(barrier.parties().get(), 1);
    for _ in 0..3 {
        assert_eq!(poll_once(pin!(barrier.wait())), Poll::Ready(Ok(0)));
        assert_eq!(barrier.n_waiting(), 0);
    }
}
