//! What is written to `/dev/poll` and what its answers mean: pure functions, compiled and tested
//! everywhere.
//!
//! The numbers are those of illumos's `sys/poll.h` and `sys/devpoll.h`; where there is a
//! `/dev/poll`, the compiler compares them with libc's as far as that has them.

use crate::interest::{Interest, Readiness};

/// `sys/poll.h`: "fd is readable".
pub(super) const POLLIN: i16 = 0x0001;
/// `sys/poll.h`: "fd is writeable (won't block)".
pub(super) const POLLOUT: i16 = 0x0004;
/// `sys/poll.h`: "invalid pollfd entry".
pub(super) const POLLNVAL: i16 = 0x0020;
/// `sys/poll.h`: "remove cached /dev/poll fd".
const POLLREMOVE: i16 = 0x0800;

/// `struct pollfd` of `sys/poll.h`, which is POSIX's.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PollFd {
    pub(super) fd: i32,
    pub(super) events: i16,
    pub(super) revents: i16,
}

/// What to write to replace whatever is watched of `fd`. A second entry for a number adds to the
/// first, so that one has to go before; removing what is not there is no error.
pub(super) fn replace(fd: i32, interest: Interest) -> [PollFd; 2] {
    let mut events = 0;
    if interest.is_readable() {
        events |= POLLIN;
    }
    if interest.is_writable() {
        events |= POLLOUT;
    }
    [remove(fd), PollFd { fd, events, revents: 0 }]
}

/// What to write to forget `fd`.
pub(super) fn remove(fd: i32) -> PollFd {
    PollFd { fd, events: POLLREMOVE, revents: 0 }
}

/// Whatever is not plain "readable" makes writable, and the other way round (B-SEL-19).
pub(super) fn readiness(revents: i16) -> Readiness {
    let mut readiness = Readiness::NONE;
    if revents & !POLLOUT != 0 {
        readiness |= Readiness::READABLE;
    }
    if revents & !POLLIN != 0 {
        readiness |= Readiness::WRITABLE;
    }
    readiness
}

#[cfg(test)]
mod tests {
    use super::*;

    // illumos, `sys/poll.h`: "fd has error condition", "fd has been hung up on".
    const POLLERR: i16 = 0x0008;
    const POLLHUP: i16 = 0x0010;

    #[test]
    fn b_sel_19_answers_are_understood() {
        let both = Readiness::READABLE | Readiness::WRITABLE;
        let table = [
            (0, Readiness::NONE),
            (POLLIN, Readiness::READABLE),
            (POLLOUT, Readiness::WRITABLE),
            (POLLIN | POLLOUT, both),
            (POLLHUP, both),
            (POLLERR, both),
            (POLLNVAL, both),
            (POLLIN | POLLHUP, both),
        ];
        for (revents, expected) in table {
            let answer = PollFd { fd: 7, events: 0, revents };
            assert_eq!(readiness(answer.revents), expected, "{revents:#x}");
        }
    }

    #[test]
    fn a_change_takes_the_old_away_first() {
        let both = Interest::READ | Interest::WRITE;
        for (interest, events) in
            [(Interest::READ, 0x0001), (Interest::WRITE, 0x0004), (both, 0x0005)]
        {
            let expected = [
                PollFd { fd: 7, events: 0x0800, revents: 0 },
                PollFd { fd: 7, events, revents: 0 },
            ];
            assert_eq!(replace(7, interest), expected);
        }
        assert_eq!(size_of::<PollFd>(), 8);
    }

    #[test]
    fn the_numbers_are_posix_s_where_posix_has_them() {
        assert_eq!((POLLIN, POLLOUT, POLLNVAL), (libc::POLLIN, libc::POLLOUT, libc::POLLNVAL));
        assert_eq!((POLLERR, POLLHUP), (libc::POLLERR, libc::POLLHUP));
    }
}
