//! The example, run with a pseudo-terminal for a terminal, on every backend.
#![cfg(target_os = "linux")]

#[path = "../examples/terminal.rs"]
mod terminal;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use loop_selector::conformance::{usable, watched};
use loop_selector::{SharedSelector, by_name};
use rustix::fs::{Mode, OFlags, fcntl_getfl, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The two ends of a pseudo-terminal: the one to type into, and the one that programs see.
fn pseudo_terminal() -> (OwnedFd, OwnedFd) {
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let name = ptsname(&keyboard, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    (keyboard, open(&name, flags, Mode::empty()).unwrap())
}

#[test]
fn the_example_relays_what_is_typed_and_puts_the_terminal_back() {
    watched("terminal", || usable().into_iter().for_each(relays));
}

fn relays(name: &str) {
    let selector = SharedSelector::new(by_name(name).unwrap());
    let (keyboard, terminal) = pseudo_terminal();
    let before = fcntl_getfl(&terminal).unwrap();
    assert!(!before.contains(OFlags::NONBLOCK));
    let (counter, mut count) = UnixStream::pair().unwrap();
    let typist = thread::spawn(move || {
        let mut keyboard = std::fs::File::from(keyboard);
        for line in 0..200 {
            writeln!(keyboard, "line {line}").unwrap();
        }
        keyboard.write_all(&[4]).unwrap(); // Ctrl-D at the beginning of a line
        keyboard // open until the relay has seen the end
    });
    let mut output = Vec::new();
    let print = |bytes: &[u8]| {
        output.extend_from_slice(bytes);
        Ok(())
    };
    let returned = terminal::relay(&selector, &terminal, print, counter).unwrap();
    drop(typist.join().unwrap());
    let expected: String = (0..200).map(|line| format!("line {line}\n")).collect();
    assert_eq!(String::from_utf8(output).unwrap(), expected, "{name}");
    assert_eq!(returned, expected.len());
    let mut text = String::new();
    count.read_to_string(&mut text).unwrap();
    assert_eq!(text, returned.to_string());
    assert_eq!(fcntl_getfl(&terminal).unwrap(), before, "{name}: the terminal is as it was");
    assert!(selector.is_empty());
}
