//! The blocking work that a loop waits for, for those who ask.

use std::sync::{Arc, Weak};

use crate::awaited::Awaited;

/// Outcomes that are still held by somebody. They are shared with threads, so they cannot enter the list
/// that everything else is in; next to what a thread costs, a list of their own is nothing.
#[derive(Default)]
pub(crate) struct Jobs {
    listed: Vec<Weak<dyn Awaited + Send + Sync>>,
}

impl Jobs {
    /// Those that are gone are swept out before the list would grow: amortised O(1).
    pub(super) fn add(&mut self, job: Weak<dyn Awaited + Send + Sync>) {
        if self.listed.len() == self.listed.capacity() {
            self.listed.retain(|job| job.strong_count() > 0);
            self.listed.reserve(self.listed.len() + 1);
        }
        self.listed.push(job);
    }

    /// Those that are there. To be dropped with no borrow held: a thread may have let go meanwhile, and what
    /// it left is a user's value.
    pub(crate) fn live(&self) -> Vec<Arc<dyn Awaited + Send + Sync>> {
        self.listed.iter().filter_map(Weak::upgrade).collect()
    }
}
