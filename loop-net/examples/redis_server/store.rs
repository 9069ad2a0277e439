//! Keys and their values. What has a deadline is removed by a timer of the loop.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use loop_core::TimerHandle;
use loop_net::LoopRef;

pub struct Store {
    me: Weak<RefCell<Store>>,
    lp: LoopRef,
    entries: HashMap<Box<[u8]>, Entry>,
    /// For answers; whoever runs has it.
    pub buffer: Vec<u8>,
}

struct Entry {
    value: Vec<u8>,
    expiry: Option<Expiry>,
}

/// A timer that is cancelled when its entry goes, or gets another one.
struct Expiry(TimerHandle);

impl Drop for Expiry {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Store {
    pub fn shared(lp: &LoopRef) -> Rc<RefCell<Store>> {
        let (lp, entries, buffer) = (lp.clone(), HashMap::new(), Vec::new());
        Rc::new_cyclic(|me| RefCell::new(Store { me: me.clone(), lp, entries, buffer }))
    }

    /// A timer that is due and has not run yet leaves nothing to be seen.
    fn entry(&self, key: &[u8]) -> Option<&Entry> {
        let lives = |expiry: &Expiry| expiry.0.when() > self.lp.now();
        self.entries.get(key).filter(|entry| entry.expiry.as_ref().is_none_or(lives))
    }

    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.entry(key).map(|entry| &*entry.value)
    }

    /// `true` if it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let found = self.entry(key).is_some();
        self.entries.remove(key);
        found
    }

    /// Gives `key` a value, for ever unless its old time is to go on.
    pub fn set(&mut self, key: &[u8], value: &[u8], keep_ttl: bool) {
        let Some(entry) = self.entries.get_mut(key) else {
            let entry = Entry { value: value.to_vec(), expiry: None };
            self.entries.insert(key.into(), entry);
            return;
        };
        if !keep_ttl {
            entry.expiry = None;
        }
        entry.value.clear();
        // A long value's memory is not kept for a short one.
        entry.value.shrink_to(64 + 2 * value.len());
        entry.value.extend_from_slice(value);
    }

    /// Gives a key so much time from now on; `false` if it is not there.
    pub fn expire(&mut self, key: &[u8], ttl: Duration) -> bool {
        let (store, name) = (self.me.clone(), Box::<[u8]>::from(key));
        let found = self.entry(key).is_some();
        if let Some(entry) = self.entries.get_mut(key).filter(|_| found) {
            let timer = self.lp.call_later(ttl, move || {
                store.upgrade().map(|store| store.borrow_mut().remove(&name));
            });
            entry.expiry = Some(Expiry(timer));
        }
        found
    }

    /// The seconds that a key has left, rounded; -1 if it stays, -2 if it is not there.
    pub fn ttl(&self, key: &[u8]) -> i64 {
        let Some(entry) = self.entry(key) else { return -2 };
        let Some(expiry) = &entry.expiry else { return -1 };
        let left = expiry.0.when().saturating_duration_since(self.lp.now());
        ((left.as_millis() + 500) / 1_000) as i64
    }
}
