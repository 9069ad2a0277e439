//! Keys and their values. What has a deadline is removed by a timer of the loop.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use loop_handle::CancelOnDrop;
use loop_net::{LoopRef, TimerHandle};

pub struct Store {
    me: Weak<RefCell<Store>>,
    lp: LoopRef,
    entries: HashMap<Box<[u8]>, Entry>,
}

struct Entry {
    value: Vec<u8>,
    /// Cancelled when its entry goes, or gets another one.
    expiry: Option<CancelOnDrop<TimerHandle>>,
}

impl Store {
    pub fn shared(lp: &LoopRef) -> Rc<RefCell<Store>> {
        let (lp, entries) = (lp.clone(), HashMap::new());
        Rc::new_cyclic(|me| RefCell::new(Store { me: me.clone(), lp, entries }))
    }

    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.entries.get(key).map(|entry| &*entry.value)
    }

    /// `true` if it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.entries.remove(key).is_some()
    }

    /// Gives `key` a value, for ever unless its old time is to go on.
    pub fn set(&mut self, key: &[u8], value: &[u8], keep_ttl: bool) {
        let Some(entry) = self.entries.get_mut(key) else {
            let entry = Entry { value: value.to_vec(), expiry: None };
            return drop(self.entries.insert(key.into(), entry));
        };
        entry.expiry.take_if(|_| !keep_ttl);
        entry.value.clear();
        // A long value's memory is not kept for a short one.
        entry.value.shrink_to(64 + 2 * value.len());
        entry.value.extend_from_slice(value);
    }

    /// Gives a key so many milliseconds from now on, and removes it if that is in the past; `false` if it
    /// is not there.
    pub fn expire(&mut self, key: &[u8], millis: i64) -> bool {
        if millis <= 0 {
            return self.remove(key);
        }
        let Some(entry) = self.entries.get_mut(key) else { return false };
        let (store, name) = (self.me.clone(), Box::<[u8]>::from(key));
        let timer = self.lp.call_later(Duration::from_millis(millis.unsigned_abs()), move || {
            store.upgrade().map(|store| store.borrow_mut().remove(&name));
        });
        entry.expiry = Some(CancelOnDrop::new(timer));
        true
    }

    /// The seconds that a key has left, rounded; -1 if it stays, -2 if it is not there.
    pub fn ttl(&self, key: &[u8]) -> i64 {
        let Some(entry) = self.entries.get(key) else { return -2 };
        let Some(expiry) = &entry.expiry else { return -1 };
        let left = expiry.when().saturating_duration_since(self.lp.now());
        ((left.as_millis() + 500) / 1_000) as i64
    }
}
