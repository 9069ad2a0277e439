//! Workers that share a queue, and a graceful end: Ctrl-C stops the intake, what is queued is still finished.
//!
//! `cargo run -p loop-core --example worker_pool`, and press Ctrl-C early or not at all.

use std::error::Error;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::Duration;

use loop_core::sync::{Queue, Shutdown};
use loop_core::{TaskBuilder, TaskError, catch_cancelled, gather, run, sleep};

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many jobs were taken in.
    pub taken: u32,
    /// How many jobs each worker has done.
    pub done: Vec<u32>,
    /// Whether the intake was cut short.
    pub interrupted: bool,
}

/// Works until the queue is shut down and empty.
async fn work(queue: Rc<Queue<Duration>>) -> u32 {
    let mut done = 0;
    while let Ok(job) = queue.get().await {
        sleep(job).await;
        queue.task_done();
        done += 1;
    }
    done
}

/// Takes in `jobs`, one each `pace`, for that many workers.
pub async fn serve(workers: usize, jobs: u32, pace: Duration) -> Result<Summary, TaskError> {
    let queue = Rc::new(Queue::bounded(NonZeroUsize::MIN.saturating_add(7)));
    let workers = (1..=workers).map(|number| {
        TaskBuilder::new().name(&format!("worker {number}")).spawn(work(queue.clone()))
    });
    let workers: Vec<_> = workers.collect();
    let mut taken = 0;
    let intake = catch_cancelled(async {
        for _ in 0..jobs {
            sleep(pace).await;
            if queue.put(3 * pace).await.is_err() {
                break;
            }
            taken += 1;
        }
    });
    let interrupted = intake.await.err();
    // From here on the workers get what is there, and then the end.
    queue.shutdown(Shutdown::Drain);
    let done = gather(workers).await?;
    let summary = Summary { taken, done, interrupted: interrupted.is_some() };
    if let Some(request) = interrupted {
        request.swallow(); // It has been done what was asked for.
    }
    Ok(summary)
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn Error>> {
    let summary = run(serve(3, 100, Duration::from_millis(50)))??;
    println!("{summary:?}");
    Ok(())
}
