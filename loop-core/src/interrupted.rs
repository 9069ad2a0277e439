//! `interrupted`: until the program is asked to end.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use loop_handle::Handle;
use loop_selector::Signal;

use crate::loop_ref::LoopRef;
use crate::sync::Event;

/// What Ctrl-C sends, and what a supervisor sends first.
const REQUESTS: [Signal; 2] = [Signal::INT, Signal::TERM];

/// Waits until the program is asked to end, by SIGINT (which Ctrl-C sends) or SIGTERM (which systemd and containers
/// send), and tells by which.
///
/// ```
/// use loop_core::{LoopRef, interrupted, run, sleep, spawn};
/// use std::time::Duration;
///
/// run(async {
///     let worker = spawn(sleep(Duration::from_secs(3600)));
/// #   LoopRef::current().call_soon(|| loop_selector::raise(loop_core::Signal::TERM));
///     let signal = interrupted().await?;
///     println!("{signal:?}: the end");
///     worker.cancel();
///     std::io::Result::Ok(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Any number of tasks may wait, on any number of loops, and all are told of the next signal. While somebody waits
/// on a loop, its other handlers of the two signals are replaced, that of a [`Runner`](crate::Runner) for Ctrl-C
/// included; one that is added meanwhile replaces this, which then does not hear of that signal. From the signal
/// on, or once nobody waits any more, the old disposition is back: a second Ctrl-C ends a program whose end takes
/// too long.
///
/// Virtual time stands still for it no more than for a signal handler: it flows as fast as the real one.
///
#[doc = lost!(interrupted)]
///
/// # Errors
/// If a signal cannot be handled. Others who wait are not affected.
///
/// # Panics
/// When polled, if no loop runs on this thread.
pub async fn interrupted() -> io::Result<Signal> {
    let request = Request::on(&LoopRef::current())?;
    loop {
        if let Some(signal) = request.signal.get() {
            return Ok(signal);
        }
        request.came.wait().await;
    }
}

/// What those who wait on a loop share; it goes with the last of them.
pub(crate) struct Request {
    lp: LoopRef,
    handlers: RefCell<Vec<(Signal, Handle)>>,
    signal: Cell<Option<Signal>>,
    came: Event,
}

impl Request {
    /// That of others who wait already, or a new one.
    fn on(lp: &LoopRef) -> io::Result<Rc<Request>> {
        let shared = lp.inner.signals.borrow().request.upgrade();
        let request = shared.filter(|it| it.signal.get().is_none()).unwrap_or_else(|| {
            Rc::new(Request {
                lp: lp.clone(),
                handlers: RefCell::default(),
                signal: Cell::new(None),
                came: Event::new(),
            })
        });
        request.handle()?;
        lp.inner.signals.borrow_mut().request = Rc::downgrade(&request);
        Ok(request)
    }

    /// Handles the signals, those that others have taken over included.
    fn handle(self: &Rc<Self>) -> io::Result<()> {
        // What a handler still holds is its user's: no borrow is held while one goes.
        let (gone, kept) = self.handlers.take().into_iter().partition(|(_, it)| it.is_cancelled());
        self.handlers.replace(kept);
        drop::<Vec<_>>(gone);
        for signal in REQUESTS {
            if self.handlers.borrow().iter().any(|(handled, _)| *handled == signal) {
                continue;
            }
            let weak = Rc::downgrade(self);
            let come = move || weak.upgrade().iter().for_each(|request| request.come(signal));
            let handler = self.lp.add_signal_handler(signal, come)?;
            self.handlers.borrow_mut().push((signal, handler));
        }
        Ok(())
    }

    fn come(&self, signal: Signal) {
        self.signal.set(Some(signal));
        self.let_go();
        self.came.set();
    }

    fn let_go(&self) {
        for (signal, handler) in self.handlers.take() {
            // Another one that has taken the place has cancelled ours.
            if !handler.is_cancelled() {
                self.lp.remove_signal_handler(signal);
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.let_go();
    }
}
