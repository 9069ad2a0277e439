//! Random programs, and the futures that they stand for.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use loop_core::{
    TaskError, TaskGroup, catch_cancelled, protect, raise_cancelled, sleep, spawn, timeout,
};

use crate::Log;

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    Swallow,
    Propagate,
    DropUndecided,
}

/// Numbers tell program points apart in the log.
#[derive(Debug)]
pub enum Program {
    Ready,
    Sleep(u64),
    Pending,
    Raise(u32),
    Then(Box<Program>, Box<Program>),
    /// Both, each polled at every poll.
    Join(Box<Program>, Box<Program>),
    /// The first of two to be done; the other one is dropped.
    Select(Box<Program>, Box<Program>),
    Catch {
        number: u32,
        body: Box<Program>,
        cleanup: Box<Program>,
        decision: Decision,
    },
    Protect(u32, Box<Program>),
    Timeout(u32, u64, Box<Program>),
    /// A task of its own, that is awaited.
    Child(Box<Task>),
    Group {
        number: u32,
        body: Box<Program>,
        children: Vec<Child>,
    },
}

/// What runs beside the task that starts it.
#[derive(Debug)]
pub struct Task {
    pub number: u32,
    /// Tells the times of its timers from those of other tasks: two tasks never begin anything in one
    /// instant, so the outcome is no matter of their turns.
    pub phase: u64,
    pub program: Program,
}

#[derive(Debug)]
pub struct Child {
    pub task: Task,
    /// Whether it ends with an error.
    pub fails: bool,
}

/// The most tasks that a program has.
const TASKS: u64 = 5;

/// The state of the generator.
struct Maker<'a> {
    random: &'a mut Random,
    number: u32,
    tasks: u64,
    /// How many of them there may be.
    limit: u64,
}

impl Program {
    /// A program, and how many instants there are to an instant of one task: none but one, if it has but
    /// one task.
    pub fn random(random: &mut Random) -> (Program, u64) {
        let depth = 2 + random.below(4);
        let limit = if random.below(2) == 0 { 1 } else { TASKS };
        let mut maker = Maker { random, number: 0, tasks: 1, limit };
        let program = maker.make(depth, true);
        let period = if maker.tasks > 1 { maker.tasks + 1 } else { 1 };
        (program, period)
    }
}

impl Maker<'_> {
    /// `may_hang`: what is protected has to end by itself.
    fn make(&mut self, depth: u64, may_hang: bool) -> Program {
        self.number += 1;
        let this = self.number;
        if depth == 0 {
            return match self.random.below(if may_hang { 8 } else { 5 }) {
                0 => Program::Ready,
                1..=4 => Program::Sleep(1 + self.random.below(5)),
                5 | 6 => Program::Pending,
                _ => Program::Raise(this),
            };
        }
        match self.random.below(if self.tasks < self.limit { 20 } else { 16 }) {
            0 => self.make(0, may_hang),
            1 | 2 => Program::Then(self.part(depth, may_hang), self.part(depth, may_hang)),
            3..=5 => Program::Join(self.part(depth, may_hang), self.part(depth, may_hang)),
            6 | 7 => Program::Select(self.part(depth, may_hang), self.part(depth, may_hang)),
            8..=11 => Program::Catch {
                number: this,
                body: self.part(depth, may_hang),
                cleanup: self.part(depth, may_hang),
                decision: match self.random.below(5) {
                    0 | 1 => Decision::Swallow,
                    2 | 3 => Decision::Propagate,
                    _ => Decision::DropUndecided,
                },
            },
            12 => Program::Protect(this, self.part(depth, false)),
            13..=15 => {
                let limit = 1 + self.random.below(8);
                Program::Timeout(this, limit, self.part(depth, may_hang))
            }
            16 | 17 => Program::Child(Box::new(self.task(depth, may_hang))),
            _ => {
                let body = self.part(depth, may_hang);
                let mut children = Vec::new();
                for _ in 0..1 + self.random.below(2) {
                    if self.tasks < self.limit {
                        let fails = self.random.below(3) == 0;
                        children.push(Child { task: self.task(depth, may_hang), fails });
                    }
                }
                Program::Group { number: this, body, children }
            }
        }
    }

    fn part(&mut self, depth: u64, may_hang: bool) -> Box<Program> {
        let less = 1 + self.random.below(2).min(depth - 1);
        Box::new(self.make(depth - less, may_hang))
    }

    fn task(&mut self, depth: u64, may_hang: bool) -> Task {
        let phase = self.tasks;
        self.tasks += 1;
        let program = Box::new(self.make(depth - 1, may_hang));
        self.number += 1;
        // It does nothing in the instant of whoever starts it.
        let program = Program::Then(Box::new(Program::Sleep(1 + self.random.below(3))), program);
        Task { number: self.number, phase, program }
    }
}

/// How long it is from `now` to the first instant of a task that is at least `wait` away.
pub fn until_phase(now: u64, wait: u64, phase: u64, period: u64) -> u64 {
    (wait..).find(|wait| (now + wait) % period == phase % period).unwrap()
}

pub type Run = Pin<Box<dyn Future<Output = ()>>>;

pub fn build(program: &Program, log: &Log) -> Run {
    let log = log.clone();
    match program {
        Program::Ready => Box::pin(std::future::ready(())),
        Program::Sleep(limit) => {
            let limit = *limit;
            Box::pin(async move { sleep(log.wait(limit)).await })
        }
        Program::Pending => Box::pin(pending()),
        Program::Raise(number) => {
            let number = *number;
            Box::pin(async move {
                log.note(format!("{number} raises"));
                raise_cancelled(&format!("raised by {number}")).await
            })
        }
        Program::Then(first, second) => {
            let (first, second) = (build(first, &log), build(second, &log));
            Box::pin(async move {
                first.await;
                second.await;
            })
        }
        Program::Join(one, other) => {
            let both = Pair { one: Some(build(one, &log)), other: Some(build(other, &log)) };
            Box::pin(both.all())
        }
        Program::Select(one, other) => {
            let both = Pair { one: Some(build(one, &log)), other: Some(build(other, &log)) };
            Box::pin(both.first())
        }
        Program::Catch { number, body, cleanup, decision } => {
            let (body, cleanup) = (build(body, &log), build(cleanup, &log));
            let (number, decision) = (*number, *decision);
            Box::pin(async move {
                let Err(cancelled) = catch_cancelled(body).await else {
                    return log.note(format!("{number} done"));
                };
                log.note(format!("{number} caught {:?}", cancelled.reason()));
                cleanup.await;
                log.note(format!("{number} cleaned"));
                match decision {
                    Decision::Swallow => cancelled.swallow(),
                    Decision::Propagate => cancelled.propagate().await,
                    Decision::DropUndecided => drop(cancelled),
                }
            })
        }
        Program::Protect(number, body) => {
            let (number, body) = (*number, build(body, &log));
            Box::pin(async move {
                protect(body).await;
                log.note(format!("{number} protected"));
            })
        }
        Program::Timeout(number, limit, body) => {
            let (number, limit, body) = (*number, *limit, build(body, &log));
            Box::pin(async move {
                let outcome = timeout(log.wait(limit), body).await;
                log.note(format!("{number} in time: {}", outcome.is_ok()));
            })
        }
        Program::Child(task) => {
            let (number, inner) = (task.number, log.of_task(task));
            let body = build(&task.program, &inner);
            Box::pin(async move {
                let task = spawn(body);
                inner.started(task.task_ref());
                match task.await {
                    Ok(()) => log.note(format!("{number} ended")),
                    Err(TaskError::Cancelled { reason }) => {
                        log.note(format!("{number} ended cancelled {:?}", reason.as_deref()))
                    }
                    Err(other) => log.note(format!("{number}: {other}")),
                }
            })
        }
        Program::Group { number, body, children } => {
            let (number, body) = (*number, build(body, &log));
            let children: Vec<_> = children
                .iter()
                .map(|child| {
                    let log = log.of_task(&child.task);
                    let body = build(&child.task.program, &log);
                    (log, body, child.fails.then_some(child.task.number))
                })
                .collect();
            Box::pin(async move {
                let scope = TaskGroup::scope(async |group: TaskGroup<u32>| {
                    for (log, body, fails) in children {
                        let child = async move {
                            body.await;
                            fails.map_or(Ok(()), Err)
                        };
                        log.started(group.spawn(child).task_ref());
                    }
                    body.await;
                    Ok(())
                });
                let outcome = scope.await.map_err(|failed| {
                    let failed = failed.errors.iter().map(ToString::to_string);
                    let mut failed: Vec<String> = failed.collect();
                    failed.sort();
                    failed
                });
                log.note(format!("{number} group {outcome:?}"));
            })
        }
    }
}

/// Dropped in this order.
struct Pair {
    one: Option<Run>,
    other: Option<Run>,
}

fn poll(part: &mut Option<Run>, cx: &mut Context<'_>) -> bool {
    let ready = part.as_mut().is_none_or(|part| part.as_mut().poll(cx).is_ready());
    if ready {
        *part = None;
    }
    ready
}

impl Pair {
    fn all(mut self) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            let (one, other) = (poll(&mut self.one, cx), poll(&mut self.other, cx));
            if one && other { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    fn first(mut self) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            if poll(&mut self.one, cx) || poll(&mut self.other, cx) {
                (self.one, self.other) = (None, None);
                return Poll::Ready(());
            }
            Poll::Pending
        })
    }
}
