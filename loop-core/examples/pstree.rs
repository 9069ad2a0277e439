//! A program that shows its task tree when it gets `SIGUSR1`, while it goes on working:
//!
//! ```text
//! cargo run -p loop-core --example pstree &
//! kill -USR1 %1
//! ```
//!
//! In a program of your own one line does it: `lp.dump_on_signal(Signal::USR1)`.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use loop_core::sync::{Lock, Queue};
use loop_core::{
    Dump, EventLoop, LoopRef, Signal, TaskGroup, current_task, delay_from_secs_f64, sleep,
};

/// A worker, which takes jobs from a queue and works on them under a lock.
async fn worker(jobs: Rc<Queue<u32>>, machine: Rc<Lock>, pause: Duration) -> io::Result<()> {
    while let Ok(_job) = jobs.get().await {
        let _working = machine.acquire().await;
        sleep(pause).await;
        jobs.task_done();
    }
    Ok(())
}

/// Three workers and one machine, until there is no more to do.
pub async fn work(pause: Duration) -> io::Result<()> {
    if let Some(task) = current_task() {
        task.set_name("main");
    }
    let jobs = Rc::new(Queue::new());
    let machine = Rc::new(Lock::new());
    for job in 0..100 {
        jobs.try_put(job).map_err(io::Error::other)?;
    }
    TaskGroup::scope(async |group| {
        for number in 1..=3 {
            let task = group.spawn(worker(jobs.clone(), machine.clone(), pause));
            task.set_name(&format!("worker {number}"));
        }
        jobs.join().await;
        group.cancel();
        Ok(())
    })
    .await
    .map_err(io::Error::other)
}

/// Shows each dump that `SIGUSR1` asks for.
pub fn show_on_signal(lp: &LoopRef, show: impl Fn(Dump) + 'static) -> io::Result<()> {
    let dumped = lp.clone();
    lp.add_signal_handler(Signal::USR1, move || show(dumped.dump()))?;
    Ok(())
}

fn main() -> io::Result<()> {
    let pause = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(1.0);
    let pause = delay_from_secs_f64(pause)?;
    let mut event_loop = EventLoop::new()?;
    event_loop.set_debug(true); // for who holds the lock
    show_on_signal(&event_loop, |dump| print!("{dump}"))?;
    println!("kill -USR1 {}", std::process::id());
    event_loop.run_until_complete(work(pause))?
}
