//! The tasks and sleeps of tokio's current-thread runtime.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::sleep;

use super::sleeping;
use super::tokio::runtime;
use crate::sample::{Lap, Wrong};

/// `batches` times: spawns `batch` tasks that are not `Send`, then awaits them all.
pub(crate) fn spawn(batches: u64, batch: u64) -> Result<Lap, Wrong> {
    let runtime = runtime()?;
    let sum = Rc::new(Cell::new(0));
    let mut tasks = Vec::with_capacity(batch as usize);
    let (lap, ()) = Lap::time(batches * batch, || {
        LocalSet::new().block_on(&runtime, async {
            for _ in 0..batches {
                tasks.extend((0..batch).map(|n| spawn_local(async move { n })));
                for task in tasks.drain(..) {
                    sum.set(sum.get() + task.await.unwrap_or(0));
                }
            }
        });
    });
    let expected = batches * (batch * (batch - 1) / 2);
    Wrong::unless_equal("the sum of what tasks return", sum.get(), expected)?;
    Ok(lap)
}

/// `tasks` tasks at once, each of which gives way `steps` times.
pub(crate) fn give_way(tasks: u64, steps: u64) -> Result<Lap, Wrong> {
    let runtime = runtime()?;
    let taken = Arc::new(AtomicU64::new(0));
    let (lap, ()) = Lap::time(tasks * steps, || {
        runtime.block_on(async {
            let step = |_| {
                let taken = Arc::clone(&taken);
                tokio::spawn(async move {
                    let mut own = 0;
                    for _ in 0..steps {
                        yield_now().await;
                        own += 1;
                    }
                    taken.fetch_add(own, Ordering::Relaxed);
                })
            };
            for task in (0..tasks).map(step).collect::<Vec<_>>() {
                // A task that failed has not counted its steps.
                _ = task.await;
            }
        });
    });
    Wrong::unless_equal("steps", taken.load(Ordering::Relaxed), tasks * steps)?;
    Ok(lap)
}

/// Two spawned tasks hand over to each other through notifies, `switches` times in all.
pub(crate) fn handover(switches: u64) -> Result<Lap, Wrong> {
    let runtime = runtime()?;
    let taken = Arc::new(AtomicU64::new(0));
    let (ping, pong) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let side = |mine: &Arc<Notify>, other: &Arc<Notify>| {
        let (mine, other, taken) = (Arc::clone(mine), Arc::clone(other), Arc::clone(&taken));
        async move {
            let mut own = 0;
            for _ in 0..switches / 2 {
                mine.notified().await;
                own += 1;
                other.notify_one();
            }
            taken.fetch_add(own, Ordering::Relaxed);
        }
    };
    let (first, second) = (side(&ping, &pong), side(&pong, &ping));
    let (lap, ()) = Lap::time(switches, || {
        runtime.block_on(async {
            let tasks = [first, second].map(tokio::spawn);
            ping.notify_one();
            for task in tasks {
                // A task that failed has not counted its turns.
                _ = task.await;
            }
        });
    });
    Wrong::unless_equal("turns", taken.load(Ordering::Relaxed), switches)?;
    Ok(lap)
}

pub(crate) fn sleeps(live: u64, steps: u64, seed: Option<u64>) -> Result<Lap, Wrong> {
    runtime()?.block_on(sleeping::steps(sleep, live, steps, seed))
}

/// The work of [`sleeping::outlast_a_step`].
pub(crate) fn sleeps_of_tasks(live: u64, steps: u64) -> Result<Lap, Wrong> {
    let spawn = |rounds| {
        let task = tokio::spawn(sleeping::rounds(sleep, rounds));
        async move { task.await.unwrap_or(u64::MAX) }
    };
    runtime()?.block_on(sleeping::outlast_a_step(sleep, spawn, live, steps))
}
