//! What is asked of a descriptor ([`Interest`]) and what it answers ([`Readiness`]).

use std::fmt;
use std::num::NonZeroU8;
use std::ops::{BitOr, BitOrAssign};

const READ: u8 = 1;
const WRITE: u8 = 2;

/// The directions a descriptor is watched for. Never empty: "no interest" is `None` in
/// [`Selector::modify`](crate::Selector::modify).
///
/// The two constants are `EVENT_READ` and `EVENT_WRITE` of Python's `selectors`, with their values.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interest(NonZeroU8);

impl Interest {
    /// Wake when a read would not block: data, end of file, an error, or a connection to accept.
    pub const READ: Interest = Interest(NonZeroU8::new(READ).unwrap());
    /// Wake when a write would not block: room in the buffer, an error, or a finished connect.
    pub const WRITE: Interest = Interest(NonZeroU8::new(WRITE).unwrap());

    /// The interest with exactly these bits; `None` if there are none or an unknown one.
    pub const fn from_bits(bits: u8) -> Option<Interest> {
        match NonZeroU8::new(bits) {
            Some(set) if bits & !(READ | WRITE) == 0 => Some(Interest(set)),
            _ => None,
        }
    }

    /// The bits: 1 for READ, 2 for WRITE.
    pub const fn bits(self) -> u8 {
        self.0.get()
    }

    /// True if every direction of `other` is in `self`.
    pub const fn contains(self, other: Interest) -> bool {
        self.bits() & other.bits() == other.bits()
    }

    /// What is left of `self` without the directions of `other`; `None` if nothing is.
    pub const fn remove(self, other: Interest) -> Option<Interest> {
        Interest::from_bits(self.bits() & !other.bits())
    }

    /// True if READ is among the directions.
    pub const fn is_readable(self) -> bool {
        self.bits() & READ != 0
    }

    /// True if WRITE is among the directions.
    pub const fn is_writable(self) -> bool {
        self.bits() & WRITE != 0
    }
}

impl BitOr for Interest {
    type Output = Interest;
    fn bitor(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_directions(f, self.bits(), "READ", "WRITE")
    }
}

/// The directions a descriptor is ready in. May be empty.
///
/// Readiness is a hint: the descriptor was ready when the kernel looked. Read and write without
/// blocking, and treat "would block" as "not yet".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Readiness(u8);

impl Readiness {
    /// Ready for nothing.
    pub const NONE: Readiness = Readiness(0);
    /// A read would not block.
    pub const READABLE: Readiness = Readiness(READ);
    /// A write would not block.
    pub const WRITABLE: Readiness = Readiness(WRITE);

    /// Without a branch: this is asked for every event of a wait.
    pub(crate) const fn new(readable: bool, writable: bool) -> Readiness {
        Readiness((readable as u8 * READ) | (writable as u8 * WRITE))
    }

    /// True if a read would not block.
    pub const fn is_readable(self) -> bool {
        self.0 & READ != 0
    }

    /// True if a write would not block.
    pub const fn is_writable(self) -> bool {
        self.0 & WRITE != 0
    }

    /// True if there is nothing to report.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Only those directions that `interest` asked for.
    pub const fn masked(self, interest: Interest) -> Readiness {
        Readiness(self.0 & interest.bits())
    }
}

impl From<Interest> for Readiness {
    fn from(interest: Interest) -> Readiness {
        Readiness(interest.bits())
    }
}

impl BitOr for Readiness {
    type Output = Readiness;
    fn bitor(self, other: Readiness) -> Readiness {
        Readiness(self.0 | other.0)
    }
}

impl BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Readiness) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_directions(f, self.0, "READABLE", "WRITABLE")
    }
}

fn write_directions(f: &mut fmt::Formatter<'_>, bits: u8, read: &str, write: &str) -> fmt::Result {
    match (bits & READ != 0, bits & WRITE != 0) {
        (true, true) => write!(f, "{read} | {write}"),
        (true, false) => f.write_str(read),
        (false, true) => f.write_str(write),
        (false, false) => f.write_str("NONE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_sel_02_empty_and_unknown_bits_are_refused() {
        assert_eq!(Interest::from_bits(0), None);
        assert_eq!(Interest::from_bits(4), None);
        assert_eq!(Interest::from_bits(5), None);
        assert_eq!(Interest::from_bits(1), Some(Interest::READ));
        assert_eq!(Interest::from_bits(3), Some(Interest::READ | Interest::WRITE));
    }

    #[test]
    fn directions_add_up_and_come_apart() {
        let both = Interest::READ | Interest::WRITE;
        assert!(both.contains(Interest::READ) && both.contains(both));
        assert!(!Interest::READ.contains(both));
        assert_eq!(both.remove(Interest::READ), Some(Interest::WRITE));
        assert_eq!(both.remove(both), None);
        assert_eq!(format!("{both:?}"), "READ | WRITE");
    }

    #[test]
    fn b_sel_18_readiness_is_masked_by_interest() {
        let both = Readiness::READABLE | Readiness::WRITABLE;
        assert_eq!(both.masked(Interest::WRITE), Readiness::WRITABLE);
        assert!(Readiness::READABLE.masked(Interest::WRITE).is_empty());
        assert_eq!(Readiness::from(Interest::READ), Readiness::READABLE);
        assert_eq!(Readiness::default(), Readiness::NONE);
    }
}
