//! What `Builder::busy_poll` brings: one connection, one request at a time, with and without it.
//!
//! `cargo run --release -p loop-core --example busy_poll [REQUESTS]`
//!
//! Prints requests a second and the server thread's processor time a request (Linux). It needs a machine with a free
//! processor: a loop that polls takes one while it does.

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use loop_core::EventLoop;

/// The calling thread's time on a processor; zero where the system does not tell.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Serves `requests` of one client on a loop that polls for `limit`; returns how long that took, and the processor
/// time of the loop's thread.
pub fn measure(limit: Duration, requests: u32) -> Result<(Duration, Duration), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let client = thread::spawn(move || -> std::io::Result<Duration> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let start = Instant::now();
        let mut response = [0; 64];
        for _ in 0..requests {
            stream.write_all(&[1; 64])?;
            // The client polls as well, so that what is measured is the server.
            while let Err(error) = stream.read(&mut response) {
                if error.kind() != std::io::ErrorKind::WouldBlock {
                    return Err(error);
                }
            }
        }
        Ok(start.elapsed())
    });
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut event_loop = EventLoop::builder().busy_poll(limit).build()?;
    let (stream, lp) = (Rc::new(stream), event_loop.loop_ref());
    let source = stream.clone();
    event_loop.add_reader(&stream, move || {
        let mut request = [0; 64];
        match (&*source).read(&mut request)? {
            0 => lp.stop(),
            count => (&*source).write_all(&request[..count])?,
        }
        std::io::Result::Ok(())
    })?;
    let before = processor_time();
    event_loop.run_forever()?;
    let spent = processor_time() - before;
    Ok((client.join().expect("the client does not panic")?, spent))
}

fn main() -> Result<(), Box<dyn Error>> {
    let requests = std::env::args().nth(1).map_or(Ok(50_000), |count| count.parse())?;
    // Interleaved, so that a busy moment of the machine meets both.
    for round in 1..=5 {
        for micros in [0, 50] {
            let (elapsed, spent) = measure(Duration::from_micros(micros), requests)?;
            let rate = f64::from(requests) / elapsed.as_secs_f64();
            let each = spent.as_secs_f64() * 1e6 / f64::from(requests);
            println!(
                "round {round}, polls {micros:2} us: {rate:8.0} requests/s, {each:6.2} us each"
            );
        }
    }
    Ok(())
}
