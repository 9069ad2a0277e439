//! An echo server by hand on polling, whose events are one-shot: after each the kernel is told what is wanted next.
//! See [`polling`](super::polling) for why it is version 2.8.

use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polling::{Event, Poller};

use super::echo_server::Ready;
use super::one_read::{Next, Unsent, accepted};

const LISTENER: usize = usize::MAX - 1;

pub(crate) fn serve_echo(ready: Ready) -> io::Result<u64> {
    let poller = Arc::new(Poller::new()?);
    let listener = TcpListener::bind(ready.listen())?;
    listener.set_nonblocking(true)?;
    poller.add(&listener, Event::readable(LISTENER))?;
    let stopped = Arc::new(AtomicBool::new(false));
    let (stop, notifier) = (Arc::clone(&stopped), Arc::clone(&poller));
    ready.announce(listener.local_addr()?, move || {
        stop.store(true, Ordering::Release);
        notifier.notify().expect("an eventfd takes a one");
    });

    let (mut events, mut buffer, mut echoed) = (Vec::new(), vec![0; 64 * 1024], 0);
    let (mut connections, mut free) = (Vec::<Option<(TcpStream, Unsent)>>::new(), Vec::new());
    while !stopped.load(Ordering::Acquire) {
        events.clear();
        match poller.wait(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        };
        for &Event { key, .. } in &events {
            if key == LISTENER {
                accept(&poller, &listener, &mut connections, &mut free)?;
                poller.modify(&listener, Event::readable(LISTENER))?;
                continue;
            }
            let Some((stream, unsent)) = &mut connections[key] else { continue };
            match unsent.advance(stream, &mut buffer, &mut echoed) {
                Next::Read => poller.modify(&*stream, Event::readable(key))?,
                Next::Write => poller.modify(&*stream, Event::writable(key))?,
                Next::Close => {
                    poller.delete(stream.as_raw_fd())?;
                    connections[key] = None;
                    free.push(key);
                }
            }
        }
    }
    Ok(echoed)
}

fn accept(
    poller: &Poller,
    listener: &TcpListener,
    connections: &mut Vec<Option<(TcpStream, Unsent)>>,
    free: &mut Vec<usize>,
) -> io::Result<()> {
    while let Some(stream) = accepted(listener)? {
        let key = free.pop().unwrap_or(connections.len());
        if key == connections.len() {
            connections.push(None);
        }
        poller.add(&stream, Event::readable(key))?;
        connections[key] = Some((stream, Unsent::default()));
    }
    Ok(())
}
