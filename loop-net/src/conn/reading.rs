//! From the socket to the protocol.

use std::io;
use std::rc::Rc;

use loop_core::{ExceptionContext, Failure, HeldPanic};
use rustix::io::Errno;

use super::engine::{Conn, is_transient};
use super::hooks::Called;
use super::state::State;
use crate::error::{NetError, named};
use crate::protocol::KeepOpen;
use crate::socket::Kind;
use crate::stream_state::Stream;

/// The most that is read of a connection in an iteration (B-TRN-25), so that no peer keeps the others waiting.
const READ_SIZE: usize = 256 * 1024;

/// The most while others are ready as well: then a peer that sends without end has its share and no more.
const SHARE: usize = 64 * 1024;

impl Conn {
    pub(crate) fn is_reading(&self) -> bool {
        self.state().is_reading() && !self.socket.kind().only_writes()
    }

    /// Nothing on what is only written to: there it would stop the watch for the reader's end.
    pub(crate) fn pause_reading(&self, paused: bool) {
        if !self.socket.kind().only_writes() {
            self.advance(|state| state.pause_reading(paused));
        }
    }

    /// There is something to read. Each way is given the connection, so that none has to be returned from.
    #[inline(always)]
    pub(super) fn read(self: Rc<Self>, buffer: &mut Vec<u8>) {
        if self.state().reads_plainly() {
            self.read_ready(buffer)
        } else if self.state().is_fed() {
            self.feed(buffer)
        } else {
            self.read_specially()
        }
    }

    #[inline(never)]
    fn read_ready(self: Rc<Self>, buffer: &mut Vec<u8>) {
        if buffer.len() < READ_SIZE {
            grow(buffer);
        }
        let Some(share) = buffer.first_chunk_mut::<SHARE>() else { unreachable!("it has grown") };
        match self.socket.recv(share) {
            // One comparison, and the slice needs none: what is no rest is the end, or a whole share.
            Ok(count) => match &share[..count % SHARE] {
                [] if count == 0 => self.peer_ended(),
                [] => self.receive_rest(buffer, |data| self.deliver(data)),
                data => self.deliver(data),
            },
            Err(error) => self.read_failed(error),
        }
    }

    #[inline(always)]
    fn deliver(&self, data: &[u8]) {
        match self.call(|protocol| protocol.data_received(data)) {
            Some(Called::Calm(())) | None => {}
            Some(Called::Stirred(result)) => self.after_data(result),
        }
    }

    /// There may be more than a share: all of it is delivered if nobody else is ready.
    #[inline(never)]
    fn receive_rest(&self, buffer: &mut [u8], deliver: impl FnOnce(&[u8])) {
        let alone = self.shared().lp.ready_descriptors() <= 1;
        // An end is seen again by the next wait, an error is not.
        let rest = if alone { self.socket.recv(&mut buffer[SHARE..]) } else { Ok(0) };
        deliver(&buffer[..SHARE + rest.as_ref().map_or(0, |count| *count)]);
        if let Err(error) = rest {
            self.read_failed(error);
        }
    }

    /// From now on, and until another protocol comes, this stream is given what comes in: its protocol stays in
    /// its slot, and nothing is gathered.
    pub(crate) fn feed_to(&self, stream: Rc<Stream>) {
        let fed = self.state().reads_plainly() && self.stream.set(stream).is_ok();
        self.note(|state| state.set_fed(fed));
    }

    #[inline(never)]
    fn feed(self: Rc<Self>, buffer: &mut Vec<u8>) {
        let Some(stream) = self.stream.get() else { return };
        let Some(received) = stream.receive(|room| self.socket.recv(room)) else {
            return self.feed_much(stream, buffer);
        };
        match received {
            Ok(1..) => stream.reader.wake(&self.shared().lp),
            Ok(_) => self.peer_ended(),
            Err(error) => self.read_failed(error),
        }
    }

    /// As [`feed`](Self::feed), by the loop's buffer.
    #[inline(never)]
    fn feed_much(&self, stream: &Stream, buffer: &mut Vec<u8>) {
        let lp = &self.shared().lp;
        if !stream.buffer.borrow().is_empty() {
            // What was received already is read before an end or an error is seen.
            stream.wake_reader(lp);
        }
        if buffer.len() < READ_SIZE {
            grow(buffer);
        }
        let push = |data: &[u8]| {
            if stream.push(data) {
                self.pause_reading(true);
            }
            stream.wake_reader(lp);
        };
        match self.socket.recv(&mut buffer[..SHARE]) {
            Ok(SHARE) => self.receive_rest(buffer, push),
            Ok(count @ 1..) => push(&buffer[..count]),
            Ok(_) => self.peer_ended(),
            Err(error) => self.read_failed(error),
        }
    }

    /// The hook has panicked, or something fell due meanwhile.
    #[cold]
    fn after_data(&self, result: Result<(), HeldPanic>) {
        let result = result.map_err(HeldPanic::into_error);
        self.settle();
        if let Err(panic) = result {
            self.fail_hook("data_received failed", panic);
        }
    }

    #[inline(never)]
    fn read_specially(self: Rc<Self>) {
        if self.state().has_own_buffer() {
            self.read_into_own();
        } else {
            // What is only written to is readable when its reader has gone (B-PIPE-04).
            self.read_failed(Errno::PIPE.into());
        }
    }

    /// Into the buffer of the protocol itself (B-TRN-34).
    fn read_into_own(&self) {
        let called = self.hook(|protocol| {
            let Some(protocol) = protocol.buffered() else { return Ok(None) };
            let buffer = protocol.buffer(None);
            if buffer.is_empty() {
                return Ok(None);
            }
            let count = self.socket.recv(buffer)?;
            if count > 0 {
                protocol.buffer_updated(count);
            }
            Ok(Some(count))
        });
        match called {
            Some(Ok(Ok(Some(0)))) => self.peer_ended(),
            Some(Ok(Ok(Some(_)))) | None => {}
            Some(Ok(Ok(None))) => {
                let message = "the protocol gave an empty buffer to receive into";
                let error = || io::Error::new(io::ErrorKind::InvalidInput, message);
                self.report_error("receiving failed", error());
                self.end(NetError::Io(error()));
            }
            Some(Ok(Err(error))) => self.read_failed(error),
            Some(Err(panic)) => self.fail_hook("receiving failed", panic),
        }
    }

    #[cold]
    fn read_failed(&self, error: io::Error) {
        // A hook that was given what was read before may have ended it since.
        if is_transient(&error) || self.state().is_lost() {
            return;
        }
        match self.socket.kind() {
            Kind::Socket => {}
            // A terminal whose other side has gone says so (B-PIPE-03).
            Kind::ReadPipe if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {}
            Kind::ReadPipe => {
                let error = io::Error::new(error.kind(), error.to_string());
                let what = format!("read from {}", self.describe_pipe());
                self.report_error("reading from a pipe failed", named(what, error));
            }
            // The reader has gone: of interest if there is something left that it was to get.
            Kind::WritePipe | Kind::UnwatchedPipe if self.buffered() == 0 => return self.close(),
            Kind::WritePipe | Kind::UnwatchedPipe => return self.fail("write to", error),
        }
        self.fail("read from", error);
    }

    fn report_error(&self, message: &'static str, error: io::Error) {
        let context = ExceptionContext::new(message)
            .with_failure(Failure::Error(error.into()))
            .with_subject(self.info.describe());
        self.shared().lp.report(&context);
    }

    /// A pipe that has ended is closed in any case (B-PIPE-02).
    #[cold]
    fn peer_ended(&self) {
        match self.hook(|protocol| protocol.eof_received()) {
            Some(Ok(KeepOpen::Yes)) if self.socket.kind() == Kind::Socket => {
                self.advance(State::eof_kept_open);
            }
            Some(Ok(_)) => self.close(),
            Some(Err(panic)) => self.fail_hook("eof_received failed", panic),
            None => {}
        }
    }
}

/// For the first read of the loop, and after a handler that made the buffer smaller.
#[cold]
fn grow(buffer: &mut Vec<u8>) {
    buffer.resize(READ_SIZE, 0);
}
