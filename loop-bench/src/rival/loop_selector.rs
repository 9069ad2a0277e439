//! This project's selectors, each by name, as a user's program would call them.

use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use loop_selector::{Event, Events, Interest, Selector, Token, available, by_name};

use super::waiting::{Make, Ready, Waiting, Wake, put};

struct Ours {
    selector: Box<dyn Selector>,
    events: Events,
    /// By source.
    tokens: Vec<Option<Token>>,
    /// Sources, by their tokens' index.
    numbers: Vec<usize>,
}

/// The backends of this system that can be made, best first.
pub(crate) fn usable() -> impl Iterator<Item = &'static str> {
    available().iter().copied().filter(|name| refusal(name).is_none())
}

/// What the system says to a backend, if it says no: to io_uring alone, in practice.
pub(crate) fn refusal(name: &str) -> Option<&'static str> {
    static REFUSED: OnceLock<Vec<(&'static str, String)>> = OnceLock::new();
    let refused = REFUSED.get_or_init(|| {
        let refused = |&name| Some((name, by_name(name).err()?.to_string()));
        let all = move || available().iter().filter_map(refused).collect();
        // In a thread of its own: the kernel may interrupt a thread to tidy up behind a ring.
        thread::spawn(all).join().expect("no backend panics")
    });
    refused.iter().find(|(known, _)| *known == name).map(|(_, why)| why.as_str())
}

/// The backend of that name.
pub(crate) fn make(name: &'static str) -> Make {
    Box::new(move || Ok(waiting(by_name(name)?)))
}

/// Any selector, as the workloads ask for it.
pub(crate) fn waiting(selector: Box<dyn Selector>) -> Box<dyn Waiting> {
    let (tokens, numbers) = (Vec::new(), Vec::new());
    Box::new(Ours { selector, events: Events::new(), tokens, numbers })
}

impl Waiting for Ours {
    fn add(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
        let token = self.selector.register(Rc::clone(source) as _, Interest::READ)?;
        put(&mut self.tokens, number, Some(token));
        put(&mut self.numbers, token.index() as usize, number);
        Ok(())
    }

    fn modify(&mut self, _source: &Rc<UnixStream>, number: usize, writes: bool) -> io::Result<()> {
        let token = self.tokens[number].ok_or(io::ErrorKind::NotFound)?;
        let both = Interest::READ | Interest::WRITE;
        self.selector.modify(token, Some(if writes { both } else { Interest::READ }))
    }

    fn remove(&mut self, _source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
        let token = self.tokens[number].take().ok_or(io::ErrorKind::NotFound)?;
        self.selector.deregister(token).map(drop)
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let Self { selector, events, numbers, .. } = self;
        selector.select(events, timeout)?;
        let numbers = &numbers[..];
        ready.extend(events.iter().map(|event| {
            let &Event::Ready { token, readiness } = event else { unreachable!("{event:?}") };
            let (reads, writes) = (readiness.is_readable(), readiness.is_writable());
            Ready { number: numbers[token.index() as usize], reads, writes }
        }));
        Ok(())
    }

    fn waker(&self) -> Wake {
        let waker = self.selector.waker();
        Box::new(move || waker.wake())
    }
}
