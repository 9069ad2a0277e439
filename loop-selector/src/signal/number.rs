//! The signals that can be watched.

use std::fmt;
use std::io;

/// The highest signal number: on Linux with the real-time signals.
pub(super) const MAX: i32 =
    if cfg!(any(target_os = "linux", target_os = "android")) { 64 } else { 31 };

/// A signal that can be watched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(i32);

/// The signals with a name, in the order of the constants.
const NAMES: [(Signal, &str); 10] = [
    (Signal::INT, "SIGINT"),
    (Signal::TERM, "SIGTERM"),
    (Signal::HUP, "SIGHUP"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::USR1, "SIGUSR1"),
    (Signal::USR2, "SIGUSR2"),
    (Signal::CHLD, "SIGCHLD"),
    (Signal::ALRM, "SIGALRM"),
    (Signal::WINCH, "SIGWINCH"),
    (Signal::PIPE, "SIGPIPE"),
];

impl Signal {
    /// Interrupt: Ctrl-C.
    pub const INT: Signal = Signal(libc::SIGINT);
    /// Termination, asked for politely.
    pub const TERM: Signal = Signal(libc::SIGTERM);
    /// The terminal went away; by custom, "read the configuration again".
    pub const HUP: Signal = Signal(libc::SIGHUP);
    /// Quit: Ctrl-\.
    pub const QUIT: Signal = Signal(libc::SIGQUIT);
    /// For the program's own use.
    pub const USR1: Signal = Signal(libc::SIGUSR1);
    /// For the program's own use.
    pub const USR2: Signal = Signal(libc::SIGUSR2);
    /// A child process ended, stopped or went on.
    pub const CHLD: Signal = Signal(libc::SIGCHLD);
    /// A timer of `alarm` or `setitimer` ran out.
    pub const ALRM: Signal = Signal(libc::SIGALRM);
    /// The terminal's window changed its size.
    pub const WINCH: Signal = Signal(libc::SIGWINCH);
    /// A write to a pipe or socket that nobody reads. Rust programs ignore it from the start.
    pub const PIPE: Signal = Signal(libc::SIGPIPE);

    /// The signal of that number.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such signal. `Unsupported` if there is, but no handler can
    /// serve it: KILL and STOP cannot be caught, and a handler of SEGV, BUS, FPE or ILL may not
    /// return (B-SIG-05).
    pub fn new(number: i32) -> io::Result<Signal> {
        if !(1..=MAX).contains(&number) {
            let text = format!("signal {number} is not in 1..={MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let why = match number {
            libc::SIGKILL | libc::SIGSTOP => "cannot be caught",
            libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL => {
                "reports a fault, from which a handler cannot return"
            }
            _ => return Ok(Signal(number)),
        };
        Err(io::Error::new(io::ErrorKind::Unsupported, format!("signal {number} {why}")))
    }

    /// The number.
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// The place in a table of `MAX + 1` entries.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn bit(self) -> u64 {
        1 << (self.0 - 1)
    }
}

impl fmt::Display for Signal {
    /// "SIGINT", or "signal 34" for one without a name here.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(signal, _)| signal == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
