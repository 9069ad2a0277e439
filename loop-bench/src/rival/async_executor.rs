//! async-executor's `LocalExecutor`: tasks without timers or sockets.

use async_executor::LocalExecutor;
use futures_lite::future::block_on;

use crate::sample::{Lap, Wrong};

/// `batches` times: spawns `batch` tasks, then awaits them all.
pub(crate) fn spawn(batches: u64, batch: u64) -> Result<Lap, Wrong> {
    let executor = LocalExecutor::new();
    let mut tasks = Vec::with_capacity(batch as usize);
    let (lap, sum) = Lap::time(batches * batch, || {
        block_on(executor.run(async {
            let mut sum = 0;
            for _ in 0..batches {
                tasks.extend((0..batch).map(|n| executor.spawn(async move { n })));
                for task in tasks.drain(..) {
                    sum += task.await;
                }
            }
            sum
        }))
    });
    Wrong::unless_equal("the sum of what tasks return", sum, batches * (batch * (batch - 1) / 2))?;
    Ok(lap)
}
