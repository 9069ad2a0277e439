//! Cancellable callbacks, without a loop: a thousand are queued, a thousand are run.

use std::cell::Cell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::rc::Rc;

use loop_handle::Handle;

use crate::bar::Bar;
use crate::rival::async_task::Runnables;
use crate::rival::callback_queue::{CallbackQueue, Cancellable, adder};
use crate::rival::calloop_idle::Idles;
use crate::rival::handle_queue::{self, Fresh, Pooled};
use crate::rival::std_boxes::Boxes;
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

pub(super) const BATCH: u64 = 1_000;

pub(super) const BARS: &[Bar] = &[
    Bar {
        workload: "handles/once",
        params: &[],
        ours: "loop-handle",
        rivals: &["std"],
        at_most: 1.5,
    },
    Bar {
        workload: "handles/again",
        params: &[],
        ours: "loop-handle",
        rivals: &["std"],
        at_most: 0.6,
    },
];

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let batches = plan.size(100, 1_000);
    let params = [("batch", BATCH)];
    vec![
        Contest::new(
            "handles/once",
            &params,
            vec![
                Subject::new("loop-handle", move |_seed| once::<Pooled>(batches)),
                Subject::new("loop-handle/fresh", move |_seed| once::<Fresh>(batches)),
                Subject::new("std", move |_seed| once::<Boxes>(batches)),
                Subject::new("calloop", move |_seed| once::<Idles>(batches)),
                Subject::new("async-task", move |_seed| once::<Runnables>(batches)),
            ],
        ),
        Contest::new(
            "handles/again",
            &params,
            vec![
                Subject::new("loop-handle", move |_seed| again_handles(batches)),
                Subject::new("std", move |_seed| once::<Boxes>(batches)),
                Subject::new("std/rc", move |_seed| again_rcs(batches)),
            ],
        ),
        Contest::new(
            "handles/mixed",
            &params,
            vec![
                Subject::new("loop-handle", move |_seed| mixed::<Pooled>(batches)),
                Subject::new("loop-handle/fresh", move |_seed| mixed::<Fresh>(batches)),
                Subject::new("std", move |_seed| mixed::<Boxes>(batches)),
                Subject::new("calloop", move |_seed| mixed::<Idles>(batches)),
                Subject::new("async-task", move |_seed| mixed::<Runnables>(batches)),
            ],
        ),
        Contest::new(
            "handles/cancel",
            &params,
            vec![
                Subject::new("loop-handle", move |_seed| cancel::<Pooled>(batches)),
                Subject::new("loop-handle/fresh", move |_seed| cancel::<Fresh>(batches)),
                Subject::new("calloop", move |_seed| cancel::<Idles>(batches)),
                Subject::new("async-task", move |_seed| cancel::<Runnables>(batches)),
            ],
        ),
    ]
}

/// What `batches` batches of adders of 0, 1, … add up to.
fn total(batches: u64) -> u64 {
    batches * (BATCH * (BATCH - 1) / 2 + 3 * BATCH)
}

/// Times `batches` calls of `batch`, which does a thousand callbacks of the sum that it is given.
fn measure(batches: u64, mut batch: impl FnMut(&Rc<Cell<u64>>), total: u64) -> Result<Lap, Wrong> {
    let sum = Rc::new(Cell::new(0));
    let (lap, ()) = Lap::time(batches * BATCH, || (0..batches).for_each(|_| batch(&sum)));
    Wrong::unless_equal("sum of the callbacks", sum.get(), total)?;
    Ok(lap)
}

/// Each is made, queued, run and forgotten.
pub(super) fn once<Q: CallbackQueue>(batches: u64) -> Result<Lap, Wrong> {
    let mut queue = Q::new();
    let batch = |sum: &Rc<_>| {
        for n in 0..BATCH {
            queue.push(adder(sum, n));
        }
        queue.run();
    };
    measure(batches, batch, total(batches))
}

/// As `once`, with closures of three sizes in turn, no two of a kind together.
fn mixed<Q: CallbackQueue>(batches: u64) -> Result<Lap, Wrong> {
    let mut queue = Q::new();
    let batch = |sum: &Rc<Cell<u64>>| {
        for n in 0..BATCH {
            let add = adder(sum, n);
            match n % 3 {
                0 => queue.push(add),
                1 => {
                    let more = black_box([0; 2]);
                    queue.push(move || {
                        if more == [0; 2] {
                            add()
                        }
                    });
                }
                _ => {
                    let more = black_box([0; 6]);
                    queue.push(move || {
                        if more == [0; 6] {
                            add()
                        }
                    });
                }
            }
        }
        queue.run();
    };
    measure(batches, batch, total(batches))
}

/// The scheduler keeps a handle of each until all have run, and cancels every other one.
pub(super) fn cancel<Q: Cancellable>(batches: u64) -> Result<Lap, Wrong> {
    let mut queue = Q::new();
    let mut kept = Vec::new();
    let batch = |sum: &Rc<_>| {
        for n in 0..BATCH {
            kept.push(queue.push_kept(adder(sum, n / 2)));
        }
        kept.iter_mut().step_by(2).for_each(Q::cancel);
        queue.run();
        kept.drain(..).for_each(Q::detach);
    };
    let half = BATCH / 2;
    measure(batches, batch, batches * (half * (half - 1) / 2 + 3 * half))
}

/// A thousand repeating handles, each queued and run once a batch, as readers are.
fn again_handles(batches: u64) -> Result<Lap, Wrong> {
    let mut queue: VecDeque<Handle> = VecDeque::new();
    let mut handles: Vec<Handle> = Vec::new();
    let batch = |sum: &Rc<_>| {
        if handles.is_empty() {
            handles.extend((0..BATCH).map(|n| Handle::repeating(adder(sum, n))));
        }
        queue.extend(handles.iter().cloned());
        while let Some(handle) = queue.pop_front() {
            handle_queue::run(&handle);
        }
    };
    measure(batches, batch, total(batches))
}

/// The floor of `again`: shared closures, which cannot be cancelled and hold no state of their own.
fn again_rcs(batches: u64) -> Result<Lap, Wrong> {
    let mut queue: VecDeque<Rc<dyn Fn()>> = VecDeque::new();
    let mut callbacks: Vec<Rc<dyn Fn()>> = Vec::new();
    let batch = |sum: &Rc<_>| {
        if callbacks.is_empty() {
            callbacks.extend((0..BATCH).map(|n| Rc::new(adder(sum, n)) as Rc<dyn Fn()>));
        }
        queue.extend(callbacks.iter().cloned());
        while let Some(callback) = queue.pop_front() {
            callback();
        }
    };
    measure(batches, batch, total(batches))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_gives_the_right_answer() {
        for contest in contests(&Plan::quick(1)) {
            let workload = contest.workload();
            for mut subject in contest.into_subjects() {
                let lap = subject.round(1);
                let name = subject.name();
                let lap = lap.unwrap_or_else(|wrong| panic!("{workload} {name}: {wrong}"));
                assert_eq!(lap.ops, 100 * BATCH, "{workload} {name}");
            }
        }
    }

    #[test]
    fn a_lost_callback_is_a_wrong_answer() {
        struct Forgetful(Pooled, u64);
        impl CallbackQueue for Forgetful {
            fn new() -> Self {
                Self(Pooled::new(), 0)
            }
            fn push(&mut self, callback: impl FnOnce() + 'static) {
                self.1 += 1;
                if self.1 != 1_500 {
                    self.0.push(callback);
                }
            }
            fn run(&mut self) {
                self.0.run();
            }
        }
        assert!(once::<Forgetful>(1).is_ok());
        assert!(once::<Forgetful>(2).is_err());
    }
}
