//! What a wait reports.

use crate::interest::Readiness;
use crate::token::Token;

/// One thing that happened.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A registered descriptor is ready, in at least one direction it is watched for. One wait
    /// reports a token at most once, with both directions merged (B-SEL-21).
    Ready {
        /// The registration.
        token: Token,
        /// The directions; never empty, never more than was asked for.
        readiness: Readiness,
    },
}

/// A reusable buffer of events. [`Selector::select`](crate::Selector::select) empties it and fills
/// it again; once it has grown to the usual size of a batch, a wait allocates nothing.
#[derive(Debug, Default)]
pub struct Events(Vec<Event>);

impl Events {
    /// An empty buffer. Allocates nothing.
    pub const fn new() -> Events {
        Events(Vec::new())
    }

    /// An empty buffer with room for `capacity` events. It still grows when it must.
    pub fn with_capacity(capacity: usize) -> Events {
        Events(Vec::with_capacity(capacity))
    }

    /// Adds an event. For backends; amortised O(1).
    pub fn push(&mut self, event: Event) {
        self.0.push(event);
    }

    /// The events in the order in which the backend reported them, which means nothing.
    pub fn iter(&self) -> std::slice::Iter<'_, Event> {
        self.0.iter()
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True after a timeout, an interruption by a signal, or a wake.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets the events, keeps the room.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Extend<Event> for Events {
    fn extend<I: IntoIterator<Item = Event>>(&mut self, events: I) {
        self.0.extend(events);
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = &'a Event;
    type IntoIter = std::slice::Iter<'a, Event>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
