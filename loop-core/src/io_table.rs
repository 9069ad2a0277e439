//! Registered descriptors: who wants to hear of them, and what the selector was told.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::rc::Rc;

use loop_handle::{Handle, Snapshot};
use loop_selector::{Interest, Readiness, Token};

use crate::readiness::IoHandler;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    /// The order in which the callbacks of one descriptor run (B-LOOP-04).
    pub(crate) const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

    pub(crate) fn interest(self) -> Interest {
        match self {
            Direction::Read => Interest::READ,
            Direction::Write => Interest::WRITE,
        }
    }

    pub(crate) fn is_in(self, readiness: Readiness) -> bool {
        match self {
            Direction::Read => readiness.is_readable(),
            Direction::Write => readiness.is_writable(),
        }
    }
}

/// A reader or a writer.
pub(crate) struct Callback {
    pub(crate) handle: Handle,
    /// The iteration in which it was added: what that iteration's select saw is not for it.
    pub(crate) since: u32,
}

pub(crate) enum Kind {
    /// Indexed by [`Direction`].
    Callbacks(Box<[Option<Callback>; 2]>),
    /// In an empty context: nearly all.
    Handler(Rc<dyn IoHandler>),
    HandlerIn(Box<Snapshot>, Rc<dyn IoHandler>),
}

impl Kind {
    pub(crate) fn callback(&self, direction: Direction) -> Option<&Callback> {
        match self {
            Kind::Callbacks(callbacks) => callbacks[direction as usize].as_ref(),
            Kind::Handler(_) | Kind::HandlerIn(..) => None,
        }
    }
}

pub(crate) struct Entry {
    token: Token,
    pub(crate) fd: RawFd,
    pub(crate) wanted: Option<Interest>,
    /// What the selector was told last; `None` also when it refused.
    pub(crate) armed: Option<Interest>,
    /// Whether the token stands in the list of changes to flush.
    dirty: bool,
    pub(crate) kind: Kind,
}

impl Entry {
    /// Drops the closures, also while a user holds their handles: closing does this.
    pub(crate) fn cancel(self) {
        if let Kind::Callbacks(callbacks) = self.kind {
            for callback in callbacks.into_iter().flatten() {
                callback.handle.cancel();
            }
        }
    }
}

/// Indexed by the token's index: a slot holds the registration of that very token or nothing.
#[derive(Default)]
pub(crate) struct IoTable {
    slots: Vec<Option<Entry>>,
    dirty: VecDeque<Token>,
}

impl IoTable {
    #[inline]
    pub(crate) fn get(&self, token: Token) -> Option<&Entry> {
        let entry = self.slots.get(token.index() as usize)?.as_ref()?;
        (entry.token == token).then_some(entry)
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Entry> {
        let entry = self.slots.get_mut(token.index() as usize)?.as_mut()?;
        (entry.token == token).then_some(entry)
    }

    /// Whom what a descriptor is ready for concerns, and how much of it, if that is a handler in an empty context.
    #[inline(always)]
    pub(crate) fn handler(
        &self,
        token: Token,
        readiness: Readiness,
    ) -> Option<(&Rc<dyn IoHandler>, Readiness)> {
        match self.slots.get(token.index() as usize)? {
            Some(Entry { token: of, wanted, kind: Kind::Handler(handler), .. }) if *of == token => {
                let readiness = masked(readiness, *wanted);
                (!readiness.is_empty()).then_some((handler, readiness))
            }
            _ => None,
        }
    }

    pub(crate) fn insert(&mut self, token: Token, fd: RawFd, interest: Interest, kind: Kind) {
        let index = token.index() as usize;
        if index >= self.slots.len() {
            if index >= self.slots.capacity() {
                // A quarter more and not twice as many: half of a large table would lie idle.
                self.slots.reserve_exact(index + 1 - self.slots.len() + index / 4 + 16);
            }
            self.slots.resize_with(index + 1, || None);
        }
        let (wanted, armed) = (Some(interest), Some(interest));
        self.slots[index] = Some(Entry { token, fd, wanted, armed, dirty: false, kind });
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<Entry> {
        self.get(token)?;
        self.slots[token.index() as usize].take()
    }

    /// Notes what is wanted of a descriptor from now on. `false` for an unknown token.
    pub(crate) fn want(&mut self, token: Token, wanted: Option<Interest>) -> bool {
        let Some(entry) = self.get_mut(token) else { return false };
        entry.wanted = wanted;
        if !entry.dirty && entry.wanted != entry.armed {
            entry.dirty = true;
            self.dirty.push_back(token);
        }
        true
    }

    /// Puts a callback in its place, and gives back the one it replaces. `None` if the descriptor is
    /// not one of callbacks.
    pub(crate) fn set_callback(
        &mut self,
        token: Token,
        direction: Direction,
        callback: Callback,
    ) -> Option<Option<Callback>> {
        let entry = self.get_mut(token)?;
        let Kind::Callbacks(callbacks) = &mut entry.kind else { return None };
        let replaced = callbacks[direction as usize].replace(callback);
        let wanted = wanted_by(callbacks);
        self.want(token, wanted);
        Some(replaced)
    }

    /// Takes a callback out, and whether it was the descriptor's last; then the entry is gone.
    pub(crate) fn take_callback(
        &mut self,
        token: Token,
        direction: Direction,
    ) -> Option<(Callback, bool)> {
        let entry = self.get_mut(token)?;
        let Kind::Callbacks(callbacks) = &mut entry.kind else { return None };
        let callback = callbacks[direction as usize].take()?;
        let wanted = wanted_by(callbacks);
        if wanted.is_some() {
            self.want(token, wanted);
        } else {
            self.remove(token);
        }
        Some((callback, wanted.is_none()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().flatten()
    }

    pub(crate) fn changes(&self) -> usize {
        self.dirty.len()
    }

    /// The next descriptor whose interest really changed, marked as told to the selector.
    pub(crate) fn next_change(&mut self) -> Option<(Token, RawFd, Option<Interest>)> {
        while let Some(token) = self.dirty.pop_front() {
            let Some(entry) = self.get_mut(token) else { continue };
            entry.dirty = false;
            if entry.wanted != entry.armed {
                entry.armed = entry.wanted;
                return Some((token, entry.fd, entry.wanted));
            }
        }
        None
    }

    /// Everything, for closing.
    pub(crate) fn take(&mut self) -> Vec<(Token, Entry)> {
        self.dirty.clear();
        self.slots.drain(..).flatten().map(|entry| (entry.token, entry)).collect()
    }
}

/// What is left of it where this is wanted.
#[inline(always)]
pub(crate) fn masked(readiness: Readiness, wanted: Option<Interest>) -> Readiness {
    wanted.map_or(Readiness::NONE, |wanted| readiness.masked(wanted))
}

fn wanted_by(callbacks: &[Option<Callback>; 2]) -> Option<Interest> {
    match callbacks {
        [Some(_), Some(_)] => Some(Interest::READ | Interest::WRITE),
        [Some(_), None] => Some(Interest::READ),
        [None, Some(_)] => Some(Interest::WRITE),
        [None, None] => None,
    }
}
