//! A terminal.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// A terminal, as its two ends: what a person holds, and what a program gets.
pub fn terminal() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    // Else a child that another test starts just now inherits it.
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    let flags = flags | OpenptFlags::CLOEXEC;
    let person = openpt(flags).unwrap();
    fcntl_setfd(&person, FdFlags::CLOEXEC).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let program = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    (person.into(), open(name, program, Mode::empty()).unwrap())
}
