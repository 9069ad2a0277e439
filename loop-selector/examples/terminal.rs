//! A terminal, a pipe and a socket beside each other: waiting is not only for sockets.
//!
//! ```text
//! cargo run -p loop-selector --example terminal -- [backend]
//! ```
//!
//! What is typed goes through a child process, `cat`, and is printed as it comes back; a socket on
//! the side says how much it was. End it with Ctrl-D.
//!
//! Whether a terminal blocks is a property of the open file, which the shell that started us shares:
//! it is put back before we leave.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use loop_selector::{
    Event, Events, Interest, OwnedSource, SharedSelector, by_name, default_selector,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Makes a descriptor non-blocking until it is dropped.
struct NonBlocking {
    fd: OwnedFd,
    before: OFlags,
}

impl NonBlocking {
    fn new(fd: impl AsFd) -> io::Result<NonBlocking> {
        let fd = fd.as_fd().try_clone_to_owned()?;
        let before = set_nonblocking(&fd)?;
        Ok(NonBlocking { fd, before })
    }
}

/// Returns what the flags were.
fn set_nonblocking(fd: impl AsFd) -> io::Result<OFlags> {
    let before = fcntl_getfl(&fd)?;
    fcntl_setfl(&fd, before | OFlags::NONBLOCK)?;
    Ok(before)
}

impl Drop for NonBlocking {
    fn drop(&mut self) {
        // There is nobody to tell, and nothing else to try.
        let _ = fcntl_setfl(&self.fd, self.before);
    }
}

/// Relays `input` through `cat` to `print` until it ends, and returns how many bytes came back.
/// The other end of `counter` is sent that number, as text.
pub fn relay(
    selector: &SharedSelector,
    input: impl AsFd,
    mut print: impl FnMut(&[u8]) -> io::Result<()>,
    counter: UnixStream,
) -> io::Result<usize> {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let to_child = child.stdin.take().expect("it is piped");
    let from_child = child.stdout.take().expect("it is piped");
    let _restore = NonBlocking::new(&input)?;
    // These are ours alone: nobody minds how they are left. (And a copy in a guard would keep the
    // pipe open behind our back: the child would never see the end.)
    set_nonblocking(&to_child)?;
    set_nonblocking(&from_child)?;
    set_nonblocking(&counter)?;
    let input = selector.register(OwnedSource::dup(input.as_fd())?, Interest::READ)?;
    let from_child = selector.register(from_child, Interest::READ)?;
    let to_child = selector.register(to_child, Interest::WRITE)?;
    to_child.modify(None)?; // it is asked only when we owe it something
    let counter = selector.register(counter, Interest::WRITE)?;
    counter.modify(None)?;

    let (mut to_child, mut owed, mut returned) = (Some(to_child), Vec::new(), 0);
    let mut is_over = false;
    let mut events = Events::new();
    loop {
        selector.select(&mut events, None)?;
        for event in &events {
            let Event::Ready { token, .. } = *event else { continue };
            if token == input.token() {
                let more = read(&input, &mut owed)?;
                // One chunk at a time: what the child does not take is not read either.
                input.modify(None)?;
                match &to_child {
                    Some(pipe) if more => pipe.modify(Some(Interest::WRITE))?,
                    _ => drop(to_child.take()), // closed: the child sees the end
                }
            } else if to_child.as_ref().is_some_and(|pipe| pipe.token() == token) {
                let pipe = to_child.as_ref().expect("it was there just now");
                pay(pipe, &mut owed)?;
                if owed.is_empty() {
                    pipe.modify(None)?;
                    input.modify(Some(Interest::READ))?;
                }
            } else if token == from_child.token() {
                let mut came = Vec::new();
                let more = read(&from_child, &mut came)?;
                print(&came)?;
                returned += came.len();
                if !more {
                    from_child.modify(None)?;
                    counter.modify(Some(Interest::WRITE))?;
                }
            } else if token == counter.token() {
                pay(&counter, &mut returned.to_string().into_bytes())?;
                is_over = true;
            }
        }
        if is_over {
            child.wait()?;
            return Ok(returned);
        }
    }
}

/// Appends what there is; false at the end.
fn read(from: impl AsFd, to: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    match rustix::io::read(from, &mut buffer) {
        Ok(length) => {
            to.extend_from_slice(&buffer[..length]);
            Ok(length > 0)
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(true),
        Err(Errno::IO) => Ok(false), // a pseudo-terminal whose other end is gone
        Err(errno) => Err(errno.into()),
    }
}

/// Writes as much as is taken.
fn pay(to: impl AsFd, owed: &mut Vec<u8>) -> io::Result<()> {
    match rustix::io::write(to, owed) {
        Ok(length) => drop(owed.drain(..length)),
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(())
}

/// Standard output is the same open file as the terminal, as a rule, and so does not block either.
#[allow(dead_code)] // a test has its own
fn print(mut bytes: &[u8]) -> io::Result<()> {
    let stdout = io::stdout();
    while !bytes.is_empty() {
        match rustix::io::write(&stdout, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], None)?),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[allow(dead_code)] // a test includes this file for `relay`
fn main() -> io::Result<()> {
    let selector = SharedSelector::new(match std::env::args().nth(1) {
        Some(name) => by_name(&name)?,
        None => default_selector()?,
    });
    let (counter, mut count) = UnixStream::pair()?;
    relay(&selector, io::stdin(), print, counter)?;
    let mut text = String::new();
    count.read_to_string(&mut text)?;
    println!("{}: {text} bytes", selector.name());
    Ok(())
}
