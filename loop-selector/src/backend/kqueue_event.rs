//! What kqueue's answers mean: pure functions, compiled and tested everywhere.
//!
//! The numbers are those of `sys/event.h` of FreeBSD and of Apple's xnu, which OpenBSD, NetBSD and
//! DragonFly share; where there is a kqueue, the compiler compares them with libc's.

use crate::interest::{Interest, Readiness};
use crate::token::Token;

/// The other end is gone, or half of it (`sys/event.h`: "EOF detected").
pub(super) const EV_EOF: u16 = 0x8000;
/// The filter failed; `data` is an errno (`sys/event.h`: "error, data contains errno").
pub(super) const EV_ERROR: u16 = 0x4000;

/// A filter is one direction: `EVFILT_READ` or `EVFILT_WRITE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(super) const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

    pub(super) fn is_in(self, interest: Option<Interest>) -> bool {
        interest.is_some_and(|interest| match self {
            Direction::Read => interest.is_readable(),
            Direction::Write => interest.is_writable(),
        })
    }
}

/// A filter speaks for its own direction; an error, and a reader that is gone, for both (B-SEL-19).
/// The end of what the peer sends does not: the other direction may go on.
pub(super) fn readiness(direction: Direction, flags: u16) -> Readiness {
    let both = Readiness::READABLE | Readiness::WRITABLE;
    match direction {
        _ if flags & EV_ERROR != 0 => both,
        Direction::Write if flags & EV_EOF != 0 => both,
        Direction::Write => Readiness::WRITABLE,
        Direction::Read => Readiness::READABLE,
    }
}

/// Makes one of two answers about one registration (B-SEL-21). Allocates nothing; O(n log n) in what
/// is ready.
pub(super) fn merge(ready: &mut Vec<(Token, Readiness)>) {
    ready.sort_unstable_by_key(|(token, _)| *token);
    ready.dedup_by(|later, first| {
        let same = later.0 == first.0;
        if same {
            first.1 |= later.1;
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct kevent` as in FreeBSD 12's and later `sys/event.h`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct FreeBsdKevent {
        ident: usize,
        filter: i16,
        flags: u16,
        fflags: u32,
        data: i64,
        udata: usize,
        ext: [u64; 4],
    }

    /// `struct kevent` as in xnu's `bsd/sys/event.h`, which packs it to four bytes.
    #[repr(C, packed(4))]
    #[derive(Clone, Copy)]
    struct AppleKevent {
        ident: usize,
        filter: i16,
        flags: u16,
        fflags: u32,
        data: isize,
        udata: usize,
    }

    // `EVFILT_READ` and `EVFILT_WRITE` in both headers.
    const EVFILT_READ: i16 = -1;
    const EVFILT_WRITE: i16 = -2;
    // `EV_ADD` in both: the kernel gives back what was set.
    const EV_ADD: u16 = 0x0001;

    fn direction(filter: i16) -> Direction {
        match filter {
            EVFILT_READ => Direction::Read,
            EVFILT_WRITE => Direction::Write,
            _ => panic!("not a filter of ours"),
        }
    }

    fn freebsd(filter: i16, flags: u16, data: i64) -> FreeBsdKevent {
        FreeBsdKevent { ident: 7, filter, flags, fflags: 0, data, udata: 0, ext: [0; 4] }
    }

    fn apple(filter: i16, flags: u16, data: isize) -> AppleKevent {
        AppleKevent { ident: 7, filter, flags, fflags: 0, data, udata: 0 }
    }

    #[test]
    fn b_sel_19_answers_of_freebsd_and_apple_are_understood() {
        let (read, write) = (Readiness::READABLE, Readiness::WRITABLE);
        let table = [
            (EVFILT_READ, EV_ADD, 5, read),                   // five bytes to read
            (EVFILT_READ, EV_ADD | EV_EOF, 0, read),          // the peer finished sending
            (EVFILT_WRITE, EV_ADD, 4096, write),              // room for a page
            (EVFILT_WRITE, EV_ADD | EV_EOF, 0, read | write), // nobody will read it
            (EVFILT_READ, EV_ERROR, 9, read | write),         // EBADF
        ];
        for (filter, flags, data, expected) in table {
            let (f, a) = (freebsd(filter, flags, data), apple(filter, flags, data as isize));
            assert_eq!(readiness(direction(f.filter), f.flags), expected);
            assert_eq!(readiness(direction(a.filter), a.flags), expected);
            assert_eq!((f.ident, f.data as isize), (7, { a.data }));
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn the_structures_have_the_size_of_the_headers() {
        assert_eq!(size_of::<FreeBsdKevent>(), 64);
        assert_eq!(size_of::<AppleKevent>(), 32);
    }

    #[test]
    fn b_sel_21_two_filters_become_one_event() {
        let token = |index| Token::new(index, 0);
        let (read, write) = (Readiness::READABLE, Readiness::WRITABLE);
        let mut ready = vec![
            (token(2), write),
            (token(1), read),
            (token(2), read),
            (token(3), write),
            (Token::new(2, 1), write),
        ];
        merge(&mut ready);
        let expected = [
            (token(1), read),
            (token(2), read | write),
            (token(3), write),
            (Token::new(2, 1), write),
        ];
        assert_eq!(ready, expected);
    }

    #[test]
    fn a_direction_is_in_its_interest_only() {
        let both = Interest::READ | Interest::WRITE;
        let of = |interest| Direction::BOTH.map(|direction| direction.is_in(interest));
        assert_eq!(of(None), [false, false]);
        assert_eq!(of(Some(Interest::READ)), [true, false]);
        assert_eq!(of(Some(Interest::WRITE)), [false, true]);
        assert_eq!(of(Some(both)), [true, true]);
    }
}
