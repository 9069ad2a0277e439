//! What the system tells of processor time and memory. Here alone is known which system tells what: others ask, and are
//! told `Unsupported`.

use std::{fs, io};

pub(crate) use told::{processor_of, thread_time, usage};

#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_vendor = "apple"
))]
mod told {
    use std::io;
    use std::time::Duration;

    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeVal;
    use nix::time::{ClockId, clock_gettime};

    /// Of this process: outside the kernel, inside it, and the most memory.
    pub(crate) fn usage() -> io::Result<(Duration, Duration, i64)> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        Ok((duration(usage.user_time()), duration(usage.system_time()), usage.max_rss()))
    }

    /// Of the calling thread. By libc: rustix looks for the kernel's page of functions by itself, and valgrind has
    /// hidden that.
    pub(crate) fn thread_time() -> io::Result<Duration> {
        Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
    }

    /// Of another process.
    #[cfg(not(target_vendor = "apple"))]
    pub(crate) fn processor_of(process: u32) -> io::Result<Duration> {
        let id = i32::try_from(process).map_err(io::Error::other)?;
        let clock = nix::time::clock_getcpuclockid(nix::unistd::Pid::from_raw(id))?;
        Ok(clock_gettime(clock)?.into())
    }

    #[cfg(target_vendor = "apple")]
    pub(crate) fn processor_of(_process: u32) -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
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
mod told {
    use std::io;
    use std::time::Duration;

    pub(crate) fn usage() -> io::Result<(Duration, Duration, i64)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn thread_time() -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn processor_of(_process: u32) -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The memory that a process holds now, in bytes: by its page tables, for the counters that the kernel keeps are rough.
pub(crate) fn resident_of(process: u32) -> io::Result<u64> {
    let path = format!("/proc/{process}/smaps_rollup");
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
    let text = fs::read_to_string(&path).map_err(named)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")?.strip_suffix("kB"));
    let kilobytes = line.and_then(|count| count.trim().parse::<u64>().ok());
    Ok(kilobytes.ok_or_else(|| named(io::ErrorKind::InvalidData.into()))? * 1_024)
}
