//! How a dump is put together. No user code runs while anything is borrowed.

use std::collections::HashMap;
use std::io;
use std::task::Waker;
use std::time::Duration;

use loop_handle::Handle;
use loop_selector::Signal;

use super::dump::{DescriptorInfo, Dump, TaskInfo, TaskState, TimerInfo, TimerKind, WaitsFor};
use crate::awaited::{self, Awaited};
use crate::guard;
use crate::inner::{Inner, TimerItem};
use crate::io_table::Direction;
use crate::loop_ref::LoopRef;
use crate::task::{self, running_task};

/// How many tasks, timers and descriptors a dump has at the most.
const LIMIT: usize = 10_000;

/// Which task a waker wakes: by what it points to.
struct Owners(HashMap<*const (), u64>);

impl Owners {
    fn of(&self, waker: &Waker) -> Option<u64> {
        self.0.get(&waker.data()).copied()
    }
}

impl LoopRef {
    /// What the loop is doing now: its tasks and who awaits whom, its timers, its descriptors
    /// (B-INT-03). Costs nothing until it is called, and then O(n) in all of them: some
    /// 1.5 µs a task, and as much again to write it as text.
    ///
    /// ```
    /// # use loop_core::{LoopRef, run, sleep, spawn};
    /// # use std::time::Duration;
    /// # run(async {
    /// let task = spawn(sleep(Duration::from_secs(60)));
    /// task.set_name("sleeper");
    /// sleep(Duration::ZERO).await; // it gets its turn
    /// let dump = LoopRef::current().dump();
    /// println!("{dump}");
    /// assert!(dump.to_string().contains("sleeper: waits for a timer in "));
    /// # }).unwrap();
    /// ```
    pub fn dump(&self) -> Dump {
        collect(&self.inner)
    }

    /// Writes a [`dump`](Self::dump) as text to standard error each time the process gets `signal`:
    /// `SIGUSR1`, say. An ordinary [signal handler](Self::add_signal_handler) does it, so a loop that is
    /// stuck in a callback does not answer.
    ///
    /// # Errors
    /// As [`add_signal_handler`](Self::add_signal_handler).
    #[track_caller]
    pub fn dump_on_signal(&self, signal: Signal) -> io::Result<Handle> {
        let weak = std::rc::Rc::downgrade(&self.inner);
        self.add_emergency_handler(signal, move || match weak.upgrade() {
            Some(inner) => {
                use io::Write;
                write!(io::stderr().lock(), "{}", collect(&inner))
            }
            None => Ok(()),
        })
    }
}

pub(crate) fn collect(inner: &Inner) -> Dump {
    inner.settle_timers();
    let now = inner.ticks(inner.now());
    let (mut tasks, owners) = tasks(inner);
    let mut timers: Vec<_> = {
        let timers = inner.timers.borrow();
        let id = |key| task::find(inner, key).map(|task| task.id());
        let items = timers.iter().map(|(ticks, _, item)| {
            let kind = match item {
                TimerItem::Callback(handle) => {
                    TimerKind::Callback { name: handle.name(), site: handle.site() }
                }
                TimerItem::Expire(key, _) => id(*key).map_or(TimerKind::Waker, TimerKind::Timeout),
                TimerItem::Step(key) => id(*key).map_or(TimerKind::Waker, TimerKind::Task),
                TimerItem::Wake(waker) => {
                    owners.of(waker).map_or(TimerKind::Waker, TimerKind::Task)
                }
            };
            TimerInfo { due_in: Duration::from_nanos(ticks.saturating_sub(now)), kind }
        });
        items.collect()
    };
    timers.sort_by_key(|timer| timer.due_in);
    let mut descriptors = descriptors(inner);

    let mut waits = HashMap::<u64, Vec<WaitsFor>>::new();
    for (_, join) in inner.tasks.borrow().iter() {
        join.waiters().each_waker(inner.id, &mut |waker| {
            if let Some(id) = owners.of(waker) {
                waits.entry(id).or_default().push(WaitsFor::Task(join.id));
            }
        });
    }
    let mut ask = |awaited: &dyn Awaited| {
        awaited.each_wait(&mut |waker, waits_for| {
            if let Some(id) = owners.of(waker) {
                waits.entry(id).or_default().push(waits_for);
            }
        });
    };
    awaited::each(&mut ask);
    let jobs = inner.jobs.borrow().live();
    jobs.iter().for_each(|job| ask(&**job));
    // Whoever awaited one of them may have let go meanwhile: a panic of what is left is nobody's.
    let _ = guard::catch_panic(|| drop(jobs));
    for timer in &timers {
        let (id, waits_for) = match timer.kind {
            TimerKind::Task(id) => (id, WaitsFor::Timer(timer.due_in)),
            TimerKind::Timeout(id) => (id, WaitsFor::Timeout(timer.due_in)),
            _ => continue,
        };
        waits.entry(id).or_default().push(waits_for);
    }
    for task in &mut tasks {
        if let Some(mut waits) = waits.remove(&task.id).filter(|_| task.state == TaskState::Waiting)
        {
            waits.sort_by_key(|waits_for| !matches!(waits_for, WaitsFor::Task(_)));
            task.waits_for = waits;
        }
    }

    let more = |len: usize| len.saturating_sub(LIMIT);
    let (more_tasks, more_timers) = (more(tasks.len()), more(timers.len()));
    let more_descriptors = more(descriptors.len());
    tasks.truncate(LIMIT);
    timers.truncate(LIMIT);
    descriptors.truncate(LIMIT);
    Dump {
        loop_id: inner.id,
        selector: inner.selector_name,
        running: inner.running.get(),
        ready: inner.ready.len(),
        tasks,
        more_tasks,
        timers,
        more_timers,
        descriptors,
        more_descriptors,
    }
}

fn tasks(inner: &Inner) -> (Vec<TaskInfo>, Owners) {
    let current = running_task(inner.id);
    let mut owners = HashMap::new();
    let mut tasks = Vec::new();
    task::give_wakers(inner);
    for (entry, join) in inner.tasks.borrow().iter() {
        if let Some(waker) = entry.waker() {
            owners.insert(waker.data(), join.id);
        }
        let state = match () {
            () if current == Some(join.key()) => TaskState::Running,
            () if entry.is_queued() => TaskState::Ready,
            () => TaskState::Waiting,
        };
        tasks.push(TaskInfo {
            id: join.id,
            name: join.name().to_string(),
            site: join.site,
            root: join.is_root(),
            state,
            waits_for: Vec::new(),
        });
    }
    tasks.sort_by_key(|task| task.id);
    (tasks, Owners(owners))
}

fn descriptors(inner: &Inner) -> Vec<DescriptorInfo> {
    let io = inner.io.borrow();
    let mut descriptors: Vec<_> = io
        .iter()
        .map(|entry| {
            let site = |direction| entry.kind.callback(direction).map(|c| c.handle.site());
            DescriptorInfo {
                fd: entry.fd,
                interest: entry.wanted,
                reader: site(Direction::Read),
                writer: site(Direction::Write),
            }
        })
        .collect();
    descriptors.sort_by_key(|descriptor| descriptor.fd);
    descriptors
}
