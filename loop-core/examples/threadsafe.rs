//! A second thread schedules into a loop that has nothing else to do: the wait ends, the callback runs
//! on the loop's thread.
//!
//! `cargo run -p loop-core --example threadsafe`

use std::cell::RefCell;
use std::io;
use std::thread;
use std::time::Duration;

use loop_core::EventLoop;

thread_local! {
    /// No lock: only the loop's thread ever touches it.
    static SEEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Runs the example and returns what the loop's thread saw.
pub fn run() -> io::Result<Vec<u32>> {
    let mut event_loop = EventLoop::new()?;
    let remote = event_loop.remote();
    let worker = thread::spawn(move || -> io::Result<()> {
        for n in 1..=3 {
            thread::sleep(Duration::from_millis(2)); // some work
            remote.call_soon(move || SEEN.with_borrow_mut(|seen| seen.push(n)))?;
        }
        Ok(remote.stop()?)
    });
    event_loop.run_forever()?;
    worker.join().expect("the worker does not panic")?;
    Ok(SEEN.take())
}

fn main() -> io::Result<()> {
    println!("{:?}", run()?);
    Ok(())
}
