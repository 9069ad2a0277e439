//! Random programs, and the futures that they stand for.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use loop_core::{catch_cancelled, protect, raise_cancelled, sleep, timeout};

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
}

impl Program {
    pub fn random(random: &mut Random) -> Program {
        let mut number = 0;
        let depth = 2 + random.below(4);
        Self::make(random, depth, true, &mut number)
    }

    /// `may_hang`: what is protected has to end by itself.
    fn make(random: &mut Random, depth: u64, may_hang: bool, number: &mut u32) -> Program {
        *number += 1;
        let this = *number;
        if depth == 0 {
            return match random.below(if may_hang { 8 } else { 5 }) {
                0 => Program::Ready,
                1..=4 => Program::Sleep(1 + random.below(5)),
                5 | 6 => Program::Pending,
                _ => Program::Raise(this),
            };
        }
        let mut part = |random: &mut Random, may_hang| {
            let less = 1 + random.below(2).min(depth - 1);
            Box::new(Self::make(random, depth - less, may_hang, number))
        };
        match random.below(16) {
            0 => Self::make(random, 0, may_hang, number),
            1 | 2 => Program::Then(part(random, may_hang), part(random, may_hang)),
            3..=5 => Program::Join(part(random, may_hang), part(random, may_hang)),
            6 | 7 => Program::Select(part(random, may_hang), part(random, may_hang)),
            8..=11 => Program::Catch {
                number: this,
                body: part(random, may_hang),
                cleanup: part(random, may_hang),
                decision: match random.below(5) {
                    0 | 1 => Decision::Swallow,
                    2 | 3 => Decision::Propagate,
                    _ => Decision::DropUndecided,
                },
            },
            12 => Program::Protect(this, part(random, false)),
            _ => {
                let limit = 1 + random.below(8);
                Program::Timeout(this, limit, part(random, may_hang))
            }
        }
    }
}

pub type Run = Pin<Box<dyn Future<Output = ()>>>;

pub fn build(program: &Program, log: &Log) -> Run {
    let log = log.clone();
    let note = {
        let log = log.clone();
        move |line: String| log.borrow_mut().push(line)
    };
    match program {
        Program::Ready => Box::pin(std::future::ready(())),
        Program::Sleep(limit) => Box::pin(sleep(Duration::from_millis(*limit))),
        Program::Pending => Box::pin(pending()),
        Program::Raise(number) => {
            let number = *number;
            Box::pin(async move {
                note(format!("{number} raises"));
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
                    return note(format!("{number} done"));
                };
                note(format!("{number} caught {:?}", cancelled.reason()));
                cleanup.await;
                note(format!("{number} cleaned"));
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
                note(format!("{number} protected"));
            })
        }
        Program::Timeout(number, limit, body) => {
            let (number, body) = (*number, build(body, &log));
            let limit = Duration::from_millis(*limit);
            Box::pin(async move {
                let outcome = timeout(limit, body).await;
                note(format!("{number} in time: {}", outcome.is_ok()));
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
