//! [`Pins`]: which core runs what.

use std::fmt;
use std::sync::OnceLock;

/// Two cores: one for the server or whatever the peer of the main thread is, one for the main thread with the
/// load generator. On separate cores the two do not take time from each other, and the scheduler does
/// not decide anew in each run whether they share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pins {
    /// The core of servers, and of threads that send messages.
    pub peer: usize,
    /// The core of everything else.
    pub main: usize,
}

static PINS: OnceLock<Pins> = OnceLock::new();

impl Pins {
    /// The first two cores that this process may use, if there are two and the system can pin.
    pub fn usual() -> Option<Self> {
        let mut allowed = sys::allowed();
        Some(Self { peer: allowed.next()?, main: allowed.next()? })
    }

    /// Whether both cores may be had.
    ///
    /// # Errors
    /// Which of them may not, and those that may.
    pub fn check(self) -> Result<(), String> {
        for core in [self.peer, self.main] {
            if !sys::allowed().any(|allowed| allowed == core) {
                let allowed: Vec<_> = sys::allowed().map(|core| core.to_string()).collect();
                return Err(format!("core {core} cannot be had; there are {}", allowed.join(", ")));
            }
        }
        Ok(())
    }

    /// Pins this thread to the main core, and from now on each peer to its own. Once a process.
    ///
    /// # Errors
    /// What the system says, if a core is not there or may not be used; or that the process is pinned already.
    pub fn apply(self) -> Result<(), String> {
        self.check()?;
        sys::pin_to(self.main).map_err(|error| format!("core {}: {error}", self.main))?;
        PINS.set(self).map_err(|_| "this process is pinned already".to_owned())
    }
}

/// `0,1`, as the option takes it.
impl fmt::Display for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.peer, self.main)
    }
}

impl std::str::FromStr for Pins {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cores = text.split_once(',').and_then(|(peer, main)| {
            Some(Self { peer: peer.trim().parse().ok()?, main: main.trim().parse().ok()? })
        });
        cores.ok_or_else(|| "two cores are wanted, such as 0,1".into())
    }
}

/// Called by a thread that serves, or sends messages, as its first act: moves it to its core, if there is one.
pub(crate) fn pin_peer() {
    if let Some(pins) = PINS.get() {
        // The core was there when the pins were applied; if it has gone since, the thread stays.
        _ = sys::pin_to(pins.peer);
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod sys {
    use std::io;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn allowed() -> impl Iterator<Item = usize> {
        let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let set = FIRST.get_or_init(|| set);
        (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core))
    }

    /// What was allowed before the first pinning.
    static FIRST: std::sync::OnceLock<CpuSet> = std::sync::OnceLock::new();

    pub(super) fn pin_to(core: usize) -> io::Result<()> {
        let mut set = CpuSet::new();
        set.set(core);
        Ok(sched_setaffinity(None, &set)?)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod sys {
    use std::io;

    pub(super) fn allowed() -> impl Iterator<Item = usize> {
        std::iter::empty()
    }

    pub(super) fn pin_to(_core: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_are_read() {
        assert_eq!("0,1".parse(), Ok(Pins { peer: 0, main: 1 }));
        assert_eq!("3, 2".parse::<Pins>().unwrap().to_string(), "3,2");
        for text in ["", "1", "1,x", "1,2,3", "-1,0"] {
            assert!(text.parse::<Pins>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_named() {
        let error = Pins { peer: 0, main: 1_023 }.apply().unwrap_err();
        assert!(error.contains("1023"), "{error}");
    }
}
