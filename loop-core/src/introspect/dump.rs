//! The picture of a loop at one moment, as plain data.

use std::os::fd::RawFd;
use std::panic::Location;
use std::time::Duration;

use loop_selector::Interest;

/// What a loop is doing at one moment; from [`LoopRef::dump`](crate::LoopRef::dump).
///
/// `Display` writes it as text: the tasks as a tree of who awaits whom, each task once, then timers and
/// descriptors. [`to_json`](Self::to_json) writes it for programs. It is plain data and `Send`.
///
/// It holds 10,000 tasks, timers and descriptors each at the most, and says how many it left out.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Dump {
    /// A number that no other loop of the process has.
    pub loop_id: u64,
    /// The selector's name.
    pub selector: &'static str,
    /// Whether the loop runs, rather than being between two runs.
    pub running: bool,
    /// How many entries wait in the ready queue.
    pub ready: usize,
    /// The tasks that have not ended, by their ids.
    pub tasks: Vec<TaskInfo>,
    /// How many tasks were left out.
    pub more_tasks: usize,
    /// The timers, nearest first.
    pub timers: Vec<TimerInfo>,
    /// How many timers were left out.
    pub more_timers: usize,
    /// The registered descriptors, by their numbers.
    pub descriptors: Vec<DescriptorInfo>,
    /// How many descriptors were left out.
    pub more_descriptors: usize,
}

/// A task, in a [`Dump`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskInfo {
    /// [`TaskRef::id`](crate::TaskRef::id).
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Where it was spawned; for the future of a run, where that began.
    pub site: &'static Location<'static>,
    /// Whether it is the future of a run, which stays with its caller.
    pub root: bool,
    /// What it is doing.
    pub state: TaskState,
    /// What would wake it, as far as that has a name: what waits behind a waker of a combinator's own,
    /// and what knows nothing of [`Awaited`](crate::Awaited), is not here.
    pub waits_for: Vec<WaitsFor>,
}

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// It asked for the dump.
    Running,
    /// Its next step is queued.
    Ready,
    /// It waits.
    Waiting,
}

/// Something that would wake a task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// The end of another task, by its id.
    Task(u64),
    /// A timer that is due in so much time.
    Timer(Duration),
    /// A time limit on what it awaits, which ends in so much time.
    Timeout(Duration),
    /// A descriptor.
    Descriptor {
        /// Its number.
        fd: RawFd,
        /// What it is to be ready for.
        interest: Interest,
    },
    /// A lock, a queue, a future ...
    Object {
        /// What it is.
        kind: &'static str,
        /// Where it was created.
        site: &'static Location<'static>,
        /// The task that holds it, if that is known: locks note it in debug mode and in virtual time.
        holder: Option<u64>,
    },
}

impl WaitsFor {
    /// Something that nobody holds, by what it is and where it was created.
    pub fn object(kind: &'static str, site: &'static Location<'static>) -> Self {
        WaitsFor::Object { kind, site, holder: None }
    }
}

/// A timer, in a [`Dump`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerInfo {
    /// When it is due, from now.
    pub due_in: Duration,
    /// What it does then.
    pub kind: TimerKind,
}

/// What a timer does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimerKind {
    /// It runs a callback.
    Callback {
        /// The callback's type.
        name: &'static str,
        /// Where it was scheduled.
        site: &'static Location<'static>,
    },
    /// It wakes a task, by its id.
    Task(u64),
    /// It ends a time limit in a task, by its id.
    Timeout(u64),
    /// It wakes something else: a combinator, a task that runs now.
    Waker,
}

/// A registered descriptor, in a [`Dump`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DescriptorInfo {
    /// Its number.
    pub fd: RawFd,
    /// What it is watched for; `None` if it is registered and silent.
    pub interest: Option<Interest>,
    /// Where its reader was added, if it has one.
    pub reader: Option<&'static Location<'static>>,
    /// Where its writer was added, if it has one.
    pub writer: Option<&'static Location<'static>>,
}

impl Dump {
    /// The task with this id.
    pub fn task(&self, id: u64) -> Option<&TaskInfo> {
        let index = self.tasks.binary_search_by_key(&id, |task| task.id).ok()?;
        Some(&self.tasks[index])
    }

    /// The tasks that await the one with this id.
    pub fn awaiters(&self, id: u64) -> impl Iterator<Item = &TaskInfo> {
        self.tasks.iter().filter(move |task| task.waits_for.contains(&WaitsFor::Task(id)))
    }
}
