//! Who is connected, in the order in which they were accepted.

use std::rc::{Rc, Weak};

use crate::conn::Conn;

/// Connections by number. Each costs the two words that it takes to say so, where an ordered map costs
/// five. Adding the latest and finding one are quick; one that goes leaves a gap, and once most places are
/// gaps all are closed: amortised O(1).
#[derive(Default)]
pub(super) struct Clients {
    places: Vec<(u64, Option<Weak<Conn>>)>,
    gaps: usize,
}

impl Clients {
    /// Adds a connection, whose number nobody else has.
    pub(super) fn insert(&mut self, number: u64, conn: &Rc<Conn>) {
        if self.places.len() == self.places.capacity() {
            // A quarter more and not twice as many: half of a large list would lie idle.
            self.places.reserve_exact(self.places.len() / 4 + 4);
        }
        // At the end, unless an earlier one has been held up.
        let at = self.places.partition_point(|(other, _)| *other < number);
        self.places.insert(at, (number, Some(Rc::downgrade(conn))));
    }

    /// Forgets a connection, if it is here.
    pub(super) fn remove(&mut self, number: u64) {
        let found = self.places.binary_search_by_key(&number, |(other, _)| *other);
        let Ok(at) = found else { return };
        self.places[at].1 = None;
        self.gaps += 1;
        if self.gaps > self.places.len() / 2 {
            self.places.retain(|(_, conn)| conn.is_some());
            self.places.shrink_to(2 * self.places.len());
            self.gaps = 0;
        }
    }

    /// Those that are not over.
    pub(super) fn alive(&self) -> Vec<Rc<Conn>> {
        self.places.iter().filter_map(|(_, conn)| conn.as_ref()?.upgrade()).collect()
    }
}
