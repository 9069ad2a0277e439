//! A queue between threads, and a waker that says when to look at it: what the "self-pipe trick" is
//! for. No selector at all is needed to wait for one thing; `poll` from anywhere will do.
//!
//! ```text
//! cargo run -p loop-selector --example self_pipe -- [eventfd | pipe | socketpair]
//! ```

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use loop_selector::Waker;
use rustix::event::{PollFd, PollFlags, poll};

/// Sends `count` numbers from each of `threads` threads, and returns their sum as received here.
pub fn sum_from_threads(waker: &Waker, threads: u64, count: u64) -> io::Result<u64> {
    let (sender, receiver) = channel();
    let producers: Vec<_> = (0..threads)
        .map(|_| {
            let (sender, waker) = (sender.clone(), waker.clone());
            thread::spawn(move || {
                for number in 0..count {
                    sender.send(number).expect("the receiver waits for all of us");
                    waker.wake(); // behind the `send`: publish first, then wake
                }
            })
        })
        .collect();
    let mut left = threads * count;
    let mut sum = 0;
    while left > 0 {
        wait(waker)?;
        let (received, part) = take_all(&receiver);
        left -= received;
        sum += part;
    }
    producers.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    Ok(sum)
}

/// Sleeps until there is something to look at.
fn wait(waker: &Waker) -> io::Result<()> {
    if waker.park() {
        let mut fds = [PollFd::new(waker, PollFlags::IN)];
        let result = poll(&mut fds, None);
        waker.unpark();
        if result? > 0 {
            waker.drain();
        }
    } else {
        waker.unpark(); // woken while it was awake: nothing was written, nothing to wait for
    }
    Ok(())
}

fn take_all(receiver: &Receiver<u64>) -> (u64, u64) {
    receiver.try_iter().fold((0, 0), |(count, sum), number| (count + 1, sum + number))
}

#[allow(dead_code)] // a test includes this file for what is above
fn main() -> io::Result<()> {
    let kind = std::env::args().nth(1).unwrap_or_else(|| "pipe".to_owned());
    let waker = match kind.as_str() {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        "eventfd" => Waker::eventfd()?,
        "pipe" => Waker::pipe()?,
        "socketpair" => Waker::socketpair()?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such kind of waker")),
    };
    println!("{kind}: the sum is {}", sum_from_threads(&waker, 4, 10_000)?);
    Ok(())
}
