//! Timer wheels: `hierarchical_hash_wheel_timer` and `nexus-timer`. Both fire on their tick of a
//! millisecond, but the next deadline that they tell is only a lower bound.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hierarchical_hash_wheel_timer::IdOnlyTimerEntry;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::QuadWheelWithOverflow;

use super::timer_store::TimerStore;

pub(crate) struct QuadWheel {
    wheel: QuadWheelWithOverflow<IdOnlyTimerEntry<u32>>,
    now: u64,
    /// Fired, but not asked for yet. In the order of their ticks.
    fired: VecDeque<u32>,
}

impl TimerStore for QuadWheel {
    const NAME: &'static str = "hierarchical_hash_wheel_timer";
    const FIFO: bool = false;
    type Key = u32;

    fn new() -> Self {
        Self { wheel: QuadWheelWithOverflow::new(), now: 0, fired: VecDeque::new() }
    }

    fn insert(&mut self, when: u64, id: u32) -> u32 {
        let delay = Duration::from_millis(when.saturating_sub(self.now));
        if delay.is_zero() {
            self.fired.push_back(id);
        } else {
            let entry = Rc::new(IdOnlyTimerEntry { id, delay });
            self.wheel.insert_ref_with_delay(entry, delay).expect("the delay is not zero");
        }
        id
    }

    fn cancel(&mut self, key: u32) -> Option<u32> {
        self.wheel.cancel(&key).ok().map(|()| key)
    }

    fn reschedule(&mut self, key: u32, when: u64) -> u32 {
        _ = self.cancel(key);
        self.insert(when, key)
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        while self.fired.is_empty() && self.now < now {
            match self.wheel.can_skip() {
                Skip::Empty => return None,
                Skip::Millis(most) => {
                    let step = u64::from(most).min(now - self.now);
                    self.wheel.skip(step as u32);
                    self.now += step;
                }
                Skip::None => {
                    self.now += 1;
                    self.fired.extend(self.wheel.tick().iter().map(|entry| entry.id));
                }
            }
        }
        self.fired.pop_front()
    }
}

const HALF: Duration = Duration::from_micros(500);

pub(crate) struct Nexus {
    wheel: nexus_timer::Wheel<u32>,
    origin: Instant,
    polled: u64,
    buffer: Vec<u32>,
    fired: VecDeque<u32>,
}

impl Nexus {
    /// The middle of a millisecond: the beginning may be rounded to the tick before.
    fn at(&self, when: u64) -> Instant {
        self.origin + Duration::from_millis(when) + HALF
    }

    fn poll(&mut self, now: Instant) {
        self.wheel.poll_and_rebalance(now, &mut self.buffer);
        self.fired.extend(self.buffer.drain(..));
    }
}

impl TimerStore for Nexus {
    const NAME: &'static str = "nexus-timer";
    const FIFO: bool = false;
    type Key = nexus_timer::TimerHandle<u32>;

    fn new() -> Self {
        let origin = Instant::now();
        let wheel = nexus_timer::Wheel::unbounded(4096, origin);
        Self { wheel, origin, polled: 0, buffer: Vec::new(), fired: VecDeque::new() }
    }

    fn insert(&mut self, when: u64, id: u32) -> Self::Key {
        self.wheel.schedule(self.at(when), id)
    }

    fn cancel(&mut self, key: Self::Key) -> Option<u32> {
        self.wheel.cancel(key)
    }

    fn reschedule(&mut self, key: Self::Key, when: u64) -> Self::Key {
        self.wheel.reschedule(key, self.at(when))
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        if self.fired.is_empty() && now > self.polled {
            // A poll over many ticks takes them slot by slot, out of order, so it goes deadline by
            // deadline, and on to `now` when nothing is due.
            let now = now.min(1 << 40);
            let until = self.at(now);
            while self.fired.is_empty() {
                match self.wheel.next_deadline() {
                    Some(next) if next <= until => self.poll(next + HALF),
                    _ => {
                        self.polled = now;
                        break;
                    }
                }
            }
        }
        self.fired.pop_front()
    }

    fn insert_only(&mut self, when: u64, id: u32) {
        self.wheel.schedule_forget(self.at(when), id);
    }

    fn forget(&mut self, key: Self::Key) {
        self.wheel.free(key);
    }
}
