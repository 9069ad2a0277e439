//! Panics of user code that is neither a callback nor a task: clocks, selectors, owners of descriptors, executors,
//! predicates, orders, and what other threads call back. Nothing else is lost by them.

mod common;

use std::cell::Cell;
use std::cmp::Ordering;
use std::future::{Future, pending};
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use common::{OnDrop, Trace, keep, pair, reports, turn, watchdog};
use loop_core::sync::{Condition, Lock, PriorityQueue, Queue, Shutdown};
use loop_core::{
    AsSource, Clock, EventLoop, Executor, HostWaker, Interest, IoHandler, Job, LoopAbort,
    LoopFuture, MonotonicClock, Readiness, Refused, Runner, Selector, TaskError, run, sleep, spawn,
    staggered_race, yield_now,
};
use loop_selector::{Events, available, by_name, forward_selector};

const MS: Duration = Duration::from_millis(1);

/// Panics once, when it has counted down.
#[derive(Clone, Default)]
struct Fault(Rc<Cell<u32>>);

impl Fault {
    fn hit(&self) {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        if left == 1 {
            panic_any("as asked");
        }
    }
}

struct FaultyClock(Fault);

impl Clock for FaultyClock {
    fn now(&self) -> Instant {
        self.0.hit();
        MonotonicClock.now()
    }
}

struct FaultySelector {
    inner: Box<dyn Selector>,
    before: Fault,
    after: Fault,
}

impl Selector for FaultySelector {
    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        self.before.hit();
        self.inner.select(events, timeout)?;
        self.after.hit();
        Ok(())
    }

    forward_selector!(inner: register modify deregister rearm registry waker name as_fd);
}

#[derive(Debug, Clone, Copy)]
enum Faulty {
    Clock,
    BeforeSelector,
    AfterSelector,
}

/// Runs what neither reads the clock nor calls the selector itself, with a fault in the so manieth call of either.
/// Whether the fault was reached.
fn everything_happens_once(backend: &str, faulty: Faulty, at: u32) -> bool {
    let faults: [Fault; 3] = Default::default();
    let selector = Box::new(FaultySelector {
        inner: by_name(backend).unwrap(),
        before: faults[Faulty::BeforeSelector as usize].clone(),
        after: faults[Faulty::AfterSelector as usize].clone(),
    });
    let clock = Rc::new(FaultyClock(faults[Faulty::Clock as usize].clone()));
    let mut event_loop = EventLoop::builder().selector(selector).clock(clock).build().unwrap();
    let (trace, log) = (Trace::new(), reports(&event_loop));

    let (ours, mut theirs) = pair();
    let (lp, source, read) = (event_loop.loop_ref(), ours.clone(), trace.clone());
    let writes = trace.clone();
    event_loop
        .add_reader(&ours, move || {
            let mut byte = [0];
            (&*source).read_exact(&mut byte).unwrap();
            read.push("read");
            // An interest that changes.
            let (once, source, writes) = (lp.clone(), source.clone(), writes.clone());
            lp.add_writer(&source.clone(), move || {
                writes.push("written");
                once.remove_writer(&*source);
            })
            .unwrap();
        })
        .unwrap();
    let future: LoopFuture<(), ()> = event_loop.create_future();
    let (sets, awaited, woken) = (future.clone(), trace.clone(), trace.clone());
    event_loop.call_later(MS, trace.note("first timer"));
    event_loop.call_later(2 * MS, move || sets.set_result(()).unwrap());
    event_loop.call_later(2 * MS, trace.note("second timer"));
    event_loop
        .spawn(async move {
            future.await.unwrap();
            awaited.push("awaited");
        })
        .detach();
    let (tell, told) = mpsc::channel();
    event_loop.call_soon(move || {
        let sent = tell.send(());
        woken.push(format!("told {sent:?}"));
    });
    let remote = event_loop.remote();
    let thread = std::thread::spawn(move || {
        told.recv().unwrap();
        theirs.write_all(b"x").unwrap();
        // While the loop waits, or just before.
        remote.call_soon(|| ()).unwrap();
        let ran = remote.spawn(async || ()).unwrap().wait();
        (theirs, ran.is_ok())
    });

    faults[faulty as usize].0.set(at);
    let mut panics = 0;
    let start = Instant::now();
    while trace.len() < 6 || !thread.is_finished() {
        let so_far = start.elapsed();
        assert!(so_far < Duration::from_secs(20), "{backend} {faulty:?} {at}: {:?}", trace.take());
        let step = AssertUnwindSafe(|| event_loop.run_once(Some(MS)).unwrap());
        panics += u32::from(catch_unwind(step).is_err());
    }
    // The peer's end stays open, or there would be more to read.
    let (_theirs, ran) = thread.join().unwrap();
    assert!(ran);
    let reached = faults[faulty as usize].0.replace(0) == 0;
    // One that is not seen here was the callback's that called.
    let failed = log.take();
    let told = panics + failed.len() as u32;
    assert_eq!(told, u32::from(reached), "{backend} {faulty:?} {at}: {panics}, {failed:?}");
    turn(&mut event_loop);
    let mut seen = trace.take();
    seen.sort();
    let all = ["awaited", "first timer", "read", "second timer", "told Ok(())", "written"];
    assert_eq!(seen, all, "{backend} {faulty:?} {at}");
    event_loop.close();
    reached
}

#[test]
fn a_panic_of_the_clock_or_the_selector_loses_nothing() {
    let _watchdog = watchdog();
    for backend in available() {
        for faulty in [Faulty::Clock, Faulty::BeforeSelector, Faulty::AfterSelector] {
            // How many calls there are depends on the machine, too.
            let reached = (1..=16).filter(|at| everything_happens_once(backend, faulty, *at));
            assert!(reached.count() > 0, "{backend} {faulty:?}");
        }
    }
}

/// The entry that the aborted run had left called it, and the one of the next wait again.
#[test]
fn a_reader_ran_twice_for_one_event_after_an_abort() {
    for backend in available() {
        let mut event_loop =
            EventLoop::builder().selector(by_name(backend).unwrap()).build().unwrap();
        let (ours, mut theirs) = pair();
        let (source, trace) = (ours.clone(), Trace::new());
        let log = trace.clone();
        let reads =
            move || log.push(format!("{:?}", (&*source).read(&mut [0; 8]).map_err(|e| e.kind())));
        event_loop.add_reader(&ours, reads).unwrap();
        theirs.write_all(b"x").unwrap();
        event_loop.call_soon(|| LoopAbort { code: 1 }.raise());
        assert!(catch_unwind(AssertUnwindSafe(|| turn(&mut event_loop))).is_err());
        assert_eq!(trace.take(), [""; 0]);
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["Ok(1)"], "{backend}");
    }
}

struct Shy(std::os::unix::net::UnixStream);

impl AsSource for Shy {
    fn source_fd(&self) -> BorrowedFd<'_> {
        panic_any("as asked")
    }
}

#[test]
fn a_panic_of_a_descriptors_owner_is_the_callers_and_registers_nothing() {
    struct Deaf;
    impl IoHandler for Deaf {
        fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {}
    }
    for backend in available() {
        let mut event_loop =
            EventLoop::builder().selector(by_name(backend).unwrap()).build().unwrap();
        let (ours, theirs) = pair();
        let shy = Rc::new(Shy(theirs));
        let registers = || drop(event_loop.register_io(shy.clone(), Interest::READ, Rc::new(Deaf)));
        assert!(catch_unwind(AssertUnwindSafe(registers)).is_err());
        assert_eq!(Rc::strong_count(&shy), 1);
        (&shy.0).write_all(b"x").unwrap();
        let trace = Trace::new();
        event_loop.add_reader(&ours, trace.note("read")).unwrap();
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["read"], "{backend}");
        assert_eq!(event_loop.dump().descriptors.len(), 1);
    }
}

#[test]
fn a_panic_of_an_executor_is_the_callers() {
    struct Breaks;
    impl Executor for Breaks {
        fn execute(&self, _: Job) -> Result<(), Refused> {
            panic_any("as asked")
        }
    }
    let _watchdog = watchdog();
    run(async {
        let lp = loop_core::LoopRef::current();
        let dropped = Arc::new(());
        let held = dropped.clone();
        let calls = || drop(lp.run_blocking_on(&Breaks, move || drop(held)));
        assert!(catch_unwind(AssertUnwindSafe(calls)).is_err());
        assert_eq!(Arc::strong_count(&dropped), 1);
        assert_eq!(lp.run_blocking(|| 1).await.unwrap(), 1);
        let _ = lp.dump().to_string();
    })
    .unwrap();
}

#[test]
fn a_panic_of_the_predicate_of_a_wait_frees_the_lock() {
    run(async {
        let shared = Rc::new((Lock::new(), Condition::new()));
        let other = shared.clone();
        let asked = Cell::new(0);
        let fails = spawn(async move {
            let held = other.0.acquire().await;
            let wait = || {
                asked.set(asked.get() + 1);
                assert!(asked.get() < 2, "as asked");
                true
            };
            drop(other.1.wait_while(held, wait).await);
        });
        let other = shared.clone();
        let next = spawn(async move {
            let held = other.0.acquire().await;
            drop(other.1.wait(held).await);
        });
        yield_now().await;
        yield_now().await;
        let held = shared.0.acquire().await;
        shared.1.notify_all(&held);
        drop(held);
        assert!(matches!(fails.await, Err(TaskError::Panicked(_))));
        next.await.unwrap();
        assert!(!shared.0.is_locked());
    })
    .unwrap();
}

#[test]
fn a_panic_of_an_attempt_that_starts_drops_those_under_way() {
    run(async {
        let trace = Trace::new();
        let log = trace.clone();
        let race = spawn(async move {
            let attempts = [0, 1].map(|number| {
                let dropped = log.on_drop("dropped");
                move || {
                    assert!(number == 0, "as asked");
                    async move {
                        keep(&dropped);
                        pending::<Result<(), ()>>().await
                    }
                }
            });
            staggered_race(attempts, Some(MS)).await
        });
        assert!(matches!(race.await, Err(TaskError::Panicked(_))));
        assert_eq!(trace.take(), ["dropped", "dropped"]);
        sleep(MS).await;
    })
    .unwrap();
}

#[test]
fn a_panic_of_the_order_of_items_is_the_putters_and_the_queue_goes_on() {
    #[derive(Debug, PartialEq, Eq)]
    struct Item(u32);
    impl PartialOrd for Item {
        fn partial_cmp(&self, other: &Item) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Item {
        fn cmp(&self, other: &Item) -> Ordering {
            assert!(self.0 != 13 && other.0 != 13, "as asked");
            self.0.cmp(&other.0)
        }
    }
    let _watchdog = watchdog();
    run(async {
        let queue = Rc::new(PriorityQueue::new());
        let getter = || {
            let queue = queue.clone();
            spawn(async move {
                let item: Item = queue.get().await.unwrap();
                queue.task_done();
                item.0
            })
        };
        let getters = [getter(), getter()];
        yield_now().await;
        queue.try_put(Item(1)).unwrap();
        // It is in all the same, as with the standard library's heap, so it counts and somebody gets it.
        assert!(catch_unwind(AssertUnwindSafe(|| queue.try_put(Item(13)))).is_err());
        assert_eq!(queue.len(), 2);
        let mut got = Vec::new();
        for getter in getters {
            got.push(getter.await.unwrap());
        }
        got.sort_unstable();
        assert_eq!(got, [1, 13]);
        queue.join().await;

        // Taken out, it is lost; the queue counts it as done, and there is room.
        let queue = Rc::new(PriorityQueue::bounded(3.try_into().unwrap()));
        for item in [Item(1), Item(2)] {
            queue.try_put(item).unwrap();
        }
        assert!(catch_unwind(AssertUnwindSafe(|| queue.try_put(Item(13)))).is_err());
        let other = queue.clone();
        let putter = spawn(async move { other.put(Item(4)).await });
        yield_now().await;
        assert!(!putter.is_done() && queue.is_full());
        while !queue.is_empty() {
            if let Ok(got) = catch_unwind(AssertUnwindSafe(|| queue.try_get())) {
                got.unwrap();
                queue.task_done();
            }
            yield_now().await;
        }
        putter.await.unwrap().unwrap();
        queue.join().await;
    })
    .unwrap();
}

/// The item whose order had panicked shared its place with the next one.
#[test]
fn equal_items_lost_their_order_behind_a_panic_of_it() {
    thread_local!(static FAULT: Fault = Fault::default());
    struct Item(u32);
    impl PartialEq for Item {
        fn eq(&self, other: &Item) -> bool {
            self.cmp(other).is_eq()
        }
    }
    impl Eq for Item {}
    impl PartialOrd for Item {
        fn partial_cmp(&self, other: &Item) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Item {
        fn cmp(&self, _: &Item) -> Ordering {
            FAULT.with(Fault::hit);
            Ordering::Equal
        }
    }
    let queue = PriorityQueue::new();
    for number in 0..10 {
        FAULT.with(|fault| fault.0.set(number % 2));
        let puts = AssertUnwindSafe(|| queue.try_put(Item(number)).unwrap());
        assert_eq!(catch_unwind(puts).is_err(), number % 2 == 1, "{number}");
    }
    let got: Vec<_> = std::iter::from_fn(|| queue.try_get().ok()).map(|item| item.0).collect();
    assert_eq!(got, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

/// Whoever waited for the queue was never told.
#[test]
fn an_item_whose_destructor_panics_kept_a_shutdown_from_those_who_wait() {
    let _watchdog = watchdog();
    run(async {
        let queue = Rc::new(Queue::bounded(2.try_into().unwrap()));
        let item = || OnDrop(|| panic_any("as asked"));
        assert!(queue.try_put(item()).is_ok() && queue.try_put(item()).is_ok());
        let (puts, joins) = (queue.clone(), queue.clone());
        let putter = spawn(async move {
            let Err(refused) = puts.put(item()).await else { return false };
            std::mem::forget(refused);
            true
        });
        let joiner = spawn(async move { joins.join().await });
        yield_now().await;
        let ends = || queue.shutdown(Shutdown::Immediate);
        assert!(catch_unwind(AssertUnwindSafe(ends)).is_err());
        assert!(queue.is_empty());
        assert!(putter.await.unwrap());
        joiner.await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_panic_of_a_loops_factory_is_the_callers() {
    let mut runner = Runner::builder()
        .loop_factory(|| -> io::Result<EventLoop> { panic_any("as asked") })
        .build();
    assert!(catch_unwind(AssertUnwindSafe(|| runner.run(async {}))).is_err());
    // The next time there is nobody to ask, and a usual loop is made.
    runner.run(async { yield_now().await }).unwrap();
}

#[test]
fn a_panic_of_a_remote_waiters_waker_ends_no_task() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic_any("as asked")
        }
    }
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let log = reports(&event_loop);
    let mut outcome = event_loop.remote().spawn(async || 1).unwrap();
    let waker = Waker::from(Arc::new(Panics));
    let polled = std::pin::Pin::new(&mut outcome).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    let other = event_loop.spawn(async { yield_now().await });
    event_loop.run_until_complete(other).unwrap().unwrap();
    (0..3).for_each(|_| turn(&mut event_loop));
    assert_eq!(outcome.wait().unwrap(), 1);
    assert_eq!(log.take().len(), 1);
}

#[test]
fn a_panic_of_what_a_watchdog_calls_ends_the_watchdog_alone() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let (end, ended) = mpsc::channel();
    let end = OnDrop(move || end.send(()).unwrap());
    let first = event_loop
        .start_watchdog(MS, move |_| {
            keep(&end);
            panic_any("as asked")
        })
        .unwrap();
    event_loop.call_soon(move || ended.recv().unwrap());
    turn(&mut event_loop);
    let (tell, told) = mpsc::channel();
    let second = event_loop.start_watchdog(MS, move |_| tell.send(()).unwrap()).unwrap();
    event_loop.call_soon(move || told.recv().unwrap());
    turn(&mut event_loop);
    drop((first, second));
}

#[test]
fn a_panic_of_a_hosts_callback_leaves_a_host_waker_that_can_be_dropped() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    if let Err(error) = event_loop.as_fd() {
        return println!("skipped: {error}");
    }
    let (end, ended) = mpsc::channel();
    let end = OnDrop(move || end.send(()).unwrap());
    let waker = HostWaker::new(&event_loop, move || {
        keep(&end);
        panic_any("as asked")
    })
    .unwrap();
    event_loop.call_soon(|| ());
    waker.arm(event_loop.prepare_wait());
    ended.recv().unwrap();
    waker.arm(event_loop.prepare_wait());
    drop(waker);
    turn(&mut event_loop);
}
