//! An echo server on calloop: a source for each connection, which changes its interest when the peer does not take
//! what it is sent.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use calloop::generic::Generic;
use calloop::{
    EventLoop, EventSource, Interest, LoopHandle, Mode, Poll, PostAction, Readiness, Token,
    TokenFactory,
};

use super::echo_server::Ready;
use super::one_read::{Next, Unsent, accepted};

/// What all connections share.
struct Shared {
    buffer: RefCell<Vec<u8>>,
    echoed: Cell<u64>,
}

struct Connection {
    stream: Generic<TcpStream>,
    unsent: Unsent,
    shared: Rc<Shared>,
}

impl EventSource for Connection {
    type Event = ();
    type Metadata = ();
    type Ret = ();
    type Error = io::Error;

    /// Does all that there is to do, so there is nothing to call back for.
    fn process_events<F: FnMut((), &mut ())>(
        &mut self,
        readiness: Readiness,
        token: Token,
        _callback: F,
    ) -> io::Result<PostAction> {
        let Self { stream, unsent, shared } = self;
        let (mut echoed, mut next) = (shared.echoed.get(), Next::Read);
        stream.process_events(readiness, token, |_readiness, stream| {
            next = unsent.advance(stream, &mut shared.buffer.borrow_mut(), &mut echoed);
            Ok(PostAction::Continue)
        })?;
        shared.echoed.set(echoed);
        if next == Next::Close {
            return Ok(PostAction::Remove);
        }
        let writes = next == Next::Write;
        if writes == stream.interest.writable {
            return Ok(PostAction::Continue);
        }
        stream.interest = if writes { Interest::WRITE } else { Interest::READ };
        Ok(PostAction::Reregister)
    }

    fn register(&mut self, poll: &mut Poll, tokens: &mut TokenFactory) -> calloop::Result<()> {
        self.stream.register(poll, tokens)
    }

    fn reregister(&mut self, poll: &mut Poll, tokens: &mut TokenFactory) -> calloop::Result<()> {
        self.stream.reregister(poll, tokens)
    }

    fn unregister(&mut self, poll: &mut Poll) -> calloop::Result<()> {
        self.stream.unregister(poll)
    }
}

pub(crate) fn serve_echo(ready: Ready) -> io::Result<u64> {
    let mut event_loop = EventLoop::<()>::try_new().map_err(io::Error::other)?;
    let listener = TcpListener::bind(ready.listen())?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let shared = Rc::new(Shared { buffer: vec![0; 64 * 1024].into(), echoed: Cell::new(0) });
    // One that counts would hold the loop, which holds the source, and with it every connection for ever.
    let (handle, connections) = (event_loop.handle().downgrade(), Rc::clone(&shared));
    let source = Generic::new(listener, Interest::READ, Mode::Level);
    let accepting = move |_readiness, listener: &mut _, (): &mut ()| {
        let handle = handle.upgrade().expect("the loop runs this");
        accept(&handle, AsRef::as_ref(listener), &connections)
    };
    event_loop.handle().insert_source(source, accepting).map_err(|refused| refused.error)?;

    let (signal, stopped) = (event_loop.get_signal(), Arc::new(AtomicBool::new(false)));
    let stop = Arc::clone(&stopped);
    ready.announce(address, move || {
        stop.store(true, Ordering::Release);
        signal.wakeup();
    });
    while !stopped.load(Ordering::Acquire) {
        event_loop.dispatch(None, &mut ()).map_err(io::Error::other)?;
    }
    Ok(shared.echoed.get())
}

fn accept(
    handle: &LoopHandle<'static, ()>,
    listener: &TcpListener,
    shared: &Rc<Shared>,
) -> io::Result<PostAction> {
    while let Some(stream) = accepted(listener)? {
        let stream = Generic::new(stream, Interest::READ, Mode::Level);
        let connection =
            Connection { stream, unsent: Unsent::default(), shared: Rc::clone(shared) };
        handle.insert_source(connection, |(), (), ()| ()).map_err(|refused| refused.error)?;
    }
    Ok(PostAction::Continue)
}
