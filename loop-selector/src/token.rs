//! The name of one registration.

/// Names one registration: a slot of the [`Registry`](crate::Registry) and the slot's generation.
///
/// A token is never given out twice, so an event or a call that comes late, after `deregister`, is
/// recognised and dropped even if the slot or the descriptor's number serves somebody else by then
/// (B-SEL-24, B-SEL-35).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token {
    index: u32,
    generation: u32,
}

impl Token {
    pub(crate) const fn new(index: u32, generation: u32) -> Token {
        Token { index, generation }
    }

    /// The slot: small and reused, so it can index a table kept beside the registry.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// How many registrations the slot had held before this one.
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// The token as one number, for the kernel's user-data word. Never `u64::MAX`.
    pub const fn to_bits(self) -> u64 {
        ((self.generation as u64) << 32) | self.index as u64
    }

    /// The inverse of [`to_bits`](Token::to_bits). Any number is accepted; one that came from
    /// nowhere names no registration.
    pub const fn from_bits(bits: u64) -> Token {
        Token { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}
