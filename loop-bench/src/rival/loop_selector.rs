//! This project's selectors, each by name, as a user's program would call them.

use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use loop_selector::{Event, Events, Interest, Selector, Token, by_name};

use super::waiting::{Make, Waiting};

struct Ours {
    selector: Box<dyn Selector>,
    events: Events,
    /// By source.
    tokens: Vec<Option<Token>>,
    /// Sources, by their tokens' index.
    numbers: Vec<usize>,
}

/// The backend of that name.
pub(crate) fn make(name: &'static str) -> Make {
    Box::new(move || {
        let selector = by_name(name)?;
        let (tokens, numbers) = (Vec::new(), Vec::new());
        Ok(Box::new(Ours { selector, events: Events::new(), tokens, numbers }))
    })
}

impl Waiting for Ours {
    fn add(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
        let token = self.selector.register(Rc::clone(source) as _, Interest::READ)?;
        put(&mut self.tokens, number, Some(token));
        put(&mut self.numbers, token.index() as usize, number);
        Ok(())
    }

    fn remove(&mut self, _source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
        let token = self.tokens[number].take().ok_or(io::ErrorKind::NotFound)?;
        self.selector.deregister(token).map(drop)
    }

    fn wait(&mut self, ready: &mut Vec<usize>) -> io::Result<()> {
        self.selector.select(&mut self.events, None)?;
        for event in &self.events {
            if let Event::Ready { token, readiness } = event
                && readiness.is_readable()
            {
                ready.push(self.numbers[token.index() as usize]);
            }
        }
        Ok(())
    }
}

fn put<T: Clone + Default>(table: &mut Vec<T>, index: usize, value: T) {
    if table.len() <= index {
        table.resize(index + 1, T::default());
    }
    table[index] = value;
}
