//! What the steps of a task need beside its body.

use std::task::{Context, Poll, Waker};

use loop_handle::Snapshot;

use super::body::AnyBody;
use super::cell::TaskKey;
use super::running::Running;
use super::step::{Beside, Lent};
use super::waker::TaskWaker;
use crate::inner::Inner;

/// How a body has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was dropped, and nothing of a user's is left.
    Quietly,
    /// It is to be [cleared](super::body::Body::clear).
    Left,
    /// The same, with a panic that is [kept](super::step::Beside::keep) now.
    Panicked,
}

/// A body was polled: how it has ended if it has, and whether its task was woken meanwhile.
pub(super) type Polled = (Poll<Ended>, bool);

/// What the steps of a task need beside its body. That of most tasks is empty.
#[derive(Default)]
pub(crate) struct Gear {
    /// The task's own, once somebody has kept a clone of the one that its step was lent.
    pub(super) waker: Option<Waker>,
    /// The task's context between its steps.
    pub(super) values: Snapshot,
}

impl Gear {
    pub(super) fn is_empty(&self) -> bool {
        self.waker.is_none() && self.values.is_empty()
    }
}

/// A step of a task without gear, and the context that it has left.
#[inline(always)]
pub(super) fn step_plainly(
    body: &mut AnyBody,
    key: TaskKey,
    lent: &mut Lent<'_, '_>,
) -> (Polled, Snapshot) {
    let mut values = Snapshot::default();
    let waker = lent.waker.aim(key);
    let polled = step_with(waker, &mut values, body, key, &mut lent.beside);
    (polled, values)
}

/// A step with gear.
pub(super) fn step_geared(
    inner: &Inner,
    body: &mut AnyBody,
    gear: &mut Gear,
    key: TaskKey,
    lent: &mut Lent<'_, '_>,
) -> Polled {
    let waker = match &gear.waker {
        Some(own) => own,
        None => lent.waker.aim(key),
    };
    let polled = step_with(waker, &mut gear.values, body, key, &mut lent.beside);
    if gear.waker.is_none() {
        gear.waker = kept(inner, lent);
    }
    polled
}

/// The waker that is lent, if somebody has kept it: then it is to stay with the task, and another one is lent.
pub(super) fn kept(inner: &Inner, lent: &mut Lent<'_, '_>) -> Option<Waker> {
    if !lent.waker.is_kept() {
        return None;
    }
    let kept = std::mem::replace(lent.waker, TaskWaker::to_lend(inner));
    Some(kept.into_waker())
}

/// Polls with the task current and in its context.
#[inline(always)]
fn step_with(
    waker: &Waker,
    values: &mut Snapshot,
    body: &mut AnyBody,
    key: TaskKey,
    beside: &mut Beside<'_, '_>,
) -> Polled {
    beside.key = key;
    let running = Running::enter(waker.data(), key);
    let mut context = Context::from_waker(waker);
    let polled = values.run_keeping(|| body.as_mut().poll(&mut context, beside));
    (polled, running.leave())
}
