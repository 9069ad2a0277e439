//! What a wait reports.

use std::fmt;

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
#[derive(Default)]
pub struct Events {
    /// The events, and behind them what is left of former ones: room that need not be made again.
    places: Vec<Event>,
    len: usize,
}

impl Events {
    /// An empty buffer. Allocates nothing.
    pub const fn new() -> Events {
        Events { places: Vec::new(), len: 0 }
    }

    /// An empty buffer with room for `capacity` events. It still grows when it must.
    pub fn with_capacity(capacity: usize) -> Events {
        Events { places: Vec::with_capacity(capacity), len: 0 }
    }

    /// Adds an event. For backends; amortised O(1).
    pub fn push(&mut self, event: Event) {
        match self.places.get_mut(self.len) {
            Some(place) => *place = event,
            None => self.places.push(event),
        }
        self.len += 1;
    }

    /// Empties the buffer and takes `events`, of which there are `most` at most: without asking for
    /// room at each of them.
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos", test))]
    pub(crate) fn refill(&mut self, most: usize, events: impl Iterator<Item = Event>) {
        if self.places.len() < most {
            let nothing = Event::Ready { token: Token::from_bits(0), readiness: Readiness::NONE };
            self.places.resize(most, nothing);
        }
        let mut places = self.places.iter_mut();
        for event in events {
            match places.next() {
                Some(place) => *place = event,
                None => unreachable!("more than {most} events"),
            }
        }
        let unused = places.len();
        self.len = self.places.len() - unused;
    }

    /// The events in the order in which the backend reported them, which means nothing.
    pub fn iter(&self) -> std::slice::Iter<'_, Event> {
        self.places[..self.len].iter()
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True after a timeout, an interruption by a signal, or a wake.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets the events, keeps the room.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl Extend<Event> for Events {
    fn extend<I: IntoIterator<Item = Event>>(&mut self, events: I) {
        events.into_iter().for_each(|event| self.push(event));
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = &'a Event;
    type IntoIter = std::slice::Iter<'a, Event>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(bits: u64) -> Event {
        Event::Ready { token: Token::from_bits(bits), readiness: Readiness::READABLE }
    }

    fn seen(events: &Events) -> Vec<Event> {
        let seen: Vec<Event> = events.iter().copied().collect();
        assert_eq!((events.len(), events.is_empty()), (seen.len(), seen.is_empty()));
        seen
    }

    #[test]
    fn what_was_forgotten_is_not_seen_again() {
        let mut events = Events::new();
        events.extend([event(1), event(2), event(3)]);
        assert_eq!(seen(&events), [event(1), event(2), event(3)]);
        events.clear();
        assert_eq!(seen(&events), []);
        events.push(event(4));
        assert_eq!(seen(&events), [event(4)]);
        assert_eq!(format!("{events:?}"), format!("[{:?}]", event(4)));
    }

    #[test]
    fn a_refill_is_shorter_as_long_or_longer_than_what_was_there() {
        let mut events = Events::new();
        for (most, count) in [(3, 3), (3, 1), (2, 0), (9, 8), (0, 0)] {
            events.refill(most, (0..count).map(event));
            assert_eq!(seen(&events), (0..count).map(event).collect::<Vec<_>>());
            events.push(event(99));
            assert_eq!(events.iter().last(), Some(&event(99)));
        }
    }
}
