//! Where a child's standard streams lead.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{self, Command};

/// What becomes of a standard stream of a child.
#[derive(Debug)]
#[non_exhaustive]
pub enum Stdio {
    /// A pipe to us.
    Piped,
    /// Reads as empty, and swallows what is written.
    Null,
    /// Ours.
    Inherit,
    /// This descriptor, which is closed here once the child has it.
    Fd(OwnedFd),
    /// For standard error only: wherever standard output goes, in the order of writing.
    MergeIntoStdout,
}

impl From<OwnedFd> for Stdio {
    fn from(fd: OwnedFd) -> Stdio {
        Stdio::Fd(fd)
    }
}

/// The three of them.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdin: Stdio,
    pub(super) stdout: Stdio,
    pub(super) stderr: Stdio,
}

impl Streams {
    pub(super) fn inherited() -> Streams {
        Streams { stdin: Stdio::Inherit, stdout: Stdio::Inherit, stderr: Stdio::Inherit }
    }

    /// Tells the command. When standard output is a pipe that standard error shares, our end of it
    /// comes back: the standard library makes no such pipe.
    pub(super) fn apply(self, command: &mut Command) -> io::Result<Option<OwnedFd>> {
        command.stdin(plain(self.stdin, "input")?);
        if !matches!(self.stderr, Stdio::MergeIntoStdout) {
            command.stderr(plain(self.stderr, "error")?);
            command.stdout(plain(self.stdout, "output")?);
            return Ok(None);
        }
        let (ours, stdout) = match self.stdout {
            Stdio::Piped => {
                let (ours, theirs) = pipe()?;
                (Some(ours), theirs)
            }
            Stdio::Fd(fd) => (None, fd),
            Stdio::Inherit => (None, io::stdout().as_fd().try_clone_to_owned()?),
            Stdio::Null | Stdio::MergeIntoStdout => {
                command.stderr(process::Stdio::null());
                command.stdout(plain(self.stdout, "output")?);
                return Ok(None);
            }
        };
        command.stderr(same(stdout.as_fd())?);
        command.stdout(stdout);
        Ok(ours)
    }
}

fn same(fd: BorrowedFd<'_>) -> io::Result<process::Stdio> {
    Ok(fd.try_clone_to_owned()?.into())
}

fn plain(stdio: Stdio, name: &str) -> io::Result<process::Stdio> {
    Ok(match stdio {
        Stdio::Piped => process::Stdio::piped(),
        Stdio::Null => process::Stdio::null(),
        Stdio::Inherit => process::Stdio::inherit(),
        Stdio::Fd(fd) => fd.into(),
        Stdio::MergeIntoStdout => {
            let message = format!("standard {name} cannot be merged into standard output");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
    })
}

/// What is read from, and what is written to; neither is inherited by other children (B-PROC-15).
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(not(target_vendor = "apple"))]
    return Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?);
    #[cfg(target_vendor = "apple")]
    {
        let (reader, writer) = rustix::pipe::pipe()?;
        for end in [&reader, &writer] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        }
        Ok((reader, writer))
    }
}
