//! Level-triggered readiness from one-shot polls.
//!
//! A poll tells once. So a wait first asks anew about all that the wait before reported, in the
//! system call that then sleeps: what is still ready answers at once. An answer that came before
//! the wait, while other system calls were made, is old: what it says may have been read since. It is
//! dropped and asked again, which loses nothing, because a level can always be asked for again.

use std::io;
use std::os::fd::AsFd;

use rustix::event::PollFlags;

use super::ring::{Completion, NOW, Ring, Wait};
use crate::backend::poll::{poll_flags, readiness};
use crate::event::Events;
use crate::interest::Readiness;
use crate::registry::Registry;
use crate::token::Token;
use crate::waker::Waker;

/// The tags of the waker's poll, and of what is no poll. No poll of a slot has one of them: there
/// are fewer than 2^32 - 2 slots.
const WAKER: u64 = u64::MAX;
const NO_POLL: u64 = u64::MAX - 1;

/// One slot of the registry, and the poll that the kernel has for it.
#[derive(Clone, Copy, Debug)]
struct Slot {
    token: Token,
    /// Counts the polls of this slot, so that each has a tag of its own. It may wrap: a poll is
    /// long gone when 2^32 others have followed.
    serial: u32,
    /// The kernel has a poll, with the present serial, that has not told yet.
    armed: bool,
    /// The slot is in `owed` or in `reported`.
    listed: bool,
}

impl Slot {
    fn tag(&self) -> u64 {
        Token::new(self.token.index(), self.serial).to_bits()
    }

    fn list(&mut self, list: &mut Vec<u32>) {
        if !self.listed {
            self.listed = true;
            list.push(self.token.index());
        }
    }
}

/// What the kernel polls, and what it should.
#[derive(Debug, Default)]
pub(super) struct Polls {
    slots: Vec<Slot>,
    /// Slots to be polled from the next submission on, unless they are vacant or silent by then.
    owed: Vec<u32>,
    /// Slots whose poll has told in this wait, and which are polled again in the next.
    reported: Vec<u32>,
    waker_armed: bool,
    /// Removals are queued: their completions would end a sleep, but mean nothing.
    removing: bool,
    /// Such completions may lie in the ring.
    litter: bool,
    /// A no-op's completion lies in the ring, for others that were taken out of it.
    beacon: bool,
}

impl Polls {
    /// Polls `token` from the next submission on.
    pub(super) fn owe(&mut self, token: Token) {
        let index = token.index() as usize;
        if index >= self.slots.len() {
            let vacant = Slot { token, serial: 0, armed: false, listed: false };
            self.slots.resize(index + 1, vacant);
        }
        let slot = &mut self.slots[index];
        if slot.token != token {
            // Should the removal of the former tenant's poll have failed, it is not ours.
            (slot.token, slot.armed) = (token, false);
        }
        slot.list(&mut self.owed);
    }

    /// Queues the removal of the poll that the kernel has for `token`. False if it has none.
    pub(super) fn remove(&mut self, ring: &Ring, token: Token) -> io::Result<bool> {
        let index = token.index() as usize;
        while ring.is_full() {
            unless_busy(ring.enter(NOW))?;
            self.ask_again(ring)?;
        }
        match self.slots.get_mut(index) {
            Some(slot) if slot.armed && slot.token == token => {
                slot.armed = !ring.push_remove(slot.tag(), NO_POLL);
                (self.removing, self.litter) = (true, true);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Submits what is queued. When this returns, the kernel has let go of whatever was removed.
    pub(super) fn submit(&mut self, ring: &Ring) -> io::Result<()> {
        ring.enter(NOW)?;
        self.removing = false;
        Ok(())
    }

    /// Removes every poll.
    pub(super) fn remove_all(&mut self, ring: &Ring) -> io::Result<()> {
        for index in 0..self.slots.len() {
            self.remove(ring, self.slots[index].token)?;
        }
        self.submit(ring)
    }

    /// One wait. Returns whether the waker's descriptor is readable.
    ///
    /// Usually one system call: more if the queue is too short for what is owed, or if an interest
    /// was changed since the last wait and nothing is ready. After an error nothing is lost: what
    /// was not submitted is still owed, and what has told is asked again.
    pub(super) fn wait(
        &mut self,
        ring: &Ring,
        registry: &mut Registry,
        waker: &Waker,
        events: &mut Events,
        wait: Wait,
    ) -> io::Result<bool> {
        let mut woken = false;
        self.ask_again(ring)?;
        self.litter = false;
        while !self.push_owed(ring, registry, waker) {
            woken |= self.turn(ring, registry, events, NOW)?;
        }
        if std::mem::take(&mut self.removing) && wait != NOW {
            woken |= self.turn(ring, registry, events, NOW)?;
        }
        let idle = events.is_empty() && !woken;
        woken |= self.turn(ring, registry, events, if idle { wait } else { NOW })?;
        while ring.is_pending() || ring.has_overflowed() {
            woken |= self.turn(ring, registry, events, NOW)?;
        }
        Ok(woken)
    }

    /// One system call, and the taking of what completed. True if the waker's poll was among it.
    fn turn(
        &mut self,
        ring: &Ring,
        registry: &mut Registry,
        events: &mut Events,
        wait: Wait,
    ) -> io::Result<bool> {
        let result = unless_busy(ring.enter(wait));
        let mut woken = false;
        while let Some(Completion { tag, result }) = ring.pop() {
            woken |= tag == WAKER;
            let Some(token) = self.landed(tag) else { continue };
            events.extend(registry.event(token, answer(result)));
            if result == -libc::EBADF {
                // Closed behind our back: reported this once, so that the next read or write
                // tells, and silent from now on (B-SEL-12).
                let _ = registry.set_interest(token, None);
            }
            self.slots[token.index() as usize].list(&mut self.reported);
        }
        result.map(|()| woken)
    }

    /// Makes the ring's descriptor tell the truth between waits: it is readable while something is
    /// ready. It may be readable once for something that is no longer.
    pub(super) fn settle(
        &mut self,
        ring: &Ring,
        registry: &Registry,
        waker: &Waker,
    ) -> io::Result<()> {
        if self.beacon {
            return Ok(());
        }
        self.owed.append(&mut self.reported);
        self.submit_owed(ring, registry, waker)?;
        // The completions of removals, which are here by now, make it readable too, and can only
        // be taken out together with all others. For those it is made readable again; they are not
        // asked again before the next wait, or each removal would cost O(what is ready).
        if std::mem::take(&mut self.litter) && self.ask_again(ring)? {
            self.beacon = ring.push_no_op(NO_POLL);
            self.submit(ring)?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn skip_tags(&mut self, token: Token, serial: u32) {
        self.slots[token.index() as usize].serial = serial;
    }

    fn submit_owed(&mut self, ring: &Ring, registry: &Registry, waker: &Waker) -> io::Result<()> {
        while !self.push_owed(ring, registry, waker) {
            self.submit(ring)?;
        }
        self.submit(ring)
    }

    /// Queues what is owed. False if the queue was full before that was done.
    fn push_owed(&mut self, ring: &Ring, registry: &Registry, waker: &Waker) -> bool {
        if !self.waker_armed {
            self.waker_armed = ring.push_poll(waker.as_fd(), PollFlags::IN, WAKER);
            if !self.waker_armed {
                return false;
            }
        }
        while let Some(&index) = self.owed.last() {
            if ring.is_full() {
                return false;
            }
            self.owed.pop();
            let slot = &mut self.slots[index as usize];
            slot.listed = false;
            let entry = registry.get(slot.token).filter(|_| !slot.armed);
            let Some((entry, interest)) = entry.and_then(|e| Some((e, e.interest()?))) else {
                continue;
            };
            slot.serial = slot.serial.wrapping_add(1);
            slot.armed = ring.push_poll(entry.as_fd(), poll_flags(interest), slot.tag());
        }
        true
    }

    /// Drops the completions that came between waits, and owes all polls that have told so far.
    /// True if something other than litter was dropped.
    fn ask_again(&mut self, ring: &Ring) -> io::Result<bool> {
        self.owed.append(&mut self.reported);
        self.beacon = false;
        let mut dropped = false;
        loop {
            while let Some(Completion { tag, .. }) = ring.pop() {
                dropped |= tag == WAKER;
                if let Some(token) = self.landed(tag) {
                    dropped = true;
                    self.owe(token);
                }
            }
            if !ring.has_overflowed() {
                return Ok(dropped);
            }
            unless_busy(ring.enter(NOW))?;
        }
    }

    /// Notes that a poll has told, and whose it was: nobody's if it was removed meanwhile.
    fn landed(&mut self, tag: u64) -> Option<Token> {
        if tag == WAKER {
            self.waker_armed = false;
        }
        let slot = self.slots.get_mut(Token::from_bits(tag).index() as usize)?;
        if !slot.armed || slot.tag() != tag {
            return None;
        }
        slot.armed = false;
        Some(slot.token)
    }
}

/// What a poll's result means. An error is reported as ready for everything, so that the next read
/// or write tells.
fn answer(result: i32) -> Readiness {
    match u16::try_from(result) {
        Ok(bits) => readiness(PollFlags::from_bits_retain(bits as _)),
        Err(_) => Readiness::READABLE | Readiness::WRITABLE,
    }
}

/// EBUSY asks for completions to be taken first: who ignores it takes them next.
fn unless_busy(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => Ok(()),
        _ => Err(error),
    })
}
