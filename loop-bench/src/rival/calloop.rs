//! calloop's `Timer`, each a source of its event loop, which has no other door to its timers.
//!
//! It knows the system's clock only. So its milliseconds are microseconds, and all of them lie in
//! the past: it can be asked for all its timers in order, not for those of a moment.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use calloop::timer::{TimeoutAction, Timer};
use calloop::{EventLoop, RegistrationToken};

use super::timer_store::TimerStore;

pub(crate) struct Calloop {
    event_loop: EventLoop<'static, VecDeque<u32>>,
    origin: Instant,
    fired: VecDeque<u32>,
}

impl TimerStore for Calloop {
    const NAME: &'static str = "calloop";
    const FIFO: bool = false;
    type Key = (RegistrationToken, u32);

    fn new() -> Self {
        Self {
            event_loop: EventLoop::try_new().expect("an epoll descriptor is to be had"),
            origin: Instant::now() - Duration::from_secs(10),
            fired: VecDeque::new(),
        }
    }

    fn insert(&mut self, when: u64, id: u32) -> Self::Key {
        let timer = Timer::from_deadline(self.origin + Duration::from_micros(when));
        let fire = move |_deadline, _: &mut (), fired: &mut VecDeque<u32>| {
            fired.push_back(id);
            TimeoutAction::Drop
        };
        let token = self.event_loop.handle().insert_source(timer, fire);
        (token.map_err(|refused| refused.error).expect("a timer needs no descriptor"), id)
    }

    fn cancel(&mut self, (token, id): Self::Key) -> Option<u32> {
        self.event_loop.handle().remove(token);
        Some(id)
    }

    fn reschedule(&mut self, (token, id): Self::Key, when: u64) -> Self::Key {
        self.event_loop.handle().remove(token);
        self.insert(when, id)
    }

    fn pop(&mut self, _now: u64) -> Option<u32> {
        if self.fired.is_empty() {
            let fired = &mut self.fired;
            self.event_loop.dispatch(Duration::ZERO, fired).expect("epoll does not fail");
        }
        self.fired.pop_front()
    }
}
