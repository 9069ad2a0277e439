//! A program's main function, asynchronous.

use std::future::Future;
use std::time::Duration;

use crate::error::LoopError;
use crate::event_loop::EventLoop;
use crate::task::cancel_all;

/// How often tasks that destructors keep spawning are cancelled again before closing drops them.
const ROUNDS: usize = 100;

/// How long the threads of blocking work are waited for.
const JOIN: Duration = Duration::from_secs(300);

/// Runs `future` on a loop of its own and closes that loop; asyncio's `run`.
///
/// Tasks that are left when the future is done, or when it panics, are cancelled and waited for
/// before the loop closes, and blocking work on the loop's own threads is waited for, five minutes at the
/// most (B-RUN-03).
///
/// ```
/// # use loop_core::{run, spawn};
/// let answer = run(async {
///     let task = spawn(async { 42 });
///     task.await.unwrap()
/// })?;
/// assert_eq!(answer, 42);
/// # Ok::<(), loop_core::LoopError>(())
/// ```
///
/// # Errors
/// [`LoopError::Select`] if no loop can be made or waiting fails, [`LoopError::NestedLoop`] inside
/// another loop, [`LoopError::StoppedEarly`] if something stops the loop.
///
/// # Panics
/// With the future's panic.
#[track_caller]
pub fn run<F: Future>(future: F) -> Result<F::Output, LoopError> {
    let mut runner = CancelTasks { event_loop: EventLoop::new().map_err(LoopError::Select)? };
    runner.event_loop.run_until_complete(future)
}

/// Ends what is left on every way out.
struct CancelTasks {
    event_loop: EventLoop,
}

impl Drop for CancelTasks {
    fn drop(&mut self) {
        for _ in 0..ROUNDS {
            let all_ended = self.event_loop.tasks().is_empty();
            cancel_all(&self.event_loop);
            // One iteration drops every body, the next one runs the done callbacks. If waiting fails,
            // closing drops the rest.
            if self.event_loop.run_once(Some(Duration::ZERO)).is_err() || all_ended {
                break;
            }
        }
        if self.event_loop.has_default_executor() {
            let lp = self.event_loop.loop_ref();
            let shutdown = lp.shutdown_default_executor(Some(JOIN));
            // It reports itself what goes wrong.
            let _ = self.event_loop.run_until_complete(shutdown);
        }
    }
}
