//! A key-value server that speaks the protocol of Redis, on level 2: PING, ECHO, GET, SET with EX and PX,
//! DEL, INCR, EXPIRE, TTL, MGET, pipelined as deep as you like. Each deadline is a timer of the loop.
//!
//! `cargo run --release -p loop-net --example redis_server [PORT]`, then `redis-cli`. Ctrl-C ends it.
//! `ci/interop/redis.py` holds its answers against the real server's.

mod commands;
mod request;
mod store;

use std::cell::RefCell;
use std::io;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use loop_net::{EventLoop, Net, Protocol, Signal, Transport, WriteState};

use commands::{Args, error, execute};
use request::Request;
use store::Store;

/// So much of answers is handed to a connection at a time.
const CHUNK: usize = 32 * 1024;

struct Client {
    store: Rc<RefCell<Store>>,
    transport: Option<Transport>,
    request: Request,
    /// Received and not answered: the beginning of a command, or what came before a pause.
    rest: Vec<u8>,
    /// It does not read its answers.
    paused: bool,
    /// It has said goodbye, or what nobody understands.
    over: bool,
}

impl Client {
    fn new(store: Rc<RefCell<Store>>) -> Client {
        let (request, rest) = (Request::default(), Vec::new());
        Client { store, transport: None, request, rest, paused: false, over: false }
    }

    /// Answers the commands at the front of `data`; how many bytes they are.
    fn answer(&mut self, data: &[u8]) -> usize {
        let (mut done, mut out) = (0, mem::take(&mut self.store.borrow_mut().buffer));
        while !self.paused && !self.over {
            let data = &data[done..];
            match self.request.parse(data) {
                Ok(Some(length)) => {
                    let args = Args(data, &self.request.args);
                    self.over = !execute(args, &mut self.store.borrow_mut(), &mut out);
                    done += length;
                }
                Ok(None) => break,
                Err(what) => {
                    error(&mut out, format_args!("ERR Protocol error: {what}"));
                    self.over = true;
                }
            }
            if out.len() >= CHUNK {
                self.send(&mut out);
            }
        }
        self.send(&mut out);
        if out.capacity() <= 4 * CHUNK {
            self.store.borrow_mut().buffer = out;
        }
        done
    }

    fn send(&mut self, out: &mut Vec<u8>) {
        let Some(transport) = &self.transport else { return };
        if !out.is_empty() && transport.write(out) != WriteState::Open {
            self.paused = true;
            transport.pause_reading();
        }
        if self.over {
            transport.close();
        }
        out.clear();
    }

    fn answer_rest(&mut self) {
        let mut rest = mem::take(&mut self.rest);
        let done = self.answer(&rest);
        // Nothing is left most often, and no memory is kept for it.
        if done < rest.len() {
            rest.drain(..done);
            self.rest = rest;
        }
    }
}

impl Protocol for Client {
    fn connection_made(&mut self, transport: &Transport) {
        self.transport = Some(transport.clone());
    }

    /// Commands that have come as a whole are read where they lie.
    fn data_received(&mut self, data: &[u8]) {
        if self.rest.is_empty() {
            let done = self.answer(data);
            self.rest.extend_from_slice(&data[done..]);
        } else {
            self.rest.extend_from_slice(data);
            self.answer_rest();
        }
    }

    fn resume_writing(&mut self) {
        self.paused = false;
        self.answer_rest();
        if let Some(transport) = self.transport.as_ref().filter(|_| !self.paused) {
            transport.resume_reading();
        }
    }
}

fn main() -> io::Result<()> {
    let port: u16 = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(6379);
    let mut event_loop = EventLoop::new()?;
    let net = Net::os(&event_loop);
    let store = Store::shared(&event_loop);
    let listening = net.tcp_server(("127.0.0.1", port)).max_connections(10_000);
    let listening = listening.bind(move || Client::new(store.clone()));
    let server = event_loop.run_until_complete(listening)??;
    for signal in [Signal::INT, Signal::TERM] {
        let lp = event_loop.loop_ref();
        event_loop.add_signal_handler(signal, move || lp.stop())?;
    }
    println!("listening on {} ({})", server.local_addrs()[0], event_loop.selector_name());
    event_loop.run_forever()?;
    server.close_clients();
    event_loop.run_until_complete(server.drain(Duration::from_secs(1)))?;
    Ok(())
}
