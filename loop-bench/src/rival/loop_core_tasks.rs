//! This project's tasks and sleeps.

use std::cell::Cell;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use loop_core::sync::Event;
use loop_core::{EventLoop, LoopError, sleep, yield_now};

use super::loop_core::event_loop;
use super::sleeping;
use crate::sample::{Lap, Wrong};

fn run<T>(event_loop: &mut EventLoop, body: impl Future<Output = T>) -> Result<T, Wrong> {
    event_loop
        .run_until_complete(body)
        .map_err(|error: LoopError| Wrong(format!("the loop's run: {error}")))
}

/// `batches` times: spawns `batch` tasks, then awaits them all.
pub(crate) fn spawn(batches: u64, batch: u64) -> Result<Lap, Wrong> {
    let mut event_loop = event_loop()?;
    let mut tasks = Vec::with_capacity(batch as usize);
    let mut sum = 0;
    let (lap, done) = Lap::time(batches * batch, || {
        run(&mut event_loop, async {
            for _ in 0..batches {
                tasks.extend((0..batch).map(|n| loop_core::spawn(async move { n })));
                for task in tasks.drain(..) {
                    sum += task.await.unwrap_or(0);
                }
            }
        })
    });
    done?;
    Wrong::unless_equal("the sum of what tasks return", sum, batches * (batch * (batch - 1) / 2))?;
    Ok(lap)
}

/// `tasks` tasks at once, each of which gives way `steps` times.
pub(crate) fn give_way(tasks: u64, steps: u64) -> Result<Lap, Wrong> {
    let mut event_loop = event_loop()?;
    let taken = Rc::new(Cell::new(0));
    let (lap, done) = Lap::time(tasks * steps, || {
        run(&mut event_loop, async {
            let step = |_| {
                let taken = Rc::clone(&taken);
                loop_core::spawn(async move {
                    for _ in 0..steps {
                        yield_now().await;
                        taken.set(taken.get() + 1);
                    }
                })
            };
            for task in (0..tasks).map(step).collect::<Vec<_>>() {
                // A task that failed has not counted its steps.
                _ = task.await;
            }
        })
    });
    done?;
    Wrong::unless_equal("steps", taken.get(), tasks * steps)?;
    Ok(lap)
}

/// Two tasks hand over to each other, `switches` times in all; `watched` with a silent socket registered
/// beside them, so that every iteration asks the kernel.
pub(crate) fn handover(switches: u64, watched: bool) -> Result<Lap, Wrong> {
    let mut event_loop = event_loop()?;
    let (socket, _peer) = UnixStream::pair()?;
    let socket = Rc::new(socket);
    if watched {
        event_loop.add_reader(&socket, || ())?;
    }
    let taken = Rc::new(Cell::new(0));
    let (ping, pong) = (Rc::new(Event::new()), Rc::new(Event::new()));
    let side = |mine: &Rc<Event>, other: &Rc<Event>| {
        let (mine, other, taken) = (Rc::clone(mine), Rc::clone(other), Rc::clone(&taken));
        async move {
            for _ in 0..switches / 2 {
                mine.wait().await;
                mine.clear();
                taken.set(taken.get() + 1);
                other.set();
            }
        }
    };
    let (first, second) = (side(&ping, &pong), side(&pong, &ping));
    let (lap, done) = Lap::time(switches, || {
        run(&mut event_loop, async {
            let tasks = [first, second].map(loop_core::spawn);
            ping.set();
            for task in tasks {
                // A task that failed has not counted its turns.
                _ = task.await;
            }
        })
    });
    done?;
    Wrong::unless_equal("turns", taken.get(), switches)?;
    Ok(lap)
}

pub(crate) fn sleeps(live: u64, steps: u64, seed: Option<u64>) -> Result<Lap, Wrong> {
    run(&mut event_loop()?, sleeping::steps(sleep, live, steps, seed))?
}

/// The work of [`sleeping::outlast_a_step`].
pub(crate) fn sleeps_of_tasks(live: u64, steps: u64) -> Result<Lap, Wrong> {
    let spawn = |rounds| {
        let task = loop_core::spawn(sleeping::rounds(sleep, rounds));
        async move { task.await.unwrap_or(u64::MAX) }
    };
    run(&mut event_loop()?, sleeping::outlast_a_step(sleep, spawn, live, steps))?
}
