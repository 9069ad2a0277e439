//! A map whose entries expire when they were not used for a while: a session store, a cache.
//!
//! The map holds the sessions, the heap holds their names; each session knows its timer's key.
//!
//! `cargo run -p loop-timer --example session_expiry`

use std::collections::HashMap;
use std::time::{Duration, Instant};

use loop_timer::{TimerHeap, TimerKey};

struct Sessions {
    idle: Duration,
    users: HashMap<u64, (String, TimerKey)>,
    expiries: TimerHeap<u64, Instant>,
}

impl Sessions {
    fn new(idle: Duration) -> Sessions {
        Sessions { idle, users: HashMap::new(), expiries: TimerHeap::new() }
    }

    fn log_in(&mut self, id: u64, user: &str, now: Instant) {
        let key = self.expiries.insert(now + self.idle, id);
        if let Some((_, old)) = self.users.insert(id, (user.to_string(), key)) {
            self.expiries.cancel(old);
        }
    }

    /// Every use puts the expiry off: a reschedule, which keeps the key.
    fn user(&mut self, id: u64, now: Instant) -> Option<&str> {
        let (user, key) = self.users.get(&id)?;
        self.expiries.reschedule(*key, now + self.idle);
        Some(user)
    }

    fn log_out(&mut self, id: u64) -> bool {
        match self.users.remove(&id) {
            Some((_, key)) => self.expiries.cancel(key).is_some(),
            None => false,
        }
    }

    /// Forgets up to a hundred sessions a call, so that a crowd does not hold up the caller. Then
    /// says when to call again.
    fn expire(&mut self, now: Instant) -> Option<Instant> {
        for (_when, _key, id) in self.expiries.drain_due(now, 100) {
            self.users.remove(&id);
        }
        self.expiries.next_deadline()
    }
}

fn main() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut sessions = Sessions::new(Duration::from_secs(600));
    sessions.log_in(1, "ada", at(0));
    sessions.log_in(2, "grace", at(0));
    sessions.log_in(3, "mary", at(0));

    assert_eq!(sessions.user(1, at(300)), Some("ada"));
    assert!(sessions.log_out(3));
    assert_eq!(sessions.expire(at(600)), Some(at(900)), "grace is gone, ada has until then");
    assert_eq!(sessions.user(2, at(601)), None);
    assert_eq!(sessions.expire(at(900)), None);
    assert!(sessions.users.is_empty());
    println!("all sessions have expired");
}

#[test]
fn sessions_expire() {
    main();
}
