//! From the socket to the protocol.

use super::engine::{Conn, is_transient};
use super::state::State;
use crate::protocol::KeepOpen;

/// The most that one read takes (B-TRN-25). One read a connection and iteration, so that no peer
/// keeps the others waiting.
const READ_SIZE: usize = 256 * 1024;

impl Conn {
    pub(crate) fn is_reading(&self) -> bool {
        self.state.get().is_reading()
    }

    pub(crate) fn pause_reading(&self, paused: bool) {
        self.advance(|state| state.pause_reading(paused));
    }

    pub(super) fn read_ready(&self, buffer: &mut Vec<u8>) {
        if buffer.len() < READ_SIZE {
            buffer.resize(READ_SIZE, 0);
        }
        match self.socket.recv(buffer) {
            Ok(0) => self.peer_ended(),
            Ok(count) => {
                let called = self.hook(|protocol| protocol.data_received(&buffer[..count]));
                if let Some(Err(panic)) = called {
                    self.fail_hook("data_received failed", panic);
                }
            }
            Err(error) if is_transient(&error) => {}
            Err(error) => self.fail("read from", error),
        }
    }

    fn peer_ended(&self) {
        match self.hook(|protocol| protocol.eof_received()) {
            Some(Ok(KeepOpen::Yes)) => self.advance(State::eof_kept_open),
            Some(Ok(KeepOpen::No)) => self.close(),
            Some(Err(panic)) => self.fail_hook("eof_received failed", panic),
            None => {}
        }
    }
}
