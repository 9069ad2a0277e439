//! Which token stands for which descriptor, whose it is, and what it is watched for.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::rc::Rc;

use crate::error::RegisterError;
use crate::event::Event;
use crate::interest::{Interest, Readiness};
use crate::room::make_room;
use crate::source::{AsSource, Held};
use crate::token::Token;

/// The bookkeeping that every backend shares, and a selector of your own can: it allocates tokens,
/// holds owners, and refuses a descriptor that is there already.
///
/// `SelectorKey` and `get_map()` of Python's `selectors`. Everything is O(1) but
/// [`iter`](Registry::iter), which is O(the most entries there ever were at once).
#[derive(Debug, Default)]
pub struct Registry {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// A map and not a table indexed by number: where the limit on open files is lifted, a single
    /// high descriptor would make such a table gigabytes long.
    by_fd: HashMap<RawFd, u32>,
    /// Whose books these are, for the text of errors; empty if nobody said.
    backend: &'static str,
}

#[derive(Debug)]
enum Slot {
    /// With the generation of its next entry.
    Vacant(u32),
    Taken(Entry),
}

impl Slot {
    fn entry(&self) -> Option<&Entry> {
        match self {
            Slot::Vacant(_) => None,
            Slot::Taken(entry) => Some(entry),
        }
    }
}

/// One registration.
pub struct Entry {
    token: Token,
    interest: Option<Interest>,
    source: Held,
}

impl Registry {
    /// An empty registry. Allocates nothing.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// An empty registry whose errors begin with the name of a backend.
    pub fn for_backend(name: &'static str) -> Registry {
        Registry { backend: name, ..Registry::default() }
    }

    /// Adds an entry and gives it a token that was never used before. Calls `owner.source_fd()`, once.
    ///
    /// # Errors
    /// `AlreadyExists` if the descriptor is registered, through whatever owner: the older entry
    /// stays (B-SEL-03). `InvalidInput` if its number is negative (B-SEL-02).
    pub fn insert(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        self.insert_with(owner, interest, |_| Ok(()))
    }

    /// Adds an entry if `arm`, the system call that makes the kernel watch it, succeeds
    /// (B-SEL-04).
    ///
    /// # Errors
    /// Those of [`insert`](Registry::insert), and what `arm` returned.
    pub fn insert_with(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
        arm: impl FnOnce(&Entry) -> io::Result<()>,
    ) -> Result<Token, RegisterError> {
        let source = Held::new(owner)
            .map_err(|(owner, error)| RegisterError::new(owner, self.sign(error)))?;
        let fd = source.fd();
        if self.by_fd.contains_key(&fd) {
            let text = format!("fd {fd} is already registered");
            let error = self.sign(io::Error::new(io::ErrorKind::AlreadyExists, text));
            return Err(RegisterError::new(source.into_owner(), error));
        }
        let (index, generation) = self.vacant();
        let token = Token::new(index, generation);
        let entry = Entry { token, interest: Some(interest), source };
        if let Err(error) = arm(&entry) {
            return Err(RegisterError::new(entry.into_owner(), error));
        }
        self.slots[index as usize] = Slot::Taken(entry);
        // The slot is taken only now, so that `arm` may fail, or panic, without a trace.
        self.free.pop();
        self.by_fd.insert(fd, index);
        Ok(token)
    }

    /// The slot that the next entry gets, and its generation: the last of the free list, which is never
    /// empty after.
    fn vacant(&mut self) -> (u32, u32) {
        if let Some(&index) = self.free.last() {
            if let Slot::Vacant(generation) = self.slots[index as usize] {
                return (index, generation);
            }
        }
        // A slot is a descriptor's, or was retired after 2^32 registrations: there are not 2^32.
        let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 slots");
        let wanted = self.slots.len() + 1;
        make_room(&mut self.slots, wanted);
        self.slots.push(Slot::Vacant(0));
        self.free.push(index);
        (index, 0)
    }

    /// The entry, unless the token's registration is over.
    pub fn get(&self, token: Token) -> Option<&Entry> {
        let entry = self.slots.get(token.index() as usize)?.entry()?;
        (entry.token == token).then_some(entry)
    }

    /// The entry, or the error that every call with a stale token deserves.
    ///
    /// # Errors
    /// `NotFound` if the token's registration is over.
    pub fn lookup(&self, token: Token) -> io::Result<&Entry> {
        self.get(token).ok_or_else(|| self.unknown(token))
    }

    fn unknown(&self, token: Token) -> io::Error {
        let text = format!("no registration {}.{}", token.index(), token.generation());
        self.sign(io::Error::new(io::ErrorKind::NotFound, text))
    }

    /// Puts the backend's name in front.
    fn sign(&self, error: io::Error) -> io::Error {
        if self.backend.is_empty() {
            return error;
        }
        io::Error::new(error.kind(), format!("{}: {error}", self.backend))
    }

    /// The token under which a descriptor's number is registered.
    pub fn by_fd(&self, fd: RawFd) -> Option<Token> {
        let index = *self.by_fd.get(&fd)?;
        self.slots[index as usize].entry().map(|entry| entry.token)
    }

    /// The entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().filter_map(Slot::entry)
    }

    /// How many registrations there are, silent ones included.
    pub fn len(&self) -> usize {
        self.by_fd.len()
    }

    /// True if nothing is registered.
    pub fn is_empty(&self) -> bool {
        self.by_fd.is_empty()
    }

    /// Notes what an entry is watched for from now on; `None` for nothing.
    ///
    /// # Errors
    /// `NotFound` if the token's registration is over.
    pub fn set_interest(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        match self.slots.get_mut(token.index() as usize) {
            Some(Slot::Taken(entry)) if entry.token == token => {
                entry.interest = interest;
                Ok(())
            }
            _ => Err(self.unknown(token)),
        }
    }

    /// Takes an entry out; its token is stale from now on.
    ///
    /// # Errors
    /// `NotFound` if the token's registration is over.
    pub fn remove(&mut self, token: Token) -> io::Result<Entry> {
        let slot = match self.slots.get_mut(token.index() as usize) {
            Some(slot) if slot.entry().is_some_and(|entry| entry.token == token) => slot,
            _ => return Err(self.unknown(token)),
        };
        // A slot whose generations are used up is retired, so that no token ever comes back.
        let next = token.generation().checked_add(1);
        let taken = std::mem::replace(slot, Slot::Vacant(next.unwrap_or(u32::MAX)));
        let Slot::Taken(entry) = taken else { unreachable!("it has just been seen there") };
        self.by_fd.remove(&entry.fd());
        if next.is_some() {
            self.free.push(token.index());
        }
        Ok(entry)
    }

    /// The event to report for what the kernel said about `token`: masked by the interest
    /// (B-SEL-18), and `None` if nothing is left of it or the registration is over (B-SEL-24).
    pub fn event(&self, token: Token, readiness: Readiness) -> Option<Event> {
        self.view().event(token, readiness)
    }

    /// For many calls of [`event`](Registry::event) in a row.
    pub(crate) fn view(&self) -> View<'_> {
        View(&self.slots)
    }
}

/// The books, closed to changes, so that a loop over many events need not ask at each where they
/// are.
#[derive(Clone, Copy)]
pub(crate) struct View<'a>(&'a [Slot]);

impl View<'_> {
    pub(crate) fn event(self, token: Token, readiness: Readiness) -> Option<Event> {
        let entry = self.0.get(token.index() as usize)?.entry()?;
        if entry.token != token {
            return None;
        }
        let readiness =
            entry.interest.map_or(Readiness::NONE, |interest| readiness.masked(interest));
        (!readiness.is_empty()).then_some(Event::Ready { token, readiness })
    }
}

impl Entry {
    /// The name of this registration.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The number that the owner gave at registration.
    pub fn fd(&self) -> RawFd {
        self.source.fd()
    }

    /// What the descriptor is watched for; `None` if it is registered but silent.
    pub fn interest(&self) -> Option<Interest> {
        self.interest
    }

    /// The owner of the descriptor.
    pub fn owner(&self) -> &Rc<dyn AsSource> {
        self.source.owner()
    }

    /// The owner, for whom the registration is over.
    pub fn into_owner(self) -> Rc<dyn AsSource> {
        self.source.into_owner()
    }
}

impl AsFd for Entry {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("token", &self.token)
            .field("source", &self.source)
            .field("interest", &self.interest)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn source() -> Rc<dyn AsSource> {
        Rc::new(UnixStream::pair().unwrap().0)
    }

    #[test]
    fn b_sel_35_a_slot_is_reused_under_a_new_generation() {
        let mut registry = Registry::new();
        let first = registry.insert(source(), Interest::READ).unwrap();
        registry.remove(first).unwrap();
        let second = registry.insert(source(), Interest::WRITE).unwrap();
        assert_eq!(first.index(), second.index());
        assert_ne!(first, second);
        assert!(registry.get(first).is_none());
        assert_eq!(registry.event(first, Readiness::WRITABLE), None);
        assert!(registry.set_interest(first, None).is_err());
        assert!(registry.remove(first).is_err());
        assert_eq!(registry.get(second).unwrap().interest(), Some(Interest::WRITE));
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_retired() {
        let mut registry = Registry::new();
        let first = registry.insert(source(), Interest::READ).unwrap();
        registry.remove(first).unwrap();
        registry.slots[0] = Slot::Vacant(u32::MAX);
        let last = registry.insert(source(), Interest::READ).unwrap();
        assert_eq!((last.index(), last.generation()), (0, u32::MAX));
        registry.remove(last).unwrap();
        let next = registry.insert(source(), Interest::READ).unwrap();
        assert_eq!((next.index(), next.generation()), (1, 0));
        assert!(registry.get(last).is_none());
    }

    #[test]
    fn b_sel_04_a_failing_or_panicking_call_leaves_no_trace() {
        let mut registry = Registry::new();
        let owner = source();
        let fail = |_: &Entry| Err(io::Error::from(io::ErrorKind::OutOfMemory));
        let error = registry.insert_with(owner.clone(), Interest::READ, fail).unwrap_err();
        assert!(Rc::ptr_eq(error.owner(), &owner));
        let mut panicking = std::panic::AssertUnwindSafe(&mut registry);
        let result = std::panic::catch_unwind(move || {
            let _ = panicking.insert_with(source(), Interest::READ, |_| panic!("as expected"));
        });
        assert!(result.is_err());
        assert!(registry.is_empty() && registry.iter().next().is_none());
        let token = registry.insert(owner, Interest::READ).unwrap();
        assert_eq!((token.index(), registry.len()), (0, 1));
    }

    #[test]
    fn tokens_survive_the_way_through_the_kernel() {
        for token in [Token::new(0, 0), Token::new(7, 9), Token::new(u32::MAX - 1, u32::MAX)] {
            assert_eq!(Token::from_bits(token.to_bits()), token);
            assert_ne!(token.to_bits(), u64::MAX);
        }
    }
}
