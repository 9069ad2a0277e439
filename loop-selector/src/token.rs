//! The name of one registration.

use std::fmt;

/// Names one registration: a slot of the [`Registry`](crate::Registry) and the slot's generation.
///
/// A token is never given out twice, so an event or a call that comes late, after `deregister`, is
/// recognised and dropped even if the slot or the descriptor's number serves somebody else by then
/// (B-SEL-24, B-SEL-35).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    pub(crate) const fn new(index: u32, generation: u32) -> Token {
        Token(((generation as u64) << 32) | index as u64)
    }

    /// The slot: small and reused, so it can index a table kept beside the registry.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// How many registrations the slot had held before this one.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The token as one number, for the kernel's user-data word. Never `u64::MAX`.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`to_bits`](Token::to_bits). Any number is accepted; one that came from
    /// nowhere names no registration.
    pub const fn from_bits(bits: u64) -> Token {
        Token(bits)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}.{})", self.index(), self.generation())
    }
}
