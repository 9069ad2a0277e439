//! A key-value server that speaks the protocol of Redis, on level 2: PING, ECHO, GET, SET with EX and PX,
//! DEL, INCR, EXPIRE, TTL, MGET, pipelined as deep as you like. Each deadline is a timer of the loop.
//!
//! `cargo run --release -p loop-net --example redis_server [PORT [MICROSECONDS]]`, then `redis-cli`. Ctrl-C
//! ends it. `ci/interop/redis.py` holds its answers against the real server's.
//!
//! With many clients it lets requests gather for MICROSECONDS, 10 unless told otherwise, to which Linux adds 50. So it
//! answers more requests a second with less processor time, as a network card coalesces its interrupts; but a request
//! that comes alone in between is answered up to that much later. With only a few clients it soon stops doing so, and
//! with 0 it never does.

mod commands;
mod request;
mod store;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use loop_net::{EventLoop, Net, Protocol, Transport, WriteState};

use commands::{error, execute};
use request::Request;
use store::Store;

/// So much of answers is handed to a connection at a time, and so much memory kept for an idle one.
const CHUNK: usize = 32 * 1024;

/// For so many microseconds requests gather, if the command line does not say; see [`loop_net::Builder::coalesce`].
const GATHERING: u64 = 10;

struct Client {
    store: Rc<RefCell<Store>>,
    transport: Option<Transport>,
    request: Request,
    /// Received and not answered.
    input: Vec<u8>,
    /// Answered and not sent.
    output: Vec<u8>,
}

impl Client {
    /// Answers what has come, while the client reads its answers and says neither goodbye nor nonsense.
    fn answer(&mut self) {
        let Some(transport) = self.transport.clone() else { return };
        let (mut done, mut going) = (0, transport.is_reading());
        while going {
            let input = &self.input[done..];
            let open = match self.request.parse(input) {
                Ok(length) => {
                    done += length;
                    let store = &mut self.store.borrow_mut();
                    execute(input, &self.request.args, store, &mut self.output)
                }
                Err(None) => break,
                Err(Some(what)) => {
                    error(&mut self.output, &format!("ERR Protocol error: {what}"));
                    false
                }
            };
            if self.output.len() >= CHUNK || !open {
                send(&mut self.output, &transport);
                going = open && transport.is_reading();
            }
            if !open {
                transport.close();
            }
        }
        send(&mut self.output, &transport);
        self.input.drain(..done);
        self.input.shrink_to(CHUNK);
    }
}

/// A client that does not read its answers is not read from either.
fn send(output: &mut Vec<u8>, transport: &Transport) {
    if transport.write(output) != WriteState::Open {
        transport.pause_reading();
    }
    output.clear();
    output.shrink_to(CHUNK);
}

impl Protocol for Client {
    fn connection_made(&mut self, transport: &Transport) {
        self.transport = Some(transport.clone());
    }

    fn data_received(&mut self, data: &[u8]) {
        self.input.extend_from_slice(data);
        self.answer();
    }

    fn resume_writing(&mut self) {
        self.transport.iter().for_each(Transport::resume_reading);
        self.answer();
    }
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let port = args.next().unwrap_or_else(|| "6379".to_owned());
    let micros =
        args.next().map_or(Ok(GATHERING), |text| text.parse()).map_err(io::Error::other)?;
    let mut event_loop = EventLoop::builder().coalesce(Duration::from_micros(micros)).build()?;
    let store = Store::shared(&event_loop);
    let listening = Net::os(&event_loop).tcp_server(format!("127.0.0.1:{port}"));
    let listening = listening.max_connections(10_000).bind(move || {
        let (store, request) = (store.clone(), Request::default());
        Client { store, transport: None, request, input: Vec::new(), output: Vec::new() }
    });
    let server = event_loop.run_until_complete(listening)??;
    println!("listening on {} ({})", server.local_addrs()[0], event_loop.selector_name());
    event_loop.run_until_complete(server.serve_until_interrupted())??;
    server.close_clients();
    event_loop.run_until_complete(server.drain(Duration::from_secs(1)))?;
    Ok(())
}
