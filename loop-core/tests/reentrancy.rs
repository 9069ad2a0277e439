//! Random operations from inside every kind of user code: callbacks of every kind, task bodies, the
//! exception handler, spawn hooks, and destructors of whatever these own. Nothing may panic inside the loop, and
//! every value is dropped exactly once.

mod common;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use common::{pair, watchdog};
use loop_core::sync::{Event, Lock, Queue};
use loop_core::{
    BeforeWait, CallbackId, DelayQueue, EventLoop, GroupError, Handle, Interest, IoHandler,
    LoopAbort, LoopFuture, LoopRef, Readiness, Signal, SpawnHook, Task, TaskBody, TaskGroup,
    TaskRef, TimerHandle, Token, VirtualClock, WaitUntil, as_completed, catch_cancelled,
    current_task, gather, protect, shield, sleep, timeout, wait, yield_now,
};
use loop_selector::{available, by_name, raise};

/// What all user code of one world shares.
struct World {
    lp: LoopRef,
    seed: Cell<u64>,
    /// Whether user code also ends runs at once.
    aborts: bool,
    /// Operations left to do: what keeps a world finite.
    fuel: Cell<u32>,
    made: Cell<u32>,
    dropped: Cell<u32>,
    ran: Cell<u32>,
    /// How many payloads of ours the exception handler saw, and what it saw else.
    ours: Cell<u32>,
    foreign: RefCell<Vec<String>>,
    sources: RefCell<Vec<(Rc<UnixStream>, UnixStream)>>,
    handles: RefCell<Vec<Handle>>,
    timers: RefCell<Vec<TimerHandle>>,
    tasks: RefCell<Vec<Task<()>>>,
    wakers: RefCell<Vec<Waker>>,
    tokens: RefCell<Vec<Token>>,
    futures: RefCell<Vec<LoopFuture<u32, ()>>>,
    callbacks: RefCell<Vec<(LoopFuture<u32, ()>, CallbackId)>>,
    event: Event,
    lock: Lock,
    queue: Queue<Value>,
    delayed: DelayQueue<Value>,
}

/// Owned by all user code: its destructor is user code, too.
struct Value(Rc<World>);

impl Value {
    fn new(world: &Rc<World>) -> Value {
        world.made.set(world.made.get() + 1);
        Value(world.clone())
    }

    /// User code runs.
    fn run(&self) {
        self.0.ran.set(self.0.ran.get() + 1);
        for _ in 0..self.0.random(3) {
            act(&self.0);
        }
        if self.0.random(8) == 0 && self.0.fuel.get() > 0 {
            if self.0.aborts && self.0.random(4) == 0 && !std::thread::panicking() {
                LoopAbort { code: 1 }.raise();
            }
            panic!("ours");
        }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.0.dropped.set(self.0.dropped.get() + 1);
        for _ in 0..self.0.random(2) {
            act(&self.0);
        }
    }
}

impl IoHandler for Value {
    fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {
        self.run();
    }
}

impl BeforeWait for Value {
    fn before_wait(self: Rc<Self>) {
        self.run();
    }
}

impl SpawnHook for Value {
    /// Whatever this does happens inside whatever spawns. A panic would be that one's, and is not the loop's affair.
    fn wrap(&self, _: &TaskRef, body: TaskBody) -> TaskBody {
        act(&self.0);
        let inside = Value::new(&self.0);
        Box::pin(async move {
            body.await;
            drop(inside);
        })
    }

    fn eager(&self, _: &TaskRef) -> bool {
        self.0.random(2) == 0
    }
}

impl World {
    /// A number below `n`: xorshift64.
    fn random(&self, n: u64) -> u64 {
        let mut x = self.seed.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.seed.set(x);
        x % n
    }

    /// Takes a random element out, with no borrow left.
    fn take<T>(&self, list: &RefCell<Vec<T>>) -> Option<T> {
        let len = list.borrow().len() as u64;
        if len == 0 {
            return None;
        }
        let index = self.random(len) as usize;
        Some(list.borrow_mut().swap_remove(index))
    }

    fn source(&self) -> Rc<UnixStream> {
        let index = self.random(self.sources.borrow().len() as u64) as usize;
        self.sources.borrow()[index].0.clone()
    }
}

/// Keeps a value for later; what falls out at the other end is dropped unborrowed.
fn store<T>(list: &RefCell<Vec<T>>, value: T) {
    list.borrow_mut().push(value);
    let full = list.borrow().len() > 8;
    let old = full.then(|| list.borrow_mut().remove(0));
    drop(old);
}

/// One random operation on the loop.
fn act(world: &Rc<World>) {
    let Some(fuel) = world.fuel.get().checked_sub(1) else { return };
    world.fuel.set(fuel);
    let lp = &world.lp;
    let value = Value::new(world);
    match world.random(39) {
        0 => store(&world.handles, lp.call_soon(move || value.run())),
        1 => {
            let delay = Duration::from_millis(world.random(4));
            store(&world.timers, lp.call_later(delay, move || value.run()));
        }
        2 => store(&world.tasks, lp.spawn(body(value))),
        3 => {
            if let Ok(handle) = lp.add_reader(&world.source(), move || value.run()) {
                store(&world.handles, handle);
            }
        }
        4 => {
            if let Ok(handle) = lp.add_writer(&world.source(), move || value.run()) {
                store(&world.handles, handle);
            }
        }
        5 => _ = lp.remove_reader(&*world.source()),
        6 => _ = lp.remove_writer(&*world.source()),
        7 => drop(world.take(&world.handles).map(|handle| handle.cancel())),
        8 => drop(world.take(&world.timers).map(|timer| timer.cancel())),
        9 => drop(world.take(&world.tasks).map(|task| task.cancel())),
        10 => drop(world.take(&world.tasks).map(|task| task.detach())),
        11 => drop(world.take(&world.wakers).map(|waker| waker.wake())),
        12 => {
            let interest = if world.random(2) == 0 { Interest::READ } else { Interest::WRITE };
            if let Ok(token) = lp.register_io(world.source(), interest, Rc::new(value)) {
                store(&world.tokens, token);
            }
        }
        13 => drop(world.take(&world.tokens).and_then(|token| lp.deregister_io(token))),
        14 => {
            if let Some(token) = world.take(&world.tokens) {
                let both = Interest::READ | Interest::WRITE;
                lp.set_interest(token, (world.random(2) == 0).then_some(both));
                store(&world.tokens, token);
            }
        }
        15 => {
            let future: LoopFuture<u32, ()> = lp.create_future();
            let id = future.add_done_callback(move || value.run());
            store(&world.futures, future.clone());
            store(&world.callbacks, (future, id));
        }
        16 => drop(world.take(&world.futures).map(|future| future.set_result(1).is_ok())),
        17 => drop(world.take(&world.futures).map(|future| future.cancel())),
        18 => drop(world.take(&world.callbacks).map(|(on, id)| on.remove_done_callback(id))),
        19 => {
            if let Some(task) = world.take(&world.tasks) {
                task.add_done_callback(move || value.run());
                store(&world.tasks, task);
            }
        }
        20 => {
            if let Ok(handle) = lp.add_signal_handler(Signal::USR1, move || value.run()) {
                store(&world.handles, handle);
                raise(Signal::USR1).unwrap();
            }
        }
        21 => _ = lp.remove_signal_handler(Signal::USR1),
        22 => {
            // Send values cannot hold a world: a call from elsewhere finds it through its loop.
            let remote = lp.remote();
            let call = move || CURRENT.with_borrow(Clone::clone).iter().for_each(act);
            std::thread::spawn(move || remote.call_soon(call).is_ok()).join().unwrap();
        }
        23 => {
            let handle = Handle::repeating(move || value.run());
            lp.call_handle(&handle);
            lp.call_handle(&handle);
            store(&world.handles, handle);
        }
        24 => _ = lp.tasks().first().is_some_and(|task| task.cancel()),
        25 => world.event.set(),
        26 => world.event.clear(),
        27 => drop(world.queue.try_put(value)),
        28 => drop(world.queue.try_get()),
        29 => _ = world.delayed.insert(value, Duration::from_millis(world.random(4))),
        30 => drop(lp.dump().to_string()),
        31 => drop(world.take(&world.tasks).map(|task| task.abort())),
        32 => {
            let hook = (world.random(2) == 0).then(|| Rc::new(value) as Rc<dyn SpawnHook>);
            lp.set_spawn_hook(hook);
        }
        33 => {
            if let Some(waker) = world.take(&world.wakers) {
                std::thread::spawn(move || waker.wake()).join().unwrap();
            }
        }
        34 => {
            if let Some(task) = world.take(&world.tasks) {
                task.set_name("renamed");
                task.uncancel();
                store(&world.tasks, task);
            }
        }
        35 => lp.stop(),
        36 => world.delayed.clear(),
        37 => _ = lp.call_before_wait(Rc::new(value)),
        _ => lp.set_debug(world.random(2) == 0),
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// A task that suspends in many ways, with user code between, and drops values on every way out.
async fn body(value: Value) {
    let world = value.0.clone();
    for _ in 0..world.random(4) {
        value.run();
        match world.random(22) {
            0 => yield_now().await,
            1 => sleep(Duration::from_millis(world.random(3))).await,
            2 => {
                let limit = Duration::from_millis(world.random(3));
                let inner = Value::new(&world);
                let _ = timeout(limit, async move {
                    sleep(Duration::from_millis(2)).await;
                    inner.run();
                })
                .await;
            }
            3 => {
                let future: LoopFuture<u32, ()> = world.lp.create_future();
                store(&world.futures, future.clone());
                let _ = future.await;
            }
            4 => {
                let taken = world.take(&world.tasks);
                if let Some(task) = taken {
                    let _ = task.await;
                }
            }
            5 => {
                let mut woken = false;
                poll_fn(|cx| {
                    if std::mem::replace(&mut woken, true) {
                        return Poll::Ready(());
                    }
                    store(&value.0.wakers, cx.waker().clone());
                    Poll::Pending
                })
                .await;
            }
            6 => {
                let held = world.lock.acquire().await;
                yield_now().await;
                value.run();
                drop(held);
            }
            7 => world.event.wait().await,
            8 => drop(world.queue.get().await),
            9 => drop(world.queue.put(Value::new(&world)).await),
            10 => drop(world.delayed.next().await),
            11 => {
                let inner = Value::new(&world);
                let caught = catch_cancelled(async move {
                    yield_now().await;
                    inner.run();
                    sleep(Duration::from_millis(2)).await;
                });
                if let Err(cancelled) = caught.await {
                    value.run();
                    yield_now().await;
                    match world.random(3) {
                        0 => cancelled.swallow(),
                        1 => cancelled.propagate().await,
                        _ => drop(cancelled),
                    }
                }
            }
            12 => protect(sleep(Duration::from_millis(1))).await,
            13 => drop(group(&value).await),
            14 => drop(gather(some_tasks(&world)).await),
            15 => {
                let limit = Duration::from_millis(world.random(3));
                let waited = wait(some_tasks(&world)).until(WaitUntil::FirstCompleted);
                let waited = waited.timeout(limit).await;
                waited.pending.into_iter().for_each(|task| store(&world.tasks, task));
            }
            16 => drop(as_completed(some_tasks(&world)).next().await),
            17 => {
                let taken = world.take(&world.tasks);
                if let Some(task) = taken {
                    drop(shield(task).await);
                }
            }
            18 => drop(world.lp.readable(&world.source()).await),
            19 => {
                if let Ok(future) = world.lp.remote().spawn(|| async {}) {
                    drop(future.await);
                }
            }
            20 => _ = current_task().unwrap().cancel(),
            _ => value.run(),
        }
    }
}

fn some_tasks(world: &World) -> Vec<Task<()>> {
    (0..world.random(3)).filter_map(|_| world.take(&world.tasks)).collect()
}

/// Children that fail in every way, some of which others get hold of.
async fn group(value: &Value) -> Result<(), GroupError<&'static str>> {
    let world = &value.0;
    TaskGroup::scope(async |group| {
        for _ in 0..world.random(3) {
            let inner = Value::new(world);
            let child = group.spawn(async move {
                yield_now().await;
                inner.run();
                if inner.0.random(4) == 0 { Err("ours") } else { Ok(()) }
            });
            if world.random(2) == 0 {
                store(&world.tasks, child);
            }
        }
        value.run();
        yield_now().await;
        if world.random(4) == 0 {
            group.cancel();
        }
        Ok(())
    })
    .await
}

/// Goes on where a run was ended at once.
fn whatever_comes(act: impl FnOnce()) {
    if let Err(raised) = catch_unwind(AssertUnwindSafe(act)) {
        if !raised.is::<LoopAbort>() && raised.downcast_ref() != Some(&"ours") {
            resume_unwind(raised);
        }
    }
}

fn run_world(seed: u64, backend: &str, aborts: bool) -> u32 {
    let clock = Rc::new(VirtualClock::new());
    let selector = by_name(backend).unwrap();
    let mut event_loop =
        EventLoop::builder().selector(selector).clock(clock.clone()).build().unwrap();
    let keeps_the_signal = EventLoop::new().unwrap();
    keeps_the_signal.add_signal_handler(Signal::USR1, || ()).unwrap();
    let world = Rc::new(World {
        lp: event_loop.loop_ref(),
        seed: Cell::new(seed),
        aborts,
        fuel: Cell::new(600),
        made: Cell::default(),
        dropped: Cell::default(),
        ran: Cell::default(),
        ours: Cell::default(),
        foreign: RefCell::default(),
        sources: (0..3)
            .map(|_| {
                let (ours, mut theirs) = pair();
                theirs.write_all(b"x").unwrap();
                (ours, theirs)
            })
            .collect::<Vec<_>>()
            .into(),
        handles: RefCell::default(),
        timers: RefCell::default(),
        tasks: RefCell::default(),
        wakers: RefCell::default(),
        tokens: RefCell::default(),
        futures: RefCell::default(),
        callbacks: RefCell::default(),
        event: Event::new(),
        lock: Lock::new(),
        queue: Queue::bounded(2.try_into().unwrap()),
        delayed: DelayQueue::on(&event_loop),
    });
    CURRENT.set(Some(world.clone()));
    let reported = world.clone();
    event_loop.set_exception_handler(Some(Rc::new(move |_, context| {
        let text = context.to_string();
        let ours = ["\"ours\"", "loop abort with code 1"].iter().any(|word| text.contains(word));
        if ours || text.contains("destroyed while it was pending") {
            reported.ours.set(reported.ours.get() + 1);
        } else if !text.starts_with("slow callback") && !text.starts_with("callback removed") {
            reported.foreign.borrow_mut().push(text);
        }
        act(&reported);
    })));
    for _ in 0..20 {
        whatever_comes(|| act(&world));
    }
    for _ in 0..60 {
        whatever_comes(|| _ = event_loop.run_once(Some(Duration::ZERO)).unwrap());
        clock.advance(Duration::from_millis(1));
        whatever_comes(|| act(&world));
    }
    // Destructors go on while the loop closes.
    world.fuel.set(world.fuel.get() + 100);
    whatever_comes(|| event_loop.close());
    CURRENT.take();
    world.fuel.set(0);
    drop((world.tasks.take(), world.futures.take(), world.callbacks.take()));
    drop((world.handles.take(), world.timers.take(), world.wakers.take()));
    world.delayed.clear();
    while world.queue.try_get().is_ok() {}
    drop(event_loop);
    assert_eq!(world.foreign.take(), Vec::<String>::new(), "seed {seed} on {backend}");
    assert_eq!(world.made.get(), world.dropped.get(), "seed {seed} on {backend}: values leaked");
    assert_eq!(Rc::strong_count(&world), 1, "seed {seed} on {backend}");
    world.ran.get()
}

#[test]
fn any_operation_from_any_user_code_is_harmless() {
    let _watchdog = watchdog();
    std::panic::set_hook(Box::new(|info| {
        // Panics of ours are part of the game.
        if info.payload().downcast_ref() != Some(&"ours") {
            eprintln!("{info}");
        }
    }));
    let mut ran = 0;
    for seed in 1..=100 {
        for backend in available() {
            let seed = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed);
            ran += run_world(seed, backend, false) + run_world(seed, backend, true);
        }
    }
    assert!(ran > 15_000, "{ran} runs of user code are too few");
}
