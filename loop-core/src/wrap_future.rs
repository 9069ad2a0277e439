//! `wrap_future`: what runs on another loop, as a future of this one.

use crate::error::TaskError;
use crate::future::LoopFuture;
use crate::loop_ref::LoopRef;
use crate::remote_future::RemoteFuture;
use crate::task::TaskBuilder;

impl LoopRef {
    /// A future of this loop that ends as a task of another one does; asyncio's `wrap_future`.
    ///
    /// A [`RemoteFuture`] can be awaited as it is, by one task. The future that this returns is asyncio's:
    /// any number of tasks may await it, it has callbacks, and cancelling either side cancels the other
    /// (B-FUT-17). The outcome is brought over by a task of this loop, `wrap_future` by name.
    ///
    /// If this loop closes first, the future is cancelled and the task over there runs on; what it brings is
    /// dropped (B-FUT-18).
    ///
    /// ```
    /// # use loop_core::{EventLoop, LoopRef, run, sleep};
    /// # use std::{thread, time::Duration};
    /// let mut there = EventLoop::new()?;
    /// let remote = there.remote();
    /// let here = thread::spawn(move || {
    ///     run(async {
    ///         let answer = remote.spawn(|| async {
    ///             sleep(Duration::from_millis(1)).await;
    ///             42
    ///         });
    ///         let answer = LoopRef::current().wrap_future(answer.unwrap());
    ///         assert_eq!(answer.clone().await.unwrap() + answer.await.unwrap(), 84);
    ///         remote.stop().unwrap();
    ///     })
    /// });
    /// there.run_forever()?;
    /// here.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn wrap_future<T: Send + 'static>(
        &self,
        remote: RemoteFuture<T>,
    ) -> LoopFuture<T, TaskError> {
        let future = self.create_future();
        let mut bridge = Bridge { lp: self.clone(), future: future.clone(), remote };
        let task = TaskBuilder::new().name("wrap_future").spawn_on(self, async move {
            let outcome = (&mut bridge.remote).await;
            bridge.pass_on(outcome);
        });
        // Ends the bridge if the future is cancelled; otherwise it has ended already.
        future.add_done_callback(move || _ = task.cancel());
        future
    }
}

/// The two sides. Dropped before the outcome came over, it cancels both.
struct Bridge<T: Send + 'static> {
    lp: LoopRef,
    future: LoopFuture<T, TaskError>,
    remote: RemoteFuture<T>,
}

impl<T: Send + 'static> Bridge<T> {
    /// The future may have been completed by somebody else; then that counts.
    fn pass_on(&self, outcome: Result<T, TaskError>) {
        let _ = match outcome {
            Ok(value) => self.future.set_result(value).is_ok(),
            Err(TaskError::Cancelled { reason: Some(reason) }) => self.future.cancel_with(&reason),
            Err(TaskError::Cancelled { reason: None }) => self.future.cancel(),
            Err(error) => self.future.set_error(error).is_ok(),
        };
    }
}

impl<T: Send + 'static> Drop for Bridge<T> {
    fn drop(&mut self) {
        // Neither does anything to what has ended; asking first keeps an error reported that nobody read.
        if !self.lp.is_closed() {
            self.remote.cancel();
        }
        if !self.future.is_done() {
            self.future.cancel();
        }
    }
}
