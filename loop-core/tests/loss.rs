//! Every public async function is dropped at every await point, right there and once it was woken again,
//! and loses what its documentation says, no more.

mod common;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::future::{pending, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

use common::{OnDrop, pair, reports, watchdog};
use loop_core::sync::{Barrier, Condition, Event, Lock, Queue, Semaphore};
use loop_core::{
    AutoJump, DelayQueue, EventLoop, FutureError, LoopFuture, LoopRef, Signal, Task, TaskGroup,
    as_completed, catch_cancelled, default_selector, gather, interrupted, on_cancel,
    raise_cancelled, shield, sleep, spawn, staggered_race, timeout, wait, yield_now,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Where a future is dropped.
#[derive(Debug, Clone, Copy)]
enum Drops {
    /// As soon as it is suspended.
    Suspended,
    /// When it is woken: whatever was handed to it has arrived.
    Woken,
}

/// Ends a future behind so many polls.
#[derive(Debug, Clone)]
struct Cut {
    polls: usize,
    drops: Drops,
}

impl Cut {
    /// The future's output; `None` if it was dropped.
    async fn run<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = Some(Box::pin(future));
        let mut left = self.polls;
        poll_fn(move |cx: &mut Context<'_>| {
            let Some(running) = future.as_mut().filter(|_| left > 0) else {
                future = None;
                return Poll::Ready(None);
            };
            left -= 1;
            match running.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if left == 0 && matches!(self.drops, Drops::Suspended) => {
                    future = None;
                    Poll::Ready(None)
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn never_polled(&self) -> bool {
        self.polls == 0
    }
}

type Scenario = fn(Cut) -> Pin<Box<dyn Future<Output = bool>>>;

/// Runs a scenario, which says whether the future came to its end, with every cut before that. Virtual
/// time makes a lost wake-up a deadlock, not a hang. How many await points there were.
fn at_every_point(name: &str, scenario: Scenario) -> usize {
    let mut points = 0;
    for drops in [Drops::Suspended, Drops::Woken] {
        for polls in 0.. {
            assert!(polls < 100, "{name} has no end");
            let time = AutoJump::new(default_selector().unwrap());
            let mut event_loop = EventLoop::builder().virtual_time(time).build().unwrap();
            let log = reports(&event_loop);
            let ended = event_loop.run_until_complete(scenario(Cut { polls, drops }));
            let ended =
                ended.unwrap_or_else(|error| panic!("{name} cut at {polls}, {drops:?}: {error}"));
            assert_eq!(log.take(), Vec::<String>::new(), "{name} cut at {polls}, {drops:?}");
            if ended {
                break;
            }
            points = points.max(polls);
        }
    }
    points
}

/// Spawns what completes by itself.
fn background<F: Future<Output = ()> + 'static>(future: F) {
    spawn(future).detach();
}

/// Enough iterations for everything that is ready to be done.
async fn settle() {
    for _ in 0..8 {
        yield_now().await;
    }
}

fn timers() -> usize {
    LoopRef::current().dump().timers.len()
}

async fn lock_acquire(cut: Cut) -> bool {
    let lock = Rc::new(Lock::new());
    let held = lock.acquire().await;
    let (ours, behind) = (lock.clone(), lock.clone());
    let cutting = spawn(async move { cut.run(ours.acquire()).await.is_some() });
    yield_now().await;
    let next = spawn(async move { drop(behind.acquire().await) });
    yield_now().await;
    drop(held);
    next.await.unwrap();
    let got = cutting.await.unwrap();
    assert!(!lock.is_locked());
    got
}

async fn semaphore_acquire(cut: Cut) -> bool {
    let semaphore = Rc::new(Semaphore::new(1));
    let permit = semaphore.acquire().await;
    let (ours, behind) = (semaphore.clone(), semaphore.clone());
    let cutting = spawn(async move { cut.run(ours.acquire()).await.is_some() });
    yield_now().await;
    let next = spawn(async move { drop(behind.acquire().await) });
    yield_now().await;
    drop(permit);
    next.await.unwrap();
    let got = cutting.await.unwrap();
    assert_eq!(semaphore.available(), 1);
    got
}

async fn semaphore_acquire_owned(cut: Cut) -> bool {
    let semaphore = Rc::new(Semaphore::new(1));
    let permit = semaphore.clone().acquire_owned().await;
    let (ours, behind) = (semaphore.clone(), semaphore.clone());
    let cutting = spawn(async move { cut.run(ours.acquire_owned()).await.is_some() });
    yield_now().await;
    let next = spawn(async move { drop(behind.acquire_owned().await) });
    yield_now().await;
    drop(permit);
    next.await.unwrap();
    let got = cutting.await.unwrap();
    assert_eq!((semaphore.available(), Rc::strong_count(&semaphore)), (1, 1));
    got
}

async fn event_wait(cut: Cut) -> bool {
    let event = Rc::new(Event::new());
    let (sets, other) = (event.clone(), event.clone());
    let other = spawn(async move { other.wait().await });
    background(async move {
        sleep(SECOND).await;
        sets.set();
    });
    let got = cut.run(event.wait()).await.is_some();
    other.await.unwrap();
    event.wait().await;
    got
}

/// One notification for two who wait: whoever is left gets it.
/// Signals are the process's: no other test of this file uses them.
async fn interrupted_or_not(cut: Cut) -> bool {
    let other = spawn(interrupted());
    yield_now().await;
    background(async {
        sleep(Duration::from_millis(1)).await;
        loop_selector::raise(Signal::TERM).unwrap();
    });
    let told = cut.run(interrupted()).await;
    assert_eq!(other.await.unwrap().unwrap(), Signal::TERM);
    assert!(!LoopRef::current().remove_signal_handler(Signal::TERM));
    told.is_some_and(|signal| signal.unwrap() == Signal::TERM)
}

async fn waiting_under_a_lock<F>(cut: Cut, wait: impl FnOnce(Rc<Shared>, Cut) -> F) -> bool
where
    F: Future<Output = bool> + 'static,
{
    let shared = Rc::new(Shared::default());
    let ours = spawn(wait(shared.clone(), cut));
    yield_now().await;
    let other = shared.clone();
    let other = spawn(async move {
        let guard = other.lock.acquire().await;
        drop(other.condition.wait(guard).await);
    });
    settle().await;
    shared.done.set(true);
    let guard = shared.lock.acquire().await;
    shared.condition.notify(&guard, 1);
    yield_now().await; // whoever was notified now waits for the lock
    drop(guard);
    settle().await;
    let got = ours.await.unwrap();
    if got {
        assert!(!other.is_done());
        let guard = shared.lock.acquire().await;
        shared.condition.notify(&guard, 1);
        drop(guard);
    }
    other.await.unwrap();
    assert!(!shared.lock.is_locked());
    got
}

#[derive(Default)]
struct Shared {
    lock: Lock,
    condition: Condition,
    done: Cell<bool>,
}

async fn condition_wait(cut: Cut) -> bool {
    waiting_under_a_lock(cut, async |shared, cut| {
        let guard = shared.lock.acquire().await;
        cut.run(shared.condition.wait(guard)).await.is_some()
    })
    .await
}

async fn condition_wait_while(cut: Cut) -> bool {
    waiting_under_a_lock(cut, async |shared, cut| {
        let guard = shared.lock.acquire().await;
        cut.run(shared.condition.wait_while(guard, || !shared.done.get())).await.is_some()
    })
    .await
}

async fn barrier_wait(cut: Cut) -> bool {
    let barrier = Rc::new(Barrier::new(2.try_into().unwrap()));
    let (late, again) = (barrier.clone(), barrier.clone());
    let other = spawn(async move {
        sleep(SECOND).await;
        late.wait().await
    });
    let got = cut.run(barrier.wait()).await;
    let entered = got.is_some();
    if !other.is_done() && !entered {
        // It waits for a second party, which is not the one that has left.
        settle().await;
        let third = spawn(async move { again.wait().await });
        third.await.unwrap().unwrap();
    }
    other.await.unwrap().unwrap();
    assert_eq!(barrier.n_waiting(), 0);
    entered
}

async fn queue_put(cut: Cut) -> bool {
    let queue = Rc::new(Queue::bounded(1.try_into().unwrap()));
    queue.try_put(0).unwrap();
    let (ours, other) = (queue.clone(), queue.clone());
    let cutting = spawn(async move { cut.run(ours.put(1)).await.is_some() });
    yield_now().await;
    let other = spawn(async move { other.put(2).await.unwrap() });
    yield_now().await;
    let mut got = vec![queue.get().await.unwrap()];
    settle().await;
    while let Ok(item) = queue.try_get() {
        got.push(item);
        settle().await;
    }
    other.await.unwrap();
    let put = cutting.await.unwrap();
    assert_eq!(got, if put { vec![0, 1, 2] } else { vec![0, 2] });
    put
}

async fn queue_get(cut: Cut) -> bool {
    let queue = Rc::new(Queue::new());
    let (ours, other) = (queue.clone(), queue.clone());
    let cutting = spawn(async move { cut.run(ours.get()).await.is_some() });
    yield_now().await;
    let other = spawn(async move { other.get().await.unwrap() });
    yield_now().await;
    queue.try_put(1).unwrap();
    let got = cutting.await.unwrap();
    if got {
        queue.try_put(2).unwrap();
    }
    assert_eq!(other.await.unwrap(), if got { 2 } else { 1 });
    got
}

async fn queue_join(cut: Cut) -> bool {
    let queue = Rc::new(Queue::new());
    queue.try_put(()).unwrap();
    let worker = queue.clone();
    background(async move {
        sleep(SECOND).await;
        worker.get().await.unwrap();
        worker.task_done();
    });
    let other = queue.clone();
    let other = spawn(async move { other.join().await });
    let got = cut.run(queue.join()).await.is_some();
    other.await.unwrap();
    got
}

async fn delay_queue_next(cut: Cut) -> bool {
    let queue = Rc::new(DelayQueue::new());
    queue.insert(1, SECOND);
    let other = queue.clone();
    let got = cut.run(queue.next()).await.is_some();
    let other = spawn(async move { other.next().await.map(|expired| expired.value) });
    assert_eq!(other.await.unwrap(), if got { None } else { Some(1) });
    assert_eq!(timers(), 0);
    got
}

fn two_tasks() -> [Task<u64>; 2] {
    [2, 1].map(|seconds| {
        spawn(async move {
            sleep(Duration::from_secs(seconds)).await;
            seconds
        })
    })
}

async fn as_completed_next(cut: Cut) -> bool {
    let mut tasks = as_completed(two_tasks());
    let first = cut.run(tasks.next()).await.flatten();
    let mut values = Vec::new();
    let ended = first.is_some();
    if let Some(task) = first {
        values.push(task.await.unwrap());
    }
    while let Some(task) = tasks.next().await {
        values.push(task.await.unwrap());
    }
    assert_eq!(values, [1, 2]);
    ended
}

async fn as_completed_within_next(cut: Cut) -> bool {
    let mut tasks = as_completed(two_tasks()).timeout(SECOND + SECOND / 2);
    let first = cut.run(tasks.next()).await.flatten();
    let mut values = Vec::new();
    let ended = first.is_some();
    let mut next = first;
    loop {
        match next {
            Some(Ok(task)) => values.push(Some(task.await.unwrap())),
            Some(Err(_)) => values.push(None),
            None if !values.is_empty() => break,
            None => {}
        }
        next = tasks.next().await;
    }
    assert_eq!(values, [Some(1), None]);
    ended
}

type Noted = OnDrop<Box<dyn FnMut()>>;

/// A counter and a value that adds to it when it is dropped.
fn dropped() -> (Rc<Cell<usize>>, impl Fn() -> Noted) {
    let count = Rc::new(Cell::new(0));
    let adds = count.clone();
    (count, move || {
        let adds = adds.clone();
        OnDrop(Box::new(move || adds.set(adds.get() + 1)))
    })
}

async fn staggered(cut: Cut) -> bool {
    let (count, guard) = dropped();
    let started = Rc::new(Cell::new(0));
    let attempts = [HOUR, 3 * SECOND, HOUR].map(|takes| {
        let (guard, started) = (guard(), started.clone());
        move || async move {
            let _guard = guard;
            started.set(started.get() + 1);
            sleep(takes).await;
            Ok::<_, ()>(takes)
        }
    });
    let outcome = cut.run(staggered_race(attempts, Some(SECOND))).await;
    assert_eq!(count.get(), 3);
    assert_eq!(timers(), 0);
    let at_the_end = started.get();
    settle().await;
    assert_eq!(started.get(), at_the_end);
    outcome.is_some()
}

async fn cancel_and_clean_up(cut: Cut) -> bool {
    let cleaned = Rc::new(Cell::new(false));
    let (count, guard) = dropped();
    let (sets, held) = (cleaned.clone(), guard());
    let future = async move {
        let _held = held;
        sleep(SECOND).await;
        sleep(SECOND).await;
    };
    let got = cut.run(on_cancel(future, async move { sets.set(true) })).await.is_some();
    assert_eq!((count.get(), cleaned.get(), timers()), (1, false, 0));
    got
}

/// It never returns, so the end is that of the task.
async fn propagate(cut: Cut) -> bool {
    let unpolled = cut.never_polled();
    let reached = Rc::new(Cell::new(false));
    let behind = reached.clone();
    let task = spawn(async move {
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        cut.run(cancelled.propagate()).await;
        // Undecided: the request is back, and arrives at the next suspension.
        behind.set(true);
        pending::<()>().await;
    });
    yield_now().await;
    task.cancel_with("enough");
    let error = task.await.unwrap_err();
    assert!(error.is_cancelled() && error.to_string().contains("enough"), "{error}");
    if unpolled {
        assert!(reached.get());
    }
    !unpolled
}

async fn raise(cut: Cut) -> bool {
    let unpolled = cut.never_polled();
    let task = spawn(async move {
        cut.run(raise_cancelled("enough")).await;
        yield_now().await;
    });
    match task.await {
        Ok(()) => assert!(unpolled),
        Err(error) => assert!(error.is_cancelled() && !unpolled),
    }
    !unpolled
}

/// A loop's own pool, and a job on it that ends when it is told to.
fn job() -> (mpsc::Sender<()>, loop_core::BlockingTask<()>) {
    let (go, waits) = mpsc::channel::<()>();
    (go, LoopRef::current().run_blocking(move || _ = waits.recv()))
}

async fn shutdown_default_executor(cut: Cut) -> bool {
    let lp = LoopRef::current();
    let (go, running) = job();
    lp.call_later(Duration::from_millis(1), move || drop(go));
    let unpolled = cut.never_polled();
    let got = cut.run(lp.shutdown_default_executor(None)).await.is_some();
    let more = lp.run_blocking(|| ()).await;
    assert_eq!(more.is_ok(), unpolled, "once polled, it refuses");
    running.await.unwrap();
    got
}

async fn blocking(cut: Cut) -> bool {
    let ran = Arc::new(AtomicUsize::new(0));
    let counts = ran.clone();
    let (started, has_started) = mpsc::channel();
    let (go, waits) = mpsc::channel::<()>();
    let task = LoopRef::current().run_blocking(move || {
        started.send(()).unwrap();
        let _ = waits.recv();
        counts.fetch_add(1, Ordering::SeqCst);
    });
    has_started.recv().unwrap();
    LoopRef::current().call_later(Duration::from_millis(1), move || drop(go));
    let got = cut.run(task).await.is_some();
    LoopRef::current().shutdown_default_executor(None).await.unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 1, "what has started runs to its end");
    got
}

async fn sleeping(cut: Cut) -> bool {
    let got = cut.run(sleep(SECOND)).await.is_some();
    assert_eq!(timers(), 0);
    got
}

async fn fd_ready(cut: Cut) -> bool {
    let (ours, theirs) = pair();
    let lp = LoopRef::current();
    background(async move {
        sleep(SECOND).await;
        std::io::Write::write_all(&mut &theirs, b"x").unwrap();
        sleep(HOUR).await;
    });
    let got = cut.run(lp.readable(&ours)).await.is_some();
    assert!(lp.dump().descriptors.is_empty());
    assert_eq!(Rc::strong_count(&ours), 1);
    lp.readable(&ours).await.unwrap();
    got
}

async fn future(cut: Cut) -> bool {
    let future: LoopFuture<u32, ()> = LoopRef::current().create_future();
    let (sets, ours) = (future.clone(), future.clone());
    background(async move {
        sleep(SECOND).await;
        sets.set_result(7).unwrap();
    });
    let got = cut.run(ours).await.is_some();
    assert_eq!(future.await, Ok(7));
    got
}

async fn future_into_result(cut: Cut) -> bool {
    let future: LoopFuture<u32, ()> = LoopRef::current().create_future();
    let (sets, ours) = (future.clone(), future.clone());
    background(async move {
        sleep(SECOND).await;
        sets.set_result(7).unwrap();
    });
    let got = cut.run(ours.into_result()).await;
    let left = if got.is_some() { Err(FutureError::InvalidState) } else { Ok(7) };
    assert_eq!(future.into_result().await, left);
    got.is_some()
}

async fn gathered(cut: Cut) -> bool {
    let tasks = two_tasks();
    let watched = tasks.each_ref().map(Task::task_ref);
    let unpolled = cut.never_polled();
    let got = cut.run(gather(tasks)).await.is_some();
    let had_ended = watched.each_ref().map(|task| task.is_done());
    for (task, had_ended) in watched.iter().zip(had_ended) {
        task.watch().await;
        assert_eq!(task.is_cancelled(), !got && !unpolled && !had_ended);
    }
    got
}

async fn waited(cut: Cut) -> bool {
    let tasks = two_tasks();
    let watched = tasks.each_ref().map(Task::task_ref);
    let got = cut.run(wait(tasks)).await.is_some();
    for task in &watched {
        task.watch().await;
        assert!(!task.is_cancelled());
    }
    got
}

async fn watch(cut: Cut) -> bool {
    let [task, _other] = two_tasks();
    let got = cut.run(task.watch()).await.is_some();
    assert_eq!(task.await.unwrap(), 2);
    got
}

async fn shielded(cut: Cut) -> bool {
    let [task, _other] = two_tasks();
    let watched = task.task_ref();
    let got = cut.run(shield(task)).await.is_some();
    watched.watch().await;
    assert!(!watched.is_cancelled());
    got
}

async fn timed_out(cut: Cut) -> bool {
    let (count, guard) = dropped();
    let held = guard();
    let inside = async move {
        let _held = held;
        sleep(SECOND).await;
        sleep(SECOND).await;
    };
    let got = cut.run(timeout(HOUR, inside)).await.is_some();
    assert_eq!((count.get(), timers()), (1, 0));
    got
}

async fn group_scope(cut: Cut) -> bool {
    let (count, guard) = dropped();
    let children = Rc::new(RefCell::new(Vec::new()));
    let (held, admits) = (guard(), children.clone());
    let scope = TaskGroup::scope(async move |group| {
        let _held = held;
        let child = group.spawn(async {
            sleep(2 * SECOND).await;
            Ok::<_, ()>(())
        });
        admits.borrow_mut().push(child.task_ref());
        sleep(SECOND).await;
        Ok(())
    });
    let got = cut.run(scope).await.is_some();
    assert_eq!(count.get(), 1);
    let children = children.take();
    for child in children {
        let had_ended = child.is_done();
        child.watch().await;
        assert_eq!(child.is_cancelled(), !got && !had_ended);
    }
    assert_eq!(timers(), 0);
    got
}

macro_rules! scenarios {
    ($($name:literal: $scenario:ident, $points:literal;)*) => {
        const SCENARIOS: &[(&str, Scenario, usize)] =
            &[$(($name, |cut| Box::pin($scenario(cut)), $points)),*];
    };
}

// How many await points there are at least.
scenarios! {
    "as_completed_next": as_completed_next, 1;
    "as_completed_within_next": as_completed_within_next, 1;
    "barrier_wait": barrier_wait, 1;
    "blocking": blocking, 1;
    "condition_wait": condition_wait, 2;
    "condition_wait_while": condition_wait_while, 2;
    "delay_queue_next": delay_queue_next, 1;
    "event_wait": event_wait, 1;
    "fd_ready": fd_ready, 1;
    "future": future, 1;
    "future_into_result": future_into_result, 1;
    "gather": gathered, 2;
    "group_scope": group_scope, 2;
    "interrupted": interrupted_or_not, 1;
    "lock_acquire": lock_acquire, 1;
    "on_cancel": cancel_and_clean_up, 2;
    "propagate": propagate, 0;
    "queue_get": queue_get, 1;
    "queue_join": queue_join, 1;
    "queue_put": queue_put, 1;
    "raise_cancelled": raise, 0;
    "semaphore_acquire": semaphore_acquire, 1;
    "semaphore_acquire_owned": semaphore_acquire_owned, 1;
    "shield": shielded, 1;
    "shutdown_default_executor": shutdown_default_executor, 1;
    "sleep": sleeping, 1;
    "staggered_race": staggered, 3;
    "timeout": timed_out, 2;
    "wait": waited, 1;
    "watch": watch, 1;
}

#[test]
fn what_is_dropped_at_any_await_point_loses_what_it_says_and_no_more() {
    let _watchdog = watchdog();
    for (name, scenario, expected) in SCENARIOS {
        let points = at_every_point(name, *scenario);
        assert!(points >= *expected, "{name} has {points} await points, not {expected}");
    }
}

/// The names in the table.
fn table() -> BTreeSet<String> {
    let names = include_str!("../src/loss.rs")
        .lines()
        .filter_map(|line| Some(line.strip_prefix("    (")?.strip_suffix(") => {")?.to_owned()));
    names.collect()
}

#[test]
fn every_entry_of_the_table_has_a_scenario() {
    let scenarios: BTreeSet<_> = SCENARIOS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert!(scenarios.len() > 20);
    assert_eq!(table(), scenarios);
}

fn sources(directory: &Path, visit: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, visit);
        } else {
            visit(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_public_async_function_has_an_entry_and_every_entry_a_place() {
    let mut used = BTreeSet::new();
    let mut functions = 0;
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut |path, text| {
        let mut lost = None;
        for line in text.lines().map(str::trim) {
            let by_hand = line.starts_with("pub fn ") && line.contains(" -> impl Future<");
            if let Some(name) = line.strip_prefix("#[doc = lost!(") {
                let name = name.strip_suffix(")]").unwrap().to_owned();
                assert!(used.insert(name.clone()), "{name} documents two things");
                lost = Some(name);
            } else if by_hand || line.starts_with("pub async fn ") {
                functions += 1;
                assert!(
                    lost.take().is_some(),
                    "{}: {line} does not say what is lost",
                    path.display()
                );
            } else if !line.starts_with("///") && !line.starts_with("#[") {
                lost = None;
            }
        }
    });
    assert!(functions >= 17, "{functions} functions found");
    assert_eq!(used, table());
}
