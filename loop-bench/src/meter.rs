//! [`Meter`]: the processor time of this process; that of a thread.

use std::io;
use std::time::Duration;

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
        let Some((user, system, _)) = sys::usage() else { return Self::default() };
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
    let (_, _, size) = sys::usage()?;
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

#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_vendor = "apple"
))]
mod sys {
    use std::io;
    use std::time::Duration;

    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeVal;
    use nix::time::{ClockId, clock_gettime};

    /// Outside the kernel, inside it, and the most memory.
    pub(super) fn usage() -> Option<(Duration, Duration, i64)> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        Some((duration(usage.user_time()), duration(usage.system_time()), usage.max_rss()))
    }

    /// By libc: rustix looks for the kernel's page of functions by itself, and valgrind has hidden that.
    pub(super) fn thread_time() -> io::Result<Duration> {
        Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
    }

    fn duration(time: TimeVal) -> Duration {
        let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
        Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0))
            + Duration::from_micros(micros)
    }
}

#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_vendor = "apple"
)))]
mod sys {
    use std::io;
    use std::time::Duration;

    pub(super) fn usage() -> Option<(Duration, Duration, i64)> {
        None
    }

    pub(super) fn thread_time() -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
    }
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
