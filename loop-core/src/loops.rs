//! Every loop of the process, by what other threads may touch of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::inbox::Inbox;

/// Those that are not closed, and some that are.
static LOOPS: Mutex<Vec<Weak<Inbox>>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Weak<Inbox>>> {
    LOOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a loop known. O(n) in the loops of the process.
pub(crate) fn enter(inbox: &Arc<Inbox>) {
    let mut loops = lock();
    loops.retain(|known| known.upgrade().is_some_and(|inbox| !inbox.is_closed()));
    loops.push(Arc::downgrade(inbox));
}

/// Those that are not closed.
pub(crate) fn all() -> Vec<Arc<Inbox>> {
    lock().iter().filter_map(Weak::upgrade).filter(|inbox| !inbox.is_closed()).collect()
}

/// The inbox of a loop that is not closed: for values that hold no more than its number, so that they cost
/// nothing while they stay at home. O(n) in the loops of the process.
pub(crate) fn inbox(loop_id: u64) -> Option<Arc<Inbox>> {
    all().into_iter().find(|inbox| inbox.loop_id == loop_id)
}
