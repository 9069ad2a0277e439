//! A connection's socket, lent to somebody who writes to it directly.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;

use super::engine::Conn;
use crate::socket::{Kind, Socket};

/// The socket of a connection that neither reads nor takes writes meanwhile (B-SFL-06). Everything is as
/// before when this is dropped.
pub(crate) struct Lent(Rc<Conn>);

impl Lent {
    /// Flushes what was written before, then lends.
    ///
    /// # Errors
    /// `NotConnected` if the connection is closed or closing, or its side was ended; `ResourceBusy` if
    /// its socket is lent already; `Unsupported` on what is only read.
    pub(crate) async fn borrow(conn: Rc<Conn>) -> io::Result<Lent> {
        let message = match conn.state().is_lent() {
            _ if conn.kind() == Kind::ReadPipe => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "this is only read from"));
            }
            false if !conn.takes_writes() || conn.is_closing() => "the connection is closed",
            false => {
                conn.advance(|state| state.set_lent(true));
                let lent = Lent(conn);
                poll_fn(|cx| lent.0.poll_flushed(cx)).await;
                lent.check()?;
                return Ok(lent);
            }
            true => {
                let message = "a file is being sent on this connection already";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
            }
        };
        Err(io::Error::new(io::ErrorKind::NotConnected, message))
    }

    fn check(&self) -> io::Result<()> {
        if self.0.is_closing() {
            let message = "the connection was closed meanwhile";
            return Err(io::Error::new(io::ErrorKind::NotConnected, message));
        }
        Ok(())
    }

    /// Tries `f` until it does not say `WouldBlock`, waiting to write in between.
    pub(crate) async fn write_with<T>(
        &self,
        mut f: impl FnMut(&Socket) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            self.check()?;
            match f(self.0.socket()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => return result,
            }
            let mut waited = false;
            self.0.advance(|state| state.lent_waits(true));
            poll_fn(|cx| {
                // Woken by readiness, or by the end of the connection.
                if std::mem::replace(&mut waited, true) && !self.0.state().lent_is_waiting() {
                    return Poll::Ready(());
                }
                if self.0.is_closing() {
                    return Poll::Ready(());
                }
                self.0.wait(cx);
                Poll::Pending
            })
            .await;
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.advance(|state| state.set_lent(false));
    }
}
