//! What other threads hold of a loop.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use loop_handle::{Outcome, ThreadsafeHandle};

use crate::current;
use crate::error::Closed;
use crate::inbox::{Inbox, Message};
use crate::ready::Ready;

/// A loop, seen from any thread: cheap to clone, `Send` and `Sync`.
///
/// A call from elsewhere costs one system call if the loop waits, none while it is awake (B-THR-05).
///
/// ```
/// # use loop_core::EventLoop;
/// let mut event_loop = EventLoop::new()?;
/// let remote = event_loop.remote();
/// let thread = std::thread::spawn(move || {
///     remote.call_soon(|| println!("on the loop's thread")).unwrap();
///     remote.stop().unwrap();
/// });
/// event_loop.run_forever()?;
/// thread.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Remote {
    pub(crate) inbox: Arc<Inbox>,
}

impl Clone for Remote {
    fn clone(&self) -> Self {
        Remote::new(self.inbox.clone())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.inbox.holds.release();
    }
}

impl Remote {
    /// It holds virtual time while it lives, for somebody may call.
    pub(crate) fn new(inbox: Arc<Inbox>) -> Self {
        inbox.holds.add();
        Remote { inbox }
    }

    /// Runs `callback` on the loop's thread; asyncio's `call_soon_threadsafe`.
    ///
    /// Calls from one thread keep their order. From the loop's own thread it is `call_soon` (B-THR-01,
    /// B-THR-02). If the loop closes before the callback ran, the callback is dropped on the closing
    /// thread (B-THR-10).
    ///
    /// # Errors
    /// [`Closed`], with the callback, if the loop is closed.
    #[track_caller]
    pub fn call_soon<F, R>(&self, callback: F) -> Result<ThreadsafeHandle, Closed<F>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Outcome,
    {
        if self.inbox.is_closed() {
            return Err(Closed(callback));
        }
        let handle = ThreadsafeHandle::new_at(Location::caller(), callback);
        if let Some(inner) = current::find(self.inbox.loop_id) {
            inner.ready.push(Ready::Remote(handle.clone()));
            return Ok(handle);
        }
        match self.inbox.send(Message::Call(handle.clone())) {
            Ok(()) => Ok(handle),
            // Lost the race against closing: nobody has run it, so it is still there to give back.
            Err(_) => match handle.take() {
                Some(callback) => Err(Closed(callback)),
                None => Ok(handle),
            },
        }
    }

    /// Ends the loop's run after its current iteration, as
    /// [`LoopRef::stop`](crate::LoopRef::stop); wakes it if it waits (B-THR-09).
    ///
    /// # Errors
    /// [`Closed`] if the loop is closed.
    pub fn stop(&self) -> Result<(), Closed<()>> {
        match current::find(self.inbox.loop_id) {
            Some(inner) if !self.inbox.is_closed() => {
                inner.stopping.set(true);
                Ok(())
            }
            _ => self.inbox.send(Message::Stop).map_err(|_| Closed(())),
        }
    }

    /// Whether the loop is closed. It may be by the time the answer is looked at.
    pub fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("closed", &self.is_closed()).finish()
    }
}
