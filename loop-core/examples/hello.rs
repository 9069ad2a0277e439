//! Hello, twice: with callbacks, and with tasks.
//!
//! `cargo run -p loop-core --example hello`

use std::io;
use std::time::Duration;

use loop_core::{EventLoop, run, sleep, spawn};

/// asyncio's `call_later`, and a loop that runs until it is stopped.
fn with_callbacks() -> io::Result<()> {
    let mut event_loop = EventLoop::new()?;
    let lp = event_loop.loop_ref();
    event_loop.call_soon(|| println!("hello,"));
    event_loop.call_later(Duration::from_millis(5), move || {
        println!("world");
        lp.stop();
    });
    event_loop.run_forever()?;
    Ok(())
}

/// The same with `async`.
fn with_tasks() -> io::Result<()> {
    run(async {
        let world = spawn(async {
            sleep(Duration::from_millis(5)).await;
            "world"
        });
        println!("hello,");
        println!("{}", world.await?);
        Ok(())
    })?
}

/// Both, one after the other.
pub fn main() -> io::Result<()> {
    with_callbacks()?;
    with_tasks()
}
