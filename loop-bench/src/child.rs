//! [`ServerProcess`]: a server that is another program.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::pin::pin_peer;

/// A program that does not listen after so long never will.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that runs on the peer's core, and is killed when this is dropped.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl ServerProcess {
    /// Starts what `command` makes for a port that was free a moment ago, and waits until it listens there.
    pub(crate) fn start(command: impl FnOnce(u16) -> Command + Send) -> io::Result<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = command(address.port());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // A child runs on the cores of the thread that starts it.
        let starting = move || {
            pin_peer();
            command.spawn().map_err(|error| {
                let program = command.get_program().display();
                io::Error::new(error.kind(), format!("{program}: {error}"))
            })
        };
        let started = thread::spawn(starting).join();
        let child =
            started.unwrap_or_else(|_panic| Err(io::Error::other("no thread to start in")))?;
        let mut server = Self { child, address };
        let begin = Instant::now();
        while let Err(error) = TcpStream::connect(address) {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("the server ended: {status}")));
            }
            if begin.elapsed() > PATIENCE {
                return Err(io::Error::new(error.kind(), format!("{address}: {error}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// The processor time that it has taken so far.
    ///
    /// # Errors
    /// `Unsupported` where the system has no clock of another process's time.
    pub(crate) fn processor(&self) -> io::Result<Duration> {
        sys::processor_of(self.child.id())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // One that has ended by itself is fine too.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod sys {
    use std::io;
    use std::time::Duration;

    use nix::time::{clock_getcpuclockid, clock_gettime};
    use nix::unistd::Pid;

    pub(super) fn processor_of(process: u32) -> io::Result<Duration> {
        let id = i32::try_from(process).map_err(io::Error::other)?;
        Ok(clock_gettime(clock_getcpuclockid(Pid::from_raw(id))?)?.into())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
mod sys {
    use std::io;
    use std::time::Duration;

    pub(super) fn processor_of(_process: u32) -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = ServerProcess::start(|_port| Command::new("/nowhere/at-all")).err().unwrap();
        assert!(error.to_string().starts_with("/nowhere/at-all: "), "{error}");
    }

    #[test]
    fn a_program_that_ends_is_not_waited_for() {
        let error = ServerProcess::start(|_port| Command::new("false")).err().unwrap();
        assert!(error.to_string().starts_with("the server ended: "), "{error}");
    }
}
