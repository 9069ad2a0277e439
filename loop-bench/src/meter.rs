//! [`Meter`]: the processor time of this process; that of a thread.

use std::io;
use std::time::Duration;

use crate::sys;

/// Processor time, of all threads. The kernel knows the sum exactly; how it divides is known by the
/// timer's ticks, so the two parts of a round of a few milliseconds are rough.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    /// Outside the kernel.
    pub(crate) user: Duration,
    /// Inside it.
    pub(crate) system: Duration,
}

impl Meter {
    /// What was used until now.
    pub(crate) fn start() -> Self {
        let Ok((user, system, _)) = sys::usage() else { return Self::default() };
        Self { user, system }
    }

    /// What was used since.
    pub(crate) fn stop(self) -> Self {
        let now = Self::start();
        Self {
            user: now.user.saturating_sub(self.user),
            system: now.system.saturating_sub(self.system),
        }
    }
}

/// The most memory that this process has held so far, in bytes, where the system says it.
pub(crate) fn peak_resident() -> Option<u64> {
    let (_, _, size) = sys::usage().ok()?;
    // macOS counts in bytes.
    let scale = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    u64::try_from(size).ok().filter(|&size| size > 0).map(|size| size * scale)
}

/// The processor time that the calling thread has taken.
///
/// # Errors
/// `Unsupported` where the system has no clock of it.
pub(crate) fn processor_time() -> io::Result<Duration> {
    sys::thread_time()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_measured() {
        let meter = Meter::start();
        let start = std::time::Instant::now();
        // Until the kernel has seen some of it: a loop that is not run at all would never end.
        let used = loop {
            let used = meter.stop();
            if used.user + used.system >= Duration::from_millis(5) {
                break used.user + used.system;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "no time was counted");
        };
        assert!(used < Duration::from_secs(60));
    }
}
