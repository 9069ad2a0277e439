//! A selector of one's own, compared with those that there are: it counts what its waits tell.
//!
//! `cargo run --release -p loop-bench --example own_selector`

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use loop_bench::{Plan, Rng, bench_selector, contest_lines};
use loop_selector::{Events, PollSelector, Selector, forward_selector};

/// How many waits there were, and how many events.
#[derive(Default)]
struct Counts {
    waits: Cell<u64>,
    events: Cell<u64>,
}

struct Counting {
    inner: PollSelector,
    counts: Rc<Counts>,
}

impl Selector for Counting {
    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        self.inner.select(events, timeout)?;
        self.counts.waits.set(self.counts.waits.get() + 1);
        self.counts.events.set(self.counts.events.get() + events.len() as u64);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "counting"
    }

    forward_selector!(inner: register modify rearm deregister registry waker as_fd);
}

fn main() {
    let plan = Plan::quick(1);
    let mut rng = Rng::new(plan.seed);
    let counts = Rc::new(Counts::default());
    let shared = Rc::clone(&counts);
    let make = move || Ok(Counting { inner: PollSelector::new()?, counts: Rc::clone(&shared) });
    for mut contest in bench_selector("counting", make).contests(&plan) {
        contest.retain(|name| {
            ["counting", "loop-selector/epoll", "loop-selector/poll"].contains(&name)
        });
        let outcome = contest.run(&plan, &mut rng);
        print!("{}", contest_lines(&outcome.rows));
        for answer in outcome.wrong {
            println!("WRONG {answer}");
        }
        let (waits, events) = (counts.waits.take(), counts.events.take());
        println!("  {waits} waits told of {events} events");
    }
}
