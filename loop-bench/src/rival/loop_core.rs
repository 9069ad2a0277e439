//! This project's loop: callbacks, and calls from another thread.

use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use loop_core::{EventLoop, LoopError, LoopRef};
use loop_selector::{available, by_name};

use super::callback_queue::CallbackQueue;
use super::hub::{Hub, Post, Tally};
use crate::sample::{Lap, Wrong};

/// The subject's name: with the best backend of this system, whatever the environment says.
pub(crate) fn name() -> String {
    format!("loop-core/{}", best())
}

pub(crate) fn best() -> &'static str {
    available()[0]
}

pub(crate) fn event_loop() -> Result<EventLoop, Wrong> {
    Ok(EventLoop::builder().selector(by_name(best())?).build()?)
}

fn wrong(error: LoopError) -> Wrong {
    Wrong(format!("the loop's run: {error}"))
}

/// Its ready queue: what is pushed is run by one iteration.
pub(crate) struct Callbacks(EventLoop);

impl CallbackQueue for Callbacks {
    fn new() -> Self {
        Self(event_loop().expect("a selector is to be had"))
    }

    fn push(&mut self, callback: impl FnOnce() + 'static) {
        self.0.call_soon(callback);
    }

    fn run(&mut self) {
        self.0.run_once(Some(Duration::ZERO)).expect("the loop is open, and the only one");
    }
}

/// `n` iterations, each with one callback that is ready: it schedules the next. `watched` with a silent
/// socket registered, so that every iteration asks the kernel.
pub(crate) fn iterations(n: u64, watched: bool) -> Result<Lap, Wrong> {
    let mut event_loop = event_loop()?;
    let (socket, _peer) = UnixStream::pair()?;
    let socket = Rc::new(socket);
    if watched {
        event_loop.add_reader(&socket, || ())?;
    }
    again(event_loop.loop_ref(), n);
    let before = event_loop.statistics().iterations;
    let (lap, ran) = Lap::time(n, || event_loop.run_forever());
    ran.map_err(wrong)?;
    Wrong::unless_equal("iterations", event_loop.statistics().iterations - before, n)?;
    Ok(lap)
}

fn again(lp: LoopRef, left: u64) {
    lp.clone().call_soon(move || match left {
        1 => lp.stop(),
        left => again(lp, left - 1),
    });
}

/// Each message is a callback of its own. The selector is the one of that name.
pub(crate) struct Calls(pub(crate) &'static str);

impl Hub for Calls {
    fn run(&self, busy: bool, tally: Arc<Tally>, start: impl FnOnce(Post)) -> Result<(), Wrong> {
        let mut event_loop = EventLoop::builder().selector(by_name(self.0)?).build()?;
        if busy {
            spin(event_loop.loop_ref(), Arc::clone(&tally));
        }
        let remote = event_loop.remote();
        start(Box::new(move |value| {
            let tally = Arc::clone(&tally);
            let take = move || {
                if tally.take(value) {
                    LoopRef::current().stop();
                }
            };
            // A loop that closed early has given up on the round already.
            _ = remote.call_soon(take);
        }));
        event_loop.run_forever().map_err(wrong)
    }
}

/// A callback that schedules itself until the tally is complete.
fn spin(lp: LoopRef, tally: Arc<Tally>) {
    if !tally.is_complete() {
        lp.clone().call_soon(move || spin(lp, tally));
    }
}
