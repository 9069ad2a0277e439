//! Introspection: dumps and call graphs.

mod common;

use std::cell::Cell;
use std::future::pending;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::{pair, turn, virtual_loop, watchdog};
use loop_core::sync::{Event, Lock};
use loop_core::{
    CallGraph, EventLoop, LoopError, LoopFuture, LoopRef, Task, TaskGroup, WaitsFor, call_graph,
    current_task, dump_all, gather, run, sleep, spawn, timeout, yield_now,
};

const SECOND: Duration = Duration::from_secs(1);

/// A report with this file's lines as distances from `line`.
fn normalized(text: &str, line: u32) -> String {
    let mut text = text.replace(file!(), "FILE");
    for distance in (0..80).rev() {
        text = text.replace(&format!("FILE:{}:", line + distance), &format!("+{distance}:"));
    }
    text
}

fn named<T>(name: &str, task: Task<T>) -> Task<T> {
    task.set_name(name);
    task
}

/// A program with a group, a gather, a wait for a lock and a timer.
#[test]
fn b_int_03_dump_shows_who_awaits_whom_as_text_and_as_json() {
    let (mut event_loop, _clock) = virtual_loop();
    event_loop.set_debug(true); // for who holds the lock
    let (ours, _theirs) = pair();
    let line = line!();
    event_loop.add_reader(&ours, || ()).unwrap();
    event_loop.call_later(3600 * SECOND, || ());
    let lock = Rc::new(Lock::new());
    let held = lock.clone();
    let holder = event_loop.spawn(async move {
        let _held = held.acquire().await;
        sleep(90 * SECOND).await;
    });
    let waiter = event_loop.spawn(async move { drop(lock.acquire().await) });
    let future: LoopFuture<()> = event_loop.create_future();
    let reply = event_loop.spawn(async move { future.await.unwrap() });
    let (a, b) = (named("holder", holder), named("waiter", waiter));
    let pair = named("pair", event_loop.spawn(async { gather([a, b]).await.map(drop) }));
    let reply = named("reply", reply);
    let main = event_loop.spawn(async move {
        spawn(pending::<()>()).set_name("lonely");
        let also = reply.task_ref();
        let watcher = named("watcher", spawn(async move { also.watch().await }));
        TaskGroup::scope(async |group| {
            let member = group.spawn(async move { pair.await.map(drop).map_err(drop) });
            member.set_name("member");
            let _ = (reply.await, watcher.await);
            Ok(())
        })
        .await
    });
    main.set_name("main");
    (0..4).for_each(|_| turn(&mut event_loop));

    let dump = event_loop.dump();
    let text = normalized(&dump.to_string(), line);
    let text = text.replace(&format!("event loop {} on", dump.loop_id), "event loop 1 on");
    let text = text.replace(event_loop.selector_name(), "selector");
    let fd = ours.as_raw_fd();
    let expected = format!(
        "\
event loop 1 on selector, not running, 0 ready
tasks: 8
  main: waits for reply or member; spawned at +15:27
    reply: waits for future created at +10:45; spawned at +11:28
    member: waits for pair; spawned at +20:32
      pair: waits for holder or waiter; spawned at +13:41
        holder: waits for a timer in 90s; spawned at +5:29
        waiter: waits for lock created at +3:24 and held by holder; spawned at +9:29
  lonely: waits for something without a name; spawned at +16:9
  watcher: waits for reply; spawned at +18:40
    reply (above)
timers: 2
  in 90s: wakes holder
  in 3600s: b_int::b_int_03_dump_shows_who_awaits_whom_as_text_and_as_json::{{{{closure}}}} \
         scheduled at +2:16
descriptors: 1
  {fd}: reading, reader added at +1:16
"
    );
    assert_eq!(text, expected);

    let json = normalized(&dump.to_json(), line);
    let id = |name: &str| dump.tasks.iter().find(|task| task.name == name).unwrap().id;
    let (holder, waiter) = (id("holder"), id("waiter"));
    for part in [
        format!("{{\"loop_id\":{},\"selector\":\"{}\",", dump.loop_id, dump.selector),
        "\"running\":false,\"ready\":0,\"tasks\":[".to_owned(),
        format!(
            "{{\"id\":{holder},\"name\":\"holder\",\"site\":\"+5:29\",\"root\":false,\
             \"state\":\"waiting\",\"waits_for\":[{{\"kind\":\"timer\",\"due_in\":90.0}}]}}"
        ),
        format!(
            "{{\"id\":{waiter},\"name\":\"waiter\",\"site\":\"+9:29\",\"root\":false,\
             \"state\":\"waiting\",\"waits_for\":[{{\"kind\":\"lock\",\"site\":\"+3:24\",\
             \"holder\":{holder}}}]}}"
        ),
        format!("[{{\"kind\":\"task\",\"id\":{holder}}},{{\"kind\":\"task\",\"id\":{waiter}}}]"),
        format!("{{\"due_in\":90.0,\"kind\":\"task\",\"id\":{holder}}}"),
        "\"site\":\"+2:16\"}],\"more_timers\":0,".to_owned(),
        format!(
            "\"descriptors\":[{{\"fd\":{fd},\"read\":true,\"write\":false,\
             \"reader\":\"+1:16\",\"writer\":null}}],\"more_descriptors\":0}}"
        ),
    ] {
        assert!(json.contains(&part), "{part}\nis not in\n{json}");
    }
    drop(main);
}

#[test]
fn b_int_03_states_and_names_that_need_escaping() {
    let mut event_loop = EventLoop::new().unwrap();
    event_loop
        .run_until_complete(async {
            named("a \"quoted\" \\ name\n", spawn(async {})).detach();
            let dump = LoopRef::current().dump();
            let json = dump.to_json();
            assert!(json.contains(r#""name":"a \"quoted\" \\ name\u000a""#), "{json}");
            assert!(json.contains(r#""root":true,"state":"running","waits_for":[]"#), "{json}");
            assert!(json.contains(r#""root":false,"state":"ready","waits_for":[]"#), "{json}");
            assert!(dump.to_string().contains(": running; run at "), "{dump}");
        })
        .unwrap();
}

/// What waits under a combinator that passes the task's own waker is found all the same.
#[test]
fn b_int_03_several_waits_of_one_task_are_all_there() {
    let (mut event_loop, _clock) = virtual_loop();
    let task = event_loop.spawn(async {
        let event = Event::new();
        let mut wait = std::pin::pin!(event.wait());
        let mut timer = std::pin::pin!(sleep(5 * SECOND));
        std::future::poll_fn(|cx| {
            assert!(wait.as_mut().poll(cx).is_pending());
            timer.as_mut().poll(cx)
        })
        .await;
    });
    turn(&mut event_loop);
    let dump = event_loop.dump();
    let waits = &dump.task(task.id()).unwrap().waits_for;
    assert!(
        matches!(
            waits[..],
            [WaitsFor::Object { kind: "event", holder: None, .. }, WaitsFor::Timer(due)]
            if due == 5 * SECOND
        ),
        "{waits:?}"
    );
}

#[test]
fn b_int_03_a_time_limit_is_shown_beside_what_it_limits() {
    let (mut event_loop, _clock) = virtual_loop();
    let task = event_loop.spawn(async {
        let event = Event::new();
        let _ = timeout(7 * SECOND, event.wait()).await;
    });
    let task = named("limited", task);
    turn(&mut event_loop);
    let dump = event_loop.dump();
    let text = dump.to_string();
    assert!(text.contains("limited: waits for event created at "), "{text}");
    assert!(text.contains(" or a timeout in 7s; spawned"), "{text}");
    assert!(text.contains("\n  in 7s: ends a timeout in limited\n"), "{text}");
    let json = dump.to_json();
    let kind = format!("{{\"due_in\":7.0,\"kind\":\"timeout\",\"id\":{}}}", task.id());
    assert!(
        json.contains(&kind) && json.contains("{\"kind\":\"timeout\",\"due_in\":7.0}"),
        "{json}"
    );
}

#[test]
fn b_int_03_loops_of_other_threads_are_asked() {
    let _watchdog = watchdog();
    let (ready, is_ready) = mpsc::channel();
    let thread = thread::spawn(move || {
        let mut event_loop = EventLoop::new().unwrap();
        named("far away", event_loop.spawn(pending::<()>())).detach();
        ready.send((event_loop.dump().loop_id, event_loop.remote())).unwrap();
        event_loop.run_forever().unwrap();
    });
    let (far, remote) = is_ready.recv().unwrap();
    let mut event_loop = EventLoop::new().unwrap();
    let idle = EventLoop::new().unwrap(); // of this thread: looked at although it does not run
    named("here", event_loop.spawn(pending::<()>())).detach();
    let all = event_loop.run_until_complete(async { dump_all(10 * SECOND) }).unwrap();
    let find = |id| all.loops.iter().find(|dump| dump.loop_id == id);
    assert_eq!(find(far).unwrap().tasks[0].name, "far away");
    let here = find(event_loop.dump().loop_id).unwrap();
    assert!(here.running && here.tasks.iter().any(|task| task.name == "here"));
    assert!(find(idle.dump().loop_id).is_some());
    remote.stop().unwrap();
    thread.join().unwrap();
}

#[test]
fn b_int_03_a_loop_that_does_not_answer_is_silent() {
    let _watchdog = watchdog();
    let (ready, is_ready) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let event_loop = EventLoop::new().unwrap();
        ready.send(event_loop.dump().loop_id).unwrap();
        is_done.recv().unwrap_err();
    });
    let id = is_ready.recv().unwrap();
    assert!(dump_all(Duration::from_millis(20)).silent.contains(&id));
    drop(done);
    thread.join().unwrap();
}

fn names(graph: &CallGraph) -> Vec<&str> {
    graph.awaited_by.iter().map(|graph| &*graph.name).collect()
}

#[test]
fn b_int_01_a_call_graph_lists_who_awaits_recursively_until_the_end() {
    let line = line!();
    run(async move {
        current_task().unwrap().set_name("main");
        let stop = Rc::new(Event::new());
        let stopped = stop.clone();
        let leaf = named("leaf", spawn(async move { stopped.wait().await }));
        let watched = leaf.task_ref();
        let (one, two) = (watched.clone(), watched.clone());
        let watcher = named("watcher", spawn(async move { one.watch().await }));
        let direct = named("direct", spawn(async move { leaf.await.unwrap() }));
        let other = named("other", spawn(async move { two.watch().await }));
        let gathered = named("gathered", spawn(async { gather([watcher, other]).await.map(drop) }));
        for _ in 0..3 {
            yield_now().await;
        }
        let graph = watched.call_graph().unwrap();
        assert_eq!(names(&graph), ["watcher", "direct", "other"]);
        assert_eq!(names(&graph.awaited_by[0]), ["gathered"]);
        assert_eq!(names(&graph.awaited_by[1]), Vec::<&str>::new());
        assert_eq!(
            normalized(&graph.to_string(), line),
            "leaf spawned at +5:34\n  \
             awaited by watcher spawned at +8:40\n    \
             awaited by gathered spawned at +11:42\n  \
             awaited by direct spawned at +9:38\n  \
             awaited by other spawned at +10:36\n    \
             awaited by gathered spawned at +11:42\n"
        );
        stop.set();
        direct.await.unwrap();
        gathered.await.unwrap().unwrap();
        assert_eq!(watched.call_graph(), None);
    })
    .unwrap();
}

#[test]
fn b_int_01_edges_go_when_the_awaiter_goes() {
    run(async {
        let leaf = spawn(pending::<()>());
        let watched = leaf.task_ref();
        let awaiter = spawn(async move { watched.watch().await });
        yield_now().await;
        assert_eq!(leaf.call_graph().unwrap().awaited_by.len(), 1);
        awaiter.cancel();
        let _ = awaiter.await;
        assert_eq!(leaf.call_graph().unwrap().awaited_by, []);
    })
    .unwrap();
}

#[test]
fn b_int_01_without_a_task_there_is_none_and_without_a_loop_an_error() {
    assert!(matches!(call_graph(), Err(LoopError::NotRunning)));
    let mut event_loop = EventLoop::new().unwrap();
    let seen = Rc::new(Cell::new(false));
    let log = seen.clone();
    event_loop.call_soon(move || log.set(matches!(call_graph(), Ok(None))));
    turn(&mut event_loop);
    assert!(seen.get());
    let own = event_loop.run_until_complete(async { call_graph().unwrap().unwrap() }).unwrap();
    assert_eq!(own.awaited_by, []);
}

#[test]
fn b_int_02_a_circle_is_printed_once() {
    let mut event_loop = EventLoop::new().unwrap();
    let (to_first, first_waits): (LoopFuture<loop_core::TaskRef>, _) = {
        let future = event_loop.create_future();
        (future.clone(), future)
    };
    let first = event_loop.spawn(async move { first_waits.take_result().unwrap().watch().await });
    let watched = first.task_ref();
    let second = event_loop.spawn(async move { watched.watch().await });
    let _ = to_first.set_result(second.task_ref());
    let (first, second) = (named("first", first), named("second", second));
    (0..3).for_each(|_| turn(&mut event_loop));
    let text = event_loop.dump().to_string();
    let lines: Vec<_> =
        text.lines().skip(1).take(4).map(|l| l.split(';').next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "tasks: 2",
            "  first: waits for second",
            "    second: waits for first",
            "      first (above)"
        ]
    );
    let graph = first.call_graph().unwrap();
    assert_eq!(names(&graph), ["second"]);
    assert_eq!(names(&graph.awaited_by[0]), ["first"]);
    assert_eq!(graph.awaited_by[0].awaited_by[0].awaited_by, []);
    drop(second);
}

/// A chain of 30,000 tasks: neither the stack nor the text grows without bounds.
#[test]
fn b_int_02_a_dump_is_bounded_in_size_and_depth() {
    let mut event_loop = EventLoop::new().unwrap();
    let mut task = event_loop.spawn(pending::<()>());
    let leaf = task.task_ref();
    for _ in 1..30_000 {
        task = event_loop.spawn(async move { task.await.unwrap() });
    }
    turn(&mut event_loop);
    let dump = event_loop.dump();
    assert_eq!((dump.tasks.len(), dump.more_tasks), (10_000, 20_000));
    let text = dump.to_string();
    assert!(text.starts_with(&format!("event loop {}", dump.loop_id)));
    assert!(text.contains("\ntasks: 30000\n") && text.contains("\n  and 20000 more\n"));
    assert!(text.len() < 3_000_000, "{}", text.len());
    assert!(dump.to_json().ends_with("\"more_descriptors\":0}"));
    let mut depth = 0;
    let mut graph = &leaf.call_graph().unwrap();
    while let Some(above) = graph.awaited_by.first() {
        (graph, depth) = (above, depth + 1);
    }
    assert_eq!(depth, 100);
    event_loop.set_exception_handler(Some(Rc::new(|_, _| ()))); // pending tasks are reported at close
}
