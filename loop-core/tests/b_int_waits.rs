//! What a dump calls each kind of wait.

mod common;

use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use common::{pair, turn, watchdog};
use loop_core::sync::{Barrier, Condition, Event, Lock, Queue, Semaphore};
use loop_core::{
    DelayQueue, Dump, EventLoop, LoopRef, Task, TaskGroup, WaitsFor, gather, shield, sleep, wait,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Runs a few iterations and tells what the task waits for, as the text has it.
fn waits_for<T>(event_loop: &mut EventLoop, task: &Task<T>) -> String {
    task.set_name("waiter");
    (0..4).for_each(|_| turn(event_loop));
    let text = event_loop.dump().to_string();
    let line = text.lines().find(|line| line.contains("waiter: waits for ")).unwrap();
    let start = line.find("waits for ").unwrap() + "waits for ".len();
    line[start..line.find("; spawned").unwrap()].to_owned()
}

/// The same, for something that is made and awaited by the task itself.
fn waits_in<F: Future<Output = ()> + 'static>(body: F) -> String {
    let mut event_loop = EventLoop::new().unwrap();
    let task = event_loop.spawn(body);
    let text = waits_for(&mut event_loop, &task);
    event_loop.set_exception_handler(Some(Rc::new(|_, _| ()))); // it never ends
    text
}

/// Of `kind`, created in this file, at any place.
fn assert_object(text: &str, kind: &str) {
    let start = format!("{kind} created at {}:", file!());
    assert!(text.starts_with(&start) && !text.contains(" or "), "{text:?} is no {kind}");
}

#[test]
fn b_int_03_each_primitive_has_a_name() {
    assert_object(&waits_in(async { Event::new().wait().await }), "event");
    assert_object(&waits_in(async { drop(Semaphore::new(0).acquire().await) }), "semaphore");
    assert_object(
        &waits_in(async {
            let lock = Lock::new();
            let _held = lock.acquire().await;
            drop(lock.acquire().await);
        }),
        "lock",
    );
    assert_object(
        &waits_in(async {
            let (lock, condition) = (Lock::new(), Condition::new());
            drop(condition.wait(lock.acquire().await).await);
        }),
        "condition",
    );
    let two = 2.try_into().unwrap();
    assert_object(&waits_in(async move { _ = Barrier::new(two).wait().await }), "barrier");
    assert_object(&waits_in(async { _ = Queue::<u8>::default().get().await }), "item of a queue");
    assert_object(
        &waits_in(async {
            let queue = Queue::bounded(1.try_into().unwrap());
            queue.put(1).await.unwrap();
            queue.put(2).await.unwrap();
        }),
        "room in a queue",
    );
    assert_object(
        &waits_in(async {
            let queue = Queue::new();
            queue.try_put(1).unwrap();
            queue.join().await;
        }),
        "end of a queue's work",
    );
    assert_object(
        &waits_in(async { drop(LoopRef::current().create_future::<(), ()>().await) }),
        "future",
    );
}

#[test]
fn b_int_03_a_delay_queue_names_all_who_wait() {
    let mut event_loop = EventLoop::new().unwrap();
    let queue = Rc::new(DelayQueue::on(&event_loop));
    queue.insert((), HOUR);
    let (first, second) = (queue.clone(), queue);
    let keeper = event_loop.spawn(async move { _ = first.next().await });
    let other = event_loop.spawn(async move { _ = second.next().await });
    assert_object(&waits_for(&mut event_loop, &other), "delay queue");
    other.set_name("other");
    let text = waits_for(&mut event_loop, &keeper);
    assert!(
        text.starts_with("delay queue created at") && text.contains(" or a timer in "),
        "{text}"
    );
}

#[test]
fn b_int_03_a_wait_for_a_descriptor_names_it() {
    let mut event_loop = EventLoop::new().unwrap();
    let (ours, _theirs) = pair();
    let fd = ours.as_raw_fd();
    let readable = event_loop.readable(&ours);
    let task = event_loop.spawn(async { drop(readable.await) });
    assert_eq!(waits_for(&mut event_loop, &task), format!("fd {fd} to be ready for reading"));
    let dump = event_loop.dump();
    assert!(matches!(
        dump.task(task.id()).unwrap().waits_for[..],
        [WaitsFor::Descriptor { fd: named, interest }] if named == fd && interest.is_readable()
    ));
    let json = format!("{{\"kind\":\"descriptor\",\"fd\":{fd},\"read\":true,\"write\":false}}");
    assert!(dump.to_json().contains(&json));
}

#[test]
fn b_int_03_blocking_work_is_named_by_where_it_was_asked_for() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let job = event_loop.run_blocking(move || wait.recv());
    let task = event_loop.spawn(async { drop(job.await) });
    assert_object(&waits_for(&mut event_loop, &task), "blocking work");
    drop(go);
    event_loop.run_until_complete(task).unwrap().unwrap();
}

/// The names of those who await `task` at this moment.
fn awaiters(dump: &Dump, id: u64) -> Vec<String> {
    dump.awaiters(id).map(|task| task.name.clone()).collect()
}

#[test]
fn b_int_01_every_way_to_wait_for_tasks_makes_an_edge_and_removes_it() {
    type Waits = fn(Task<()>) -> std::pin::Pin<Box<dyn Future<Output = ()>>>;
    let ways: [(&str, Waits); 6] = [
        ("direct", |task| Box::pin(async { drop(task.await) })),
        ("watch", |task| Box::pin(async move { task.watch().await })),
        ("gather", |task| Box::pin(async { drop(gather([task]).await) })),
        ("wait", |task| Box::pin(async { drop(wait([task]).await) })),
        ("shield", |task| Box::pin(async { drop(shield(task).await) })),
        ("catch", |task| {
            Box::pin(async { drop(loop_core::catch_cancelled(async { drop(task.await) }).await) })
        }),
    ];
    for (name, waits) in ways {
        let mut event_loop = EventLoop::new().unwrap();
        let stop = Rc::new(Event::new());
        let stopped = stop.clone();
        let leaf = event_loop.spawn(async move { stopped.wait().await });
        let id = leaf.id();
        let waiter = event_loop.spawn(waits(leaf));
        waiter.set_name(name);
        (0..2).for_each(|_| turn(&mut event_loop));
        assert_eq!(awaiters(&event_loop.dump(), id), [name]);
        stop.set();
        event_loop.run_until_complete(waiter).unwrap().unwrap();
        assert!(event_loop.dump().tasks.is_empty(), "{name}");
    }
}

async fn until(event: Rc<Event>) -> Result<(), ()> {
    event.wait().await;
    Ok(())
}

#[test]
fn b_int_01_a_group_awaits_its_children_from_their_start_to_their_end() {
    let mut event_loop = EventLoop::new().unwrap();
    let stop = Rc::new(Event::new());
    let (one, two) = (stop.clone(), stop.clone());
    let parent = event_loop.spawn(async move {
        TaskGroup::scope(async |group| {
            group.spawn(until(one)).set_name("one");
            group.spawn(until(two)).set_name("two");
            sleep(HOUR).await;
            Ok::<_, ()>(())
        })
        .await
    });
    parent.set_name("parent");
    (0..3).for_each(|_| turn(&mut event_loop));
    let text = event_loop.dump().to_string();
    let tree: Vec<_> = text.lines().map(|line| line.split(" waits for").next().unwrap()).collect();
    assert_eq!(tree[2..5], ["  parent:", "    one:", "    two:"]);
    assert!(text.contains("parent: waits for one or two or a timer in "), "{text}");
    stop.set();
    (0..3).for_each(|_| turn(&mut event_loop));
    let dump = event_loop.dump();
    assert_eq!(dump.tasks.len(), 1);
    assert!(matches!(dump.tasks[0].waits_for[..], [WaitsFor::Timer(_)]), "{dump}");
    parent.cancel();
    assert!(event_loop.run_until_complete(parent).unwrap().unwrap_err().is_cancelled());
}
