//! Whether the waiting side sleeps: three states, and the only atomic of the wake-up protocol.
//!
//! ```text
//!            park                         notify (writes)
//!   AWAKE ----------> PARKED ----------------------------------> NOTIFIED
//!     ^ \               |                                          |  ^
//!     |  `--------------|----- notify (writes nothing) ------------|--'
//!     `----- unpark ----'--------------- unpark -------------------'
//! ```
//!
//! The producer publishes, then notifies. The consumer parks, waits, un-parks, then looks. All
//! steps are read-modify-writes of one atomic, so they have one order, and each acquires what came
//! before it. Whatever was published before a `notify` is therefore seen either by the look behind
//! the `unpark` that comes after it in this order; or, if the consumer was parked, the `notify`
//! wrote to the descriptor, which ends the wait and so brings that `unpark` about; or, if it was
//! awake, the next `park` fails, and the wait with a zero timeout brings it about.
//!
//! An `unpark` that reads AWAKE has nothing to undo and leaves it there. What a `notify` brings that it
//! has not seen is for the next one, as if that `notify` had come a moment later.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

#[derive(Debug)]
pub(crate) struct WakeState(AtomicU8);

impl WakeState {
    pub(crate) fn new() -> WakeState {
        WakeState(AtomicU8::new(AWAKE))
    }

    /// Producer, after publishing. True if the descriptor must be written to.
    pub(crate) fn notify(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == PARKED
    }

    /// Consumer, before waiting. False if a notification is there already: do not sleep.
    pub(crate) fn park(&self) -> bool {
        self.0.compare_exchange(AWAKE, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Consumer, after waiting and before looking at what was published.
    pub(crate) fn unpark(&self) {
        // Mostly so after a wait of no time, and a read is cheaper by far.
        if self.0.load(Ordering::Relaxed) != AWAKE {
            // A swap although the old value is of no use: a plain store would not acquire.
            self.0.swap(AWAKE, Ordering::AcqRel);
        }
    }

    pub(crate) fn is_notified(&self) -> bool {
        self.0.load(Ordering::Acquire) == NOTIFIED
    }
}

// ci/loom
#[cfg(all(test, loom))]
mod tests {
    use std::mem;

    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    trait Protocol: Send + Sync + 'static {
        fn new() -> Self;
        fn notify(&self) -> bool;
        fn park(&self) -> bool;
        fn unpark(&self);
    }

    impl Protocol for WakeState {
        fn new() -> Self {
            WakeState::new()
        }
        fn notify(&self) -> bool {
            self.notify()
        }
        fn park(&self) -> bool {
            self.park()
        }
        fn unpark(&self) {
            self.unpark()
        }
    }

    /// Wrong: it parks without looking whether a notification is there already.
    struct ParksBlindly(WakeState);

    impl Protocol for ParksBlindly {
        fn new() -> Self {
            ParksBlindly(WakeState::new())
        }
        fn notify(&self) -> bool {
            self.0.notify()
        }
        fn park(&self) -> bool {
            self.0.0.store(PARKED, Ordering::Release);
            true
        }
        fn unpark(&self) {
            self.0.unpark()
        }
    }

    /// Wrong: it un-parks without acquiring what was published.
    struct DoesNotAcquire(WakeState);

    impl Protocol for DoesNotAcquire {
        fn new() -> Self {
            DoesNotAcquire(WakeState::new())
        }
        fn notify(&self) -> bool {
            self.0.notify()
        }
        fn park(&self) -> bool {
            self.0.0.compare_exchange(AWAKE, PARKED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        }
        fn unpark(&self) {
            self.0.0.store(AWAKE, Ordering::Relaxed);
        }
    }

    /// The descriptor, and what the producers publish.
    #[derive(Default)]
    struct World {
        writes: AtomicUsize,
        published: AtomicUsize,
    }

    /// In every interleaving the consumer sees all that was published and sleeps no wake away. Were
    /// one lost, it would wait for ever, which loom reports.
    /// Without `first_sleeps` its first wait is one of no time, which parks nothing.
    fn model<P: Protocol>(producers: usize, first_sleeps: bool) {
        loom::model(move || {
            let shared = Arc::new((P::new(), World::default()));
            let threads: Vec<_> = (0..producers)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        let (state, world) = &*shared;
                        world.published.fetch_add(1, Ordering::Relaxed);
                        if state.notify() {
                            world.writes.fetch_add(1, Ordering::Release);
                        }
                    })
                })
                .collect();
            let (state, world) = &*shared;
            let mut seen = 0;
            let mut sleeps = first_sleeps;
            while seen < producers {
                if mem::replace(&mut sleeps, true) && state.park() {
                    while world.writes.load(Ordering::Acquire) == 0 {
                        thread::yield_now();
                    }
                }
                state.unpark();
                // Drained only if it was readable.
                if world.writes.load(Ordering::Acquire) > 0 {
                    world.writes.store(0, Ordering::Relaxed);
                }
                seen = world.published.load(Ordering::Relaxed);
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn b_thr_03_no_wake_is_lost_with_one_producer() {
        model::<WakeState>(1, true);
    }

    #[test]
    fn b_thr_03_no_wake_is_lost_with_two_producers() {
        model::<WakeState>(2, true);
    }

    #[test]
    fn b_thr_03_no_wake_is_lost_to_a_wait_of_no_time() {
        model::<WakeState>(1, false);
    }

    #[test]
    #[should_panic]
    fn a_protocol_that_parks_blindly_is_found_out() {
        model::<ParksBlindly>(1, true);
    }

    #[test]
    #[should_panic]
    fn a_protocol_that_does_not_acquire_is_found_out() {
        model::<DoesNotAcquire>(1, true);
    }
}
