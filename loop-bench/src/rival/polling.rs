//! polling, whose events are one-shot: what was reported is told to the kernel again, or else it is
//! never reported any more.
//!
//! This is the last version whose registration can be called without `unsafe`, which this crate does
//! not have. Version 3 makes the same system calls: five a wait, and one for each event.

use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use polling::{Event, Poller};

use super::waiting::{Ready, Waiting, Wake, put};

struct Polling {
    poller: Arc<Poller>,
    events: Vec<Event>,
    /// Owner and interest, by number.
    sources: Vec<Option<(Rc<UnixStream>, Event)>>,
}

pub(crate) fn make() -> io::Result<Box<dyn Waiting>> {
    let poller = Arc::new(Poller::new()?);
    Ok(Box::new(Polling { poller, events: Vec::new(), sources: Vec::new() }))
}

impl Waiting for Polling {
    fn add(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
        let event = Event::readable(number);
        self.poller.add(&**source, event)?;
        put(&mut self.sources, number, Some((Rc::clone(source), event)));
        Ok(())
    }

    fn modify(&mut self, source: &Rc<UnixStream>, number: usize, writes: bool) -> io::Result<()> {
        let event = if writes { Event::all(number) } else { Event::readable(number) };
        self.poller.modify(&**source, event)?;
        put(&mut self.sources, number, Some((Rc::clone(source), event)));
        Ok(())
    }

    fn remove(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
        self.sources[number] = None;
        self.poller.delete(source.as_raw_fd())
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.events.clear();
        // The tearing down of another subject's ring may interrupt it.
        while let Err(error) = self.poller.wait(&mut self.events, timeout) {
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
        }
        for event in &self.events {
            let Some((source, interest)) = &self.sources[event.key] else { continue };
            self.poller.modify(&**source, *interest)?;
            let Event { key: number, readable: reads, writable: writes } = *event;
            ready.push(Ready { number, reads, writes });
        }
        Ok(())
    }

    fn waker(&self) -> Wake {
        let poller = Arc::clone(&self.poller);
        Box::new(move || poller.notify().expect("an eventfd takes a one"))
    }
}
