//! One connection, one byte there and back, again and again: whether it pays to look before waiting.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use loop_core::EventLoop;
use loop_selector::by_name;

use crate::bar::Bar;
use crate::meter::processor_time;
use crate::pin::pin_peer;
use crate::rival::loop_core::{best, name};
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

/// For how long the busy one looks: a few times what the answer takes.
const BUSY: Duration = Duration::from_micros(50);

pub(super) const REQUESTS: Bar = Bar {
    workload: "wake/ping_pong",
    params: &[],
    ours: "loop-core/epoll busy",
    rivals: &["loop-core/epoll"],
    at_most: 0.5,
};

pub(super) const PROCESSOR: Bar = Bar { workload: "wake/ping_pong_cpu", at_most: 1.1, ..REQUESTS };

/// By the clock, and by the processor time of the loop's thread.
pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let requests = plan.size(10_000, 50_000);
    let contest = |workload, pick: fn(Laps) -> Lap| {
        let subject = |name, busy| Subject::new(name, move |_seed| round(busy, requests).map(pick));
        let subjects =
            vec![subject(name(), Duration::ZERO), subject(format!("{} busy", name()), BUSY)];
        Contest::new(workload, &[("requests", requests)], subjects)
    };
    vec![
        contest("wake/ping_pong", |laps| laps.wall),
        contest("wake/ping_pong_cpu", |laps| laps.processor),
    ]
}

struct Laps {
    wall: Lap,
    processor: Lap,
}

/// The loop answers; a client with a thread of its own asks, and waits for each answer.
fn round(busy: Duration, requests: u64) -> Result<Laps, Wrong> {
    let mut event_loop = EventLoop::builder().selector(by_name(best())?).busy_poll(busy).build()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _peer) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    server.set_nonblocking(true)?;
    let server = Rc::new(server);
    let (lp, connection) = (event_loop.loop_ref(), Rc::clone(&server));
    event_loop.add_reader(&server, move || match answer(&connection) {
        Ok(true) => {}
        // The client is gone; why, it tells itself.
        Ok(false) | Err(_) => lp.stop(),
    })?;
    let before = processor_time()?;
    let asking = thread::spawn(move || ask(client, requests));
    let ran = event_loop.run_forever();
    let elapsed = processor_time()?.saturating_sub(before);
    let asked = asking.join().map_err(|_panic| Wrong("the client panicked".into()))?;
    ran.map_err(|error| Wrong(format!("the loop's run: {error}")))?;
    Ok(Laps { wall: asked?, processor: Lap { elapsed, ops: requests } })
}

/// Sends back what has come; `false` at the end.
fn answer(mut connection: &TcpStream) -> io::Result<bool> {
    let mut buffer = [0; 64];
    match connection.read(&mut buffer)? {
        0 => Ok(false),
        count => connection.write_all(&buffer[..count]).map(|()| true),
    }
}

fn ask(mut connection: TcpStream, requests: u64) -> Result<Lap, Wrong> {
    pin_peer();
    let (lap, right) = Lap::time(requests, || -> io::Result<bool> {
        let mut right = true;
        for n in 0..requests {
            let (sent, mut came) = (n as u8, [0]);
            connection.write_all(&[sent])?;
            connection.read_exact(&mut came)?;
            right &= came == [sent];
        }
        Ok(right)
    });
    Wrong::unless_equal("every byte came back as it was sent", right?, true)?;
    Ok(lap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered() {
        for busy in [Duration::ZERO, BUSY] {
            let laps = round(busy, 200).unwrap();
            assert_eq!((laps.wall.ops, laps.processor.ops), (200, 200));
            assert!(laps.processor.elapsed > Duration::ZERO);
        }
    }
}
