//! Every loop of the process, by what other threads may touch of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::inbox::Inbox;

type Known = (u64, Weak<Inbox>);

/// Those that are not closed, and some that are; by their numbers.
static LOOPS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Known>> {
    LOOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a loop known. O(n) in the loops of the process.
pub(crate) fn enter(inbox: &Arc<Inbox>) {
    let mut loops = lock();
    loops.retain(|(_, known)| known.upgrade().is_some_and(|inbox| !inbox.is_closed()));
    loops.push((inbox.loop_id, Arc::downgrade(inbox)));
}

/// Those that are not closed.
pub(crate) fn all() -> Vec<Arc<Inbox>> {
    let upgrade = |(_, known): &Known| known.upgrade();
    lock().iter().filter_map(upgrade).filter(|inbox| !inbox.is_closed()).collect()
}

/// The inbox of a loop that is not closed: for values that hold no more than its number, so that they cost
/// nothing while they stay at home. O(n) in the loops of the process.
pub(crate) fn inbox(loop_id: u64) -> Option<Arc<Inbox>> {
    let found = lock().iter().find(|(id, _)| *id == loop_id)?.1.clone();
    // Not under the lock: it may be the last owner.
    found.upgrade().filter(|inbox| !inbox.is_closed())
}
