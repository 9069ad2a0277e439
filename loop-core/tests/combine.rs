//! gather, wait, as_completed and staggered_race.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{Trace, reports, turn, virtual_loop, watchdog};
use loop_core::{
    Elapsed, EventLoop, LoopFuture, LoopRef, Task, TaskError, VirtualClock, WaitUntil,
    as_completed, catch_cancelled, current_task, gather, gather_settled, sleep, spawn,
    staggered_race, try_gather, wait, yield_now,
};

const MS: Duration = Duration::from_millis(1);

/// Runs a body in virtual time, which moves to the next deadline of those that the bodies here use: one
/// millisecond at a time, whenever nothing is ready.
fn run_virtual<F: Future + 'static>(body: F) -> F::Output
where
    F::Output: 'static,
{
    let _watchdog = watchdog();
    let (mut event_loop, clock) = virtual_loop();
    let task = event_loop.spawn(body);
    drive(&mut event_loop, &clock, &task);
    task.take_result().unwrap().unwrap()
}

fn drive<T>(event_loop: &mut EventLoop, clock: &VirtualClock, task: &Task<T>) {
    while !task.is_done() {
        for _ in 0..10 {
            turn(event_loop);
        }
        clock.advance(MS);
    }
}

async fn after(millis: u32, value: u32) -> u32 {
    sleep(MS * millis).await;
    value
}

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A body that ends when the future it awaits does.
fn gate() -> (LoopFuture<()>, impl Future<Output = ()>) {
    let gate: LoopFuture<()> = LoopRef::current().create_future();
    let wait = gate.clone();
    (gate, async move { wait.await.unwrap() })
}

#[test]
fn b_gath_01_results_keep_the_order_of_the_tasks() {
    let results = run_virtual(async {
        gather([spawn(after(3, 1)), spawn(after(1, 2)), spawn(after(2, 3))]).await
    });
    assert_eq!(results.unwrap(), [1, 2, 3]);
}

#[test]
fn b_gath_02_nothing_is_gathered_at_once() {
    let mut none = gather(Vec::<Task<u32>>::new());
    assert!(!none.cancel());
    assert!(matches!(poll_once(none), Poll::Ready(Ok(list)) if list.is_empty()));
    assert_eq!(
        poll_once(gather_settled(Vec::<Task<u32>>::new())).map(|list| list.len()),
        Poll::Ready(0)
    );
}

#[test]
fn b_gath_03_the_first_error_ends_it_and_later_ones_count_as_read() {
    let (mut event_loop, clock) = virtual_loop();
    let reports = reports(&event_loop);
    let log = Trace::new();
    let trace = log.clone();
    let task = event_loop.spawn(async move {
        let fails = spawn(async {
            sleep(MS).await;
            panic!("first")
        });
        let late = spawn(async {
            sleep(2 * MS).await;
            panic!("second")
        });
        let runs_on = spawn(async move {
            sleep(3 * MS).await;
            trace.push("ran on");
        });
        let error = gather([runs_on, late, fails]).await.unwrap_err();
        trace_of(&error)
    });
    drive(&mut event_loop, &clock, &task);
    assert_eq!(task.take_result().unwrap().unwrap(), "panic \"first\"");
    assert!(log.take().is_empty());
    for _ in 0..5 {
        clock.advance(MS);
        turn(&mut event_loop);
        turn(&mut event_loop);
    }
    assert_eq!(log.take(), ["ran on"], "a failed gather asks nobody to end");
    assert!(event_loop.tasks().is_empty());
    assert_eq!(reports.take(), [""; 0], "neither failure is reported");
}

fn trace_of(error: &TaskError) -> String {
    error.to_string()
}

#[test]
fn b_gath_03_an_err_ends_a_gather_of_results() {
    let (outcome, survivors) = run_virtual(async {
        let slow = spawn(async {
            pending::<()>().await;
            Ok::<u32, std::io::Error>(1)
        });
        let fails = spawn(async {
            yield_now().await;
            Err(std::io::Error::other("no"))
        });
        let outcome = try_gather([slow, fails]).await;
        (outcome, LoopRef::current().tasks().len() - 1)
    });
    assert_eq!(outcome.unwrap_err().to_string(), "no");
    assert_eq!(survivors, 1);
    let error = run_virtual(async {
        let task = spawn(async { Ok::<u32, std::io::Error>(1) });
        task.cancel();
        try_gather([task]).await.unwrap_err()
    });
    assert!(error.to_string().contains("cancelled"), "{error}");
}

#[test]
fn b_gath_04_settled_errors_and_cancellations_are_items() {
    let outcomes = run_virtual(async {
        let cancelled = spawn(after(9, 9));
        cancelled.cancel_with("enough");
        gather_settled([spawn(after(1, 1)), cancelled, spawn(async { panic!("no") })]).await
    });
    assert_eq!(*outcomes[0].as_ref().unwrap(), 1);
    assert!(outcomes[1].as_ref().unwrap_err().is_cancelled());
    assert_eq!(outcomes[2].as_ref().unwrap_err().to_string(), "panic \"no\"");
}

#[test]
fn b_gath_05_a_child_cancelled_by_others_is_an_error_of_kind_cancelled() {
    let (error, parent, sibling) = run_virtual(async {
        let cancelled = spawn(after(9, 9));
        let sibling = spawn(async {
            pending::<()>().await;
            1
        });
        let sibling_ref = sibling.task_ref();
        let by_others = cancelled.task_ref();
        LoopRef::current().call_soon(move || {
            by_others.cancel();
        });
        let error = gather([cancelled, sibling]).await.unwrap_err();
        yield_now().await;
        (error, current_task().unwrap().is_cancelled(), sibling_ref.is_done())
    });
    assert!(error.is_cancelled());
    assert!(!parent && !sibling);
}

#[test]
fn b_gath_06_cancelling_asks_all_and_ends_cancelled() {
    run_virtual(async {
        let mut all = gather([spawn(after(1, 1)), spawn(after(50, 2)), spawn(after(50, 3))]);
        assert!(poll_once(&mut all).is_pending());
        sleep(2 * MS).await;
        let before = LoopRef::current().now();
        assert!(all.cancel());
        assert!(all.await.unwrap_err().is_cancelled());
        assert_eq!(LoopRef::current().now(), before, "nothing was waited for");
        yield_now().await;
        assert_eq!(LoopRef::current().tasks().len(), 1, "every child has ended");

        let mut all = gather_settled([spawn(after(1, 1)), spawn(after(50, 2))]);
        assert!(poll_once(&mut all).is_pending());
        sleep(2 * MS).await;
        assert!(all.cancel());
        let outcomes = all.await;
        assert_eq!(*outcomes[0].as_ref().unwrap(), 1, "what was there is not lost");
        assert!(outcomes[1].as_ref().unwrap_err().is_cancelled());
    });
}

#[test]
fn b_gath_06_children_that_swallow_make_no_results_of_a_cancelled_gather() {
    run_virtual(async {
        let stubborn = |value| {
            spawn(async move {
                catch_cancelled(pending::<()>()).await.unwrap_err().swallow();
                sleep(2 * MS).await;
                value
            })
        };
        let mut all = gather([stubborn(1), stubborn(2)]);
        assert!(poll_once(&mut all).is_pending());
        yield_now().await;
        assert!(all.cancel());
        assert!(all.await.unwrap_err().is_cancelled());
        let mut all = gather_settled([stubborn(1), stubborn(2)]);
        assert!(poll_once(&mut all).is_pending());
        yield_now().await;
        assert!(all.cancel());
        assert!(all.await.into_iter().map(Result::unwrap).eq([1, 2]));
    });
}

#[test]
fn b_gath_06_dropping_a_gather_that_waits_cancels_its_children() {
    run_virtual(async {
        let children = [spawn(after(50, 1)), spawn(after(50, 2))];
        let refs = children.each_ref().map(Task::task_ref);
        let mut all = gather(children);
        assert!(poll_once(&mut all).is_pending());
        drop(all);
        yield_now().await;
        yield_now().await;
        assert!(refs.iter().all(|child| child.is_cancelled()));

        let child = spawn(after(5, 1));
        let child_ref = child.task_ref();
        drop(gather([child]));
        sleep(9 * MS).await;
        assert!(child_ref.is_done() && !child_ref.is_cancelled(), "one never polled lets them run");
    });
}

#[test]
fn b_gath_06_cancelling_the_task_that_gathers_cancels_the_children() {
    run_virtual(async {
        let children = [spawn(after(50, 1)), spawn(after(50, 2))];
        let refs = children.each_ref().map(Task::task_ref);
        let parent = spawn(gather(children));
        sleep(MS).await;
        parent.cancel();
        assert!(parent.await.unwrap_err().is_cancelled());
        yield_now().await;
        assert!(refs.iter().all(|child| child.is_cancelled()));
    });
}

#[test]
fn b_gath_07_cancel_after_the_end_touches_nobody() {
    run_virtual(async {
        let done = spawn(after(1, 1));
        done.watch().await;
        let mut all = gather([done]);
        assert!(!all.cancel());
        assert_eq!((&mut all).await.unwrap(), [1]);

        let survivor = spawn(after(5, 1));
        let survivor_ref = survivor.task_ref();
        let fails = spawn(async { panic!("no") });
        let mut all = gather([survivor, fails]);
        assert!((&mut all).await.is_err());
        assert!(!all.cancel());
        sleep(9 * MS).await;
        assert!(survivor_ref.is_done() && !survivor_ref.is_cancelled());
    });
}

#[test]
fn b_gath_09_a_task_of_another_loop_or_the_task_itself_is_an_error() {
    let foreign_loop = EventLoop::new().unwrap();
    let foreign = [foreign_loop.spawn(async { 1 }), foreign_loop.spawn(async { 2 })];
    run_virtual(async move {
        let [first, second] = foreign;
        let ours = spawn(after(1, 3));
        assert!(matches!(gather([ours, first]).await, Err(TaskError::WrongLoop)));
        let outcomes = gather_settled([spawn(after(1, 3)), second]).await;
        assert!(outcomes[0].is_ok());
        assert!(matches!(outcomes[1], Err(TaskError::WrongLoop)));
    });
    assert_eq!(foreign_loop.tasks().len(), 2, "nobody was asked to end");

    run_virtual(async {
        let slot = Rc::new(RefCell::new(None));
        let itself = slot.clone();
        let task = spawn(async move {
            yield_now().await;
            let itself: Task<()> = itself.take().unwrap();
            assert!(matches!(gather([itself]).await, Err(TaskError::AwaitsItself)));
        });
        let watched = task.task_ref();
        slot.replace(Some(task));
        watched.watch().await;
        assert!(!watched.is_cancelled());
    });
}

#[test]
fn a_gather_of_many_is_polled_once_an_iteration_in_which_any_ended() {
    struct CountPolls<F>(F, Rc<Cell<usize>>);
    impl<F: Future + Unpin> Future for CountPolls<F> {
        type Output = F::Output;
        fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
            self.1.set(self.1.get() + 1);
            std::pin::Pin::new(&mut self.0).poll(cx)
        }
    }
    let polls = Rc::new(Cell::new(0));
    let count = polls.clone();
    let sum = run_virtual(async move {
        let tasks = (0..1000).map(|n| spawn(after(n % 2, n)));
        let results = CountPolls(gather(tasks), count).await.unwrap();
        results.iter().sum::<u32>()
    });
    assert_eq!(sum, 499_500);
    // The first poll, and one for each of the two moments in which five hundred ended.
    assert_eq!(polls.get(), 3);
}

#[test]
fn b_wait_01_nothing_to_wait_for_is_over_at_once() {
    for until in [WaitUntil::FirstCompleted, WaitUntil::FirstException, WaitUntil::AllCompleted] {
        let waited = poll_once(wait(Vec::<Task<u32>>::new()).until(until));
        let Poll::Ready(waited) = waited else { panic!("{until:?}") };
        assert!(waited.done.is_empty() && waited.pending.is_empty());
    }
}

#[test]
fn b_wait_02_both_lists_are_disjoint_in_input_order_and_raise_nothing() {
    run_virtual(async {
        let tasks = [
            spawn(after(3, 1)),
            spawn(after(50, 2)),
            spawn(after(2, 3)),
            spawn(async { panic!("no") }),
        ];
        let ids = tasks.each_ref().map(Task::id);
        let waited = wait(tasks).timeout(9 * MS).await;
        let done: Vec<u64> = waited.done.iter().map(Task::id).collect();
        let pending: Vec<u64> = waited.pending.iter().map(Task::id).collect();
        assert_eq!((done, pending), (vec![ids[0], ids[2], ids[3]], vec![ids[1]]));
        let mut outcomes = waited.done.into_iter();
        assert_eq!(outcomes.next().unwrap().await.unwrap(), 1);
        assert_eq!(outcomes.next().unwrap().await.unwrap(), 3);
        assert!(outcomes.next().unwrap().await.is_err());
    });
}

#[test]
fn b_wait_03_first_completed_gives_all_that_are_done_by_then() {
    run_virtual(async {
        let tasks = [spawn(after(1, 1)), spawn(after(1, 2)), spawn(after(50, 3))];
        let waited = wait(tasks).until(WaitUntil::FirstCompleted).await;
        assert_eq!((waited.done.len(), waited.pending.len()), (2, 1));

        let ended = spawn(after(1, 1));
        ended.watch().await;
        let both = wait([spawn(after(50, 2)), ended]).until(WaitUntil::FirstCompleted);
        let Poll::Ready(waited) = poll_once(both) else { panic!("one had ended before") };
        assert_eq!(waited.done.len(), 1);
    });
}

#[test]
fn b_wait_04_first_exception_is_no_cancellation() {
    run_virtual(async {
        let cancelled = spawn(after(50, 1));
        cancelled.cancel();
        let panics = spawn(async {
            sleep(3 * MS).await;
            panic!("no")
        });
        let before = LoopRef::current().now();
        let waited = wait([cancelled, panics, spawn(after(50, 2)), spawn(after(1, 3))])
            .until(WaitUntil::FirstException)
            .await;
        assert_eq!(LoopRef::current().now() - before, 3 * MS);
        assert_eq!((waited.done.len(), waited.pending.len()), (3, 1));

        let error = spawn(async {
            sleep(MS).await;
            Err::<(), ()>(())
        });
        let slow = spawn(async {
            sleep(5 * MS).await;
            Ok(())
        });
        let waited = wait([error, slow]).until(WaitUntil::FirstException).count_errors().await;
        assert_eq!(waited.done.len(), 1, "an Err counts when it is said to");
        let rest = wait(waited.pending).until(WaitUntil::FirstException).await;
        assert_eq!(rest.done.len(), 1, "without an exception it waits for all");
    });
}

#[test]
fn b_wait_05_neither_timeout_nor_drop_asks_anybody_to_end() {
    run_virtual(async {
        let tasks = [spawn(after(5, 1)), spawn(after(6, 2))];
        let refs = tasks.each_ref().map(Task::task_ref);
        let waited = wait(tasks).timeout(MS).await;
        assert!(waited.done.is_empty());
        // These were awaited before, which alone would pass the drop on to them.
        let mut pending = waited.pending;
        assert!(poll_once(&mut pending[0]).is_pending());
        let mut again = wait(pending);
        assert!(poll_once(&mut again).is_pending());
        drop(again);
        sleep(9 * MS).await;
        assert!(refs.iter().all(|task| task.is_done() && !task.is_cancelled()));
    });
}

#[test]
fn b_wait_06_nothing_is_left_behind_on_any_way_out() {
    run_virtual(async {
        let (open, body) = gate();
        let mut long = vec![spawn(body)];
        let owner = Rc::new(());
        for _ in 0..100 {
            // A waker that is kept anywhere keeps its task's `owner`.
            let keep = owner.clone();
            let waited = spawn(async move {
                let _keep = keep;
                wait(long).timeout(Duration::ZERO).await
            });
            long = waited.await.unwrap().pending;
        }
        assert_eq!(Rc::strong_count(&owner), 1);
        let mut first = wait(long).until(WaitUntil::FirstCompleted);
        assert!(poll_once(&mut first).is_pending());
        open.set_result(()).unwrap();
        assert_eq!(first.await.done.len(), 1);
    });
}

#[test]
fn b_wait_06_what_a_wait_leaves_in_a_task_does_not_grow() {
    // bpo-36613 in CPython's tracker: `wait` left callbacks on long-lived futures.
    run_virtual(async {
        let mut long = vec![spawn(pending::<()>())];
        let round = |long: Vec<Task<()>>| {
            let mut waiting = wait(long).timeout(Duration::ZERO);
            let Poll::Ready(waited) = poll_once(&mut waiting) else { panic!("zero waits") };
            waited.pending
        };
        long = round(long);
        let counted = allocation_counter::measure(|| {
            for _ in 0..1000 {
                long = round(std::mem::take(&mut long));
            }
        });
        assert_eq!(counted.bytes_current, 0);
    });
}

#[test]
fn b_asc_01_items_come_in_the_order_of_their_ends() {
    run_virtual(async {
        let tasks =
            [spawn(after(3, 1)), spawn(after(1, 2)), spawn(after(2, 3)), spawn(after(1, 4))];
        let mut ended = as_completed(tasks);
        let mut order = Vec::new();
        while let Some(task) = ended.next().await {
            assert!(task.is_done());
            order.push(task.await.unwrap());
        }
        assert_eq!(order, [2, 4, 3, 1]);
        assert!(ended.next().await.is_none());
    });
}

#[test]
fn b_asc_02_the_very_tasks_come_back() {
    run_virtual(async {
        let tasks = [spawn(after(1, 1)), spawn(after(2, 2))];
        let ids = tasks.each_ref().map(Task::id);
        tasks[1].set_name("second");
        let mut ended = as_completed(tasks);
        assert_eq!(ended.next().await.unwrap().id(), ids[0]);
        let second = ended.next().await.unwrap();
        assert_eq!((second.id(), &*second.name()), (ids[1], "second"));
    });
}

#[test]
fn b_asc_03_after_the_timeout_each_that_is_left_is_elapsed() {
    run_virtual(async {
        let tasks = [spawn(after(50, 1)), spawn(after(1, 2)), spawn(after(60, 3))];
        let refs = tasks.each_ref().map(Task::task_ref);
        let mut ended = as_completed(tasks).timeout(5 * MS);
        assert_eq!(ended.next().await.unwrap().unwrap().await.unwrap(), 2);
        assert_eq!(ended.next().await.unwrap().unwrap_err(), Elapsed);
        assert_eq!(ended.next().await.unwrap().unwrap_err(), Elapsed);
        assert!(ended.next().await.is_none());
        let late = ended.into_rest();
        assert_eq!(late.iter().map(Task::id).collect::<Vec<_>>(), [refs[0].id(), refs[2].id()]);
        assert!(late.iter().all(|task| !task.is_done()));
        assert_eq!(wait(late).await.done.len(), 2, "they were not asked to end");
    });
    // What has ended by the time is handed out, also if it is only asked for later.
    run_virtual(async {
        let mut ended = as_completed([spawn(after(1, 1)), spawn(after(9, 2))]).timeout(5 * MS);
        assert!(poll_once(ended.next()).is_pending());
        sleep(7 * MS).await;
        assert!(ended.next().await.unwrap().is_ok());
        assert!(ended.next().await.unwrap().is_err());
    });
}

#[test]
fn b_asc_03_an_unused_timeout_leaves_no_timer() {
    let (mut event_loop, clock) = virtual_loop();
    let task = event_loop.spawn(async {
        let mut ended = as_completed([spawn(after(1, 1))]).timeout(3600 * 1000 * MS);
        assert!(ended.next().await.unwrap().is_ok());
        ended
    });
    drive(&mut event_loop, &clock, &task);
    let _unfinished = task.take_result();
    let before = std::time::Instant::now();
    // With a timer alive this would be the wait until it.
    event_loop.call_later(MS, || ());
    clock.advance(MS);
    event_loop.run_once(None).unwrap();
    assert!(before.elapsed() < Duration::from_secs(60));
}

#[test]
fn b_asc_04_it_may_pause_and_resume() {
    run_virtual(async {
        let mut ended = as_completed((0..4).map(|n| spawn(after(n, n))));
        assert_eq!(ended.next().await.unwrap().await.unwrap(), 0);
        sleep(2 * MS).await; // two more end meanwhile
        let (second, third) = (ended.next().await.unwrap(), ended.next().await.unwrap());
        let fourth = ended.next().await.unwrap();
        assert_eq!(fourth.await.unwrap(), 3, "out of order");
        assert_eq!(third.await.unwrap(), 2);
        assert_eq!(second.await.unwrap(), 1);
    });
}

#[test]
fn dropping_the_stream_of_as_completed_lets_the_tasks_run_on() {
    run_virtual(async {
        // Awaited before, which alone would pass the drop on to them.
        let awaited = |value| {
            let mut task = spawn(after(5, value));
            assert!(poll_once(&mut task).is_pending());
            task
        };
        let tasks = [awaited(1), awaited(2), awaited(3)];
        let refs = tasks.each_ref().map(Task::task_ref);
        let [one, two, three] = tasks;
        let mut ended = as_completed([one]);
        assert!(poll_once(ended.next()).is_pending());
        drop(ended);
        // With a limit, before it has passed and after.
        let mut ended = as_completed([two]).timeout(MS);
        assert!(poll_once(ended.next()).is_pending());
        drop(ended);
        let mut ended = as_completed([three]).timeout(MS);
        assert!(ended.next().await.unwrap().is_err());
        drop(ended);
        sleep(9 * MS).await;
        assert!(refs.iter().all(|task| task.is_done() && !task.is_cancelled()));
    });
}

#[test]
fn into_rest_gives_back_what_was_not_handed_out() {
    run_virtual(async {
        let tasks = [spawn(after(9, 1)), spawn(after(1, 2)), spawn(after(8, 3))];
        let ids = tasks.each_ref().map(Task::id);
        let mut ended = as_completed(tasks);
        assert_eq!(ended.next().await.unwrap().id(), ids[1]);
        let rest = ended.into_rest();
        assert_eq!(rest.iter().map(Task::id).collect::<Vec<_>>(), [ids[0], ids[2]]);
        let ended = as_completed(rest).timeout(20 * MS);
        assert_eq!(gather(ended.into_rest()).await.unwrap(), [1, 3]);
    });
}

#[test]
fn a_watch_neither_owns_nor_asks() {
    run_virtual(async {
        let task = spawn(after(5, 7));
        let watcher = spawn(task.watch());
        yield_now().await;
        watcher.cancel();
        assert!(watcher.await.unwrap_err().is_cancelled());
        assert!(!task.is_done());
        let by_ref = task.task_ref();
        by_ref.watch().await;
        task.watch().await;
        assert_eq!(task.take_result().unwrap().unwrap(), 7);
        by_ref.watch().await;
    });
}

#[test]
fn a_task_that_watches_itself_is_told_so() {
    run_virtual(async {
        let task = spawn(async { current_task().unwrap().watch().await });
        let error = task.await.unwrap_err();
        assert!(error.to_string().contains("awaits itself"), "{error}");
    });
}

/// An attempt that notes when it starts and ends.
fn attempt(
    trace: &Trace,
    name: &'static str,
    millis: u32,
    outcome: Result<u32, &'static str>,
) -> impl FnOnce() -> std::pin::Pin<Box<dyn Future<Output = Result<u32, &'static str>>>> + use<> {
    let trace = trace.clone();
    move || {
        let start = LoopRef::current().now();
        trace.push(format!("{name} starts"));
        let on_drop = common::OnDrop({
            let trace = trace.clone();
            move || {
                let passed = LoopRef::current().now() - start;
                trace.push(format!("{name} over after {}", passed.as_millis()));
            }
        });
        Box::pin(async move {
            let _on_drop = on_drop;
            sleep(MS * millis).await;
            outcome
        })
    }
}

#[test]
fn a_race_starts_the_next_after_the_delay_and_drops_the_losers() {
    let trace = Trace::new();
    let log = trace.clone();
    let race = run_virtual(async move {
        let attempts = [
            attempt(&log, "a", 50, Ok(1)),
            attempt(&log, "b", 10, Ok(2)),
            attempt(&log, "c", 50, Ok(3)),
        ];
        staggered_race(attempts, Some(20 * MS)).await
    });
    assert_eq!((race.winner, race.errors), (Some((1, 2)), vec![]));
    assert_eq!(trace.take(), ["a starts", "b starts", "b over after 10", "a over after 30"]);
}

#[test]
fn a_race_starts_the_next_at_once_when_the_last_one_fails() {
    let trace = Trace::new();
    let log = trace.clone();
    let race = run_virtual(async move {
        let attempts = [
            attempt(&log, "a", 15, Err("a")),
            attempt(&log, "b", 1, Err("b")),
            attempt(&log, "c", 5, Ok(3)),
            // Not started by the failure of the first one: it was not the last started.
            attempt(&log, "d", 0, Ok(4)),
        ];
        staggered_race(attempts, Some(10 * MS)).await
    });
    assert_eq!((race.winner, race.errors), (Some((2, 3)), vec![(1, "b"), (0, "a")]));
    assert_eq!(
        trace.take(),
        ["a starts", "b starts", "b over after 1", "c starts", "a over after 15", "c over after 5"]
    );
}

#[test]
fn a_race_without_a_delay_goes_on_only_after_failures() {
    let trace = Trace::new();
    let log = trace.clone();
    let race = run_virtual(async move {
        let attempts = [
            attempt(&log, "a", 5, Err("a")),
            attempt(&log, "b", 0, Err("b")),
            attempt(&log, "c", 5, Err("c")),
        ];
        staggered_race(attempts, None).await
    });
    assert_eq!((race.winner, race.errors), (None, vec![(0, "a"), (1, "b"), (2, "c")]));
    type Never = fn() -> std::future::Ready<Result<(), ()>>;
    let none: [Never; 0] = [];
    let Poll::Ready(race) = poll_once(staggered_race(none, None)) else { panic!("nothing runs") };
    assert!(race.winner.is_none() && race.errors.is_empty());
}

#[test]
fn a_race_that_is_dropped_drops_its_attempts() {
    let trace = Trace::new();
    let log = trace.clone();
    run_virtual(async move {
        let attempts = [attempt(&log, "a", 50, Ok(1)), attempt(&log, "b", 50, Ok(2))];
        let race = spawn(staggered_race(attempts, Some(5 * MS)));
        sleep(10 * MS).await;
        race.cancel();
        assert!(race.await.unwrap_err().is_cancelled());
    });
    assert_eq!(trace.take(), ["a starts", "b starts", "a over after 10", "b over after 5"]);
}
