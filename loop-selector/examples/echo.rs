//! An echo server on the bare selector: register, select, dispatch by hand.
//!
//! ```text
//! cargo run -p loop-selector --example echo -- [backend] [address]
//! cargo run -p loop-selector --example echo -- poll 127.0.0.1:7000
//! ```
//!
//! A connection waits for WRITE only while it owes bytes, and reads nothing meanwhile: a client
//! that sends and never receives fills its own buffers, not ours.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;

use loop_selector::{Event, Events, Interest, Selector, Signal, SignalWatcher, Token};

struct Connection {
    stream: Rc<TcpStream>,
    owed: Vec<u8>,
}

/// Serves until `is_over`, which is asked after a wait that found nothing: a wake, as a rule, but a
/// wait may always end early.
pub fn serve(
    selector: &mut dyn Selector,
    listener: TcpListener,
    mut is_over: impl FnMut() -> bool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = Rc::new(listener);
    let door = selector.register(listener.clone(), Interest::READ)?;
    let mut connections: HashMap<Token, Connection> = HashMap::new();
    let mut events = Events::new();
    loop {
        selector.select(&mut events, None)?;
        if events.is_empty() && is_over() {
            break;
        }
        for &event in &events {
            let Event::Ready { token, .. } = event else { continue };
            if token == door {
                accept(selector, &listener, &mut connections)?;
            } else if let Some(connection) = connections.get_mut(&token) {
                let interest = connection.serve();
                match interest {
                    Ok(interest) => selector.modify(token, Some(interest))?,
                    Err(_) => {
                        connections.remove(&token);
                        selector.deregister(token)?; // the owner comes back, and is closed here
                    }
                }
            }
        }
    }
    for token in connections.into_keys().chain([door]) {
        selector.deregister(token)?;
    }
    Ok(())
}

fn accept(
    selector: &mut dyn Selector,
    listener: &TcpListener,
    connections: &mut HashMap<Token, Connection>,
) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                let stream = Rc::new(stream);
                let token = selector.register(stream.clone(), Interest::READ)?;
                connections.insert(token, Connection { stream, owed: Vec::new() });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => eprintln!("accept: {error}"),
        }
    }
}

impl Connection {
    /// Pays what it owes, else reads something new; says what to wait for next. An error, or the
    /// end of what the client sends, ends the connection.
    fn serve(&mut self) -> io::Result<Interest> {
        if self.owed.is_empty() {
            let mut buffer = [0; 16 * 1024];
            match (&*self.stream).read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.owed.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Interest::READ),
                Err(error) => return Err(error),
            }
        }
        match (&*self.stream).write(&self.owed) {
            Ok(n) => drop(self.owed.drain(..n)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(if self.owed.is_empty() { Interest::READ } else { Interest::WRITE })
    }
}

#[allow(dead_code)] // a test includes this file for `serve`
fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut selector = match arguments.next() {
        Some(name) => loop_selector::by_name(&name)?,
        None => loop_selector::default_selector()?,
    };
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address)?;
    let mut signals = SignalWatcher::new(selector.waker())?;
    signals.watch(Signal::INT)?;
    println!("{}: echo on {}", selector.name(), listener.local_addr()?);
    serve(&mut *selector, listener, || !signals.pending().is_empty())?;
    println!("goodbye");
    Ok(())
}
