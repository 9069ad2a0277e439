//! SIGINT, which Ctrl-C sends, as a request to end.

use std::cell::Cell;
use std::rc::Rc;

use loop_handle::Handle;
use loop_selector::Signal;

use crate::error::LoopError;
use crate::loop_ref::LoopRef;
use crate::task::TaskRef;

/// The reason of the request, for code that catches it.
const REASON: &str = "interrupted";

/// The handler of a run, while it lasts: the first interrupt cancels the root, the next one ends the run.
pub(crate) struct Interrupts {
    lp: LoopRef,
    root: TaskRef,
    handler: Handle,
    count: Rc<Cell<u32>>,
}

impl Interrupts {
    /// `None` if somebody handles or ignores the signal already (B-RUN-13), or if it cannot be handled.
    pub(crate) fn install(lp: &LoopRef, root: &TaskRef) -> Option<Interrupts> {
        if lp.has_signal_handler(Signal::INT) || !Signal::INT.is_default() {
            return None;
        }
        let count = Rc::new(Cell::new(0));
        let callback = {
            let (lp, root, count) = (lp.clone(), root.clone(), count.clone());
            move || {
                count.set(count.get() + 1);
                if count.get() > 1 || !root.cancel_with(REASON) {
                    lp.stop();
                }
            }
        };
        let handler = lp.add_emergency_handler(Signal::INT, callback).ok()?;
        Some(Interrupts { lp: lp.clone(), root: root.clone(), handler, count })
    }

    /// What the run says, if interrupts have a part in it. They do not hide that somebody else cancelled the
    /// root too (B-RUN-12).
    pub(crate) fn judge<T>(&self, outcome: Result<T, LoopError>) -> Result<T, LoopError> {
        let interrupted = match &outcome {
            Err(LoopError::Cancelled { .. }) => self.count.get() > 0 && self.root.uncancel() == 0,
            Err(LoopError::StoppedEarly) => self.count.get() > 1,
            _ => false,
        };
        if interrupted { Err(LoopError::Interrupted) } else { outcome }
    }
}

impl Drop for Interrupts {
    /// Unless another handler has taken the place: ours is cancelled then.
    fn drop(&mut self) {
        if !self.handler.is_cancelled() {
            self.lp.remove_signal_handler(Signal::INT);
        }
    }
}
