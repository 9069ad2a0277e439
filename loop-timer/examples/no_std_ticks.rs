//! An embedded scheduler: everything but `main` needs no more than `core` and `alloc`. The ticks
//! are those of a 32-bit hardware counter, widened by counting how often it came round.
//!
//! `cargo run -p loop-timer --example no_std_ticks`

mod scheduler {
    extern crate alloc;

    use alloc::boxed::Box;

    use loop_timer::{TimerHeap, TimerKey};

    /// Microseconds since the device was switched on.
    pub type Ticks = u64;

    type Job = Box<dyn FnMut() -> Option<u32>>;

    #[derive(Default)]
    pub struct Scheduler {
        jobs: TimerHeap<Job, Ticks>,
        rounds: u32,
        last: u32,
    }

    impl Scheduler {
        /// To be called at least once a round of the counter.
        pub fn widen(&mut self, counter: u32) -> Ticks {
            self.rounds += u32::from(counter < self.last);
            self.last = counter;
            Ticks::from(self.rounds) << 32 | Ticks::from(counter)
        }

        /// A job says after how many ticks it wants to run again, if it does.
        pub fn after(
            &mut self,
            now: Ticks,
            delay: u32,
            job: impl FnMut() -> Option<u32> + 'static,
        ) -> TimerKey {
            self.jobs.insert(now + Ticks::from(delay), Box::new(job))
        }

        pub fn cancel(&mut self, key: TimerKey) -> bool {
            self.jobs.cancel(key).is_some()
        }

        /// Runs what is due, and says for how many ticks the processor may sleep.
        pub fn run(&mut self, now: Ticks) -> Option<u32> {
            while let Some((when, _, mut job)) = self.jobs.pop_due(now) {
                if let Some(again) = job() {
                    // From its deadline, not from now: a late run does not shift the next.
                    self.jobs.insert(when + Ticks::from(again), job);
                }
            }
            let next = self.jobs.next_deadline()?;
            Some(u32::try_from(next - now).unwrap_or(u32::MAX))
        }
    }
}

fn main() {
    use std::cell::Cell;
    use std::rc::Rc;

    let blinks = Rc::new(Cell::new(0));
    let mut scheduler = scheduler::Scheduler::default();
    let now = scheduler.widen(u32::MAX - 100);
    let blink = Rc::clone(&blinks);
    scheduler.after(now, 50, move || {
        blink.set(blink.get() + 1);
        Some(500)
    });
    let watchdog = scheduler.after(now, 10_000, || panic!("the watchdog bites"));

    assert_eq!(scheduler.run(now), Some(50));
    let now = scheduler.widen(u32::MAX - 40);
    assert_eq!(scheduler.run(now), Some(490), "ten ticks late, so ten less to sleep");
    let now = scheduler.widen(1_000); // the counter came round
    assert_eq!(scheduler.run(now), Some(449));
    assert_eq!(blinks.get(), 3);
    assert!(scheduler.cancel(watchdog));
    println!("blinked {} times", blinks.get());
}

#[test]
fn jobs_run() {
    main();
}
