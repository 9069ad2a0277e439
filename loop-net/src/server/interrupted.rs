//! Serving until the program is asked to end.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;

use loop_core::interrupted;

use super::handle::Server;

impl Server {
    /// Serves until the program is asked to end, by SIGINT (which Ctrl-C sends) or SIGTERM (which systemd and
    /// containers send), or until [`close`](Self::close). The server has stopped listening when this returns, and
    /// has accepted who waited to be, as [`drain`](Self::drain) does; its connections live on, to be ended as
    /// befits them: the end of a program's `main`.
    ///
    /// ```
    /// # use loop_net::{LoopRef, Net, Server, StreamReader, StreamWriter, run};
    /// # use std::time::Duration;
    /// # async fn answer(_: StreamReader, _: StreamWriter) {}
    /// # fn main() -> std::io::Result<()> {
    /// run(async {
    ///     let net = Net::os(&LoopRef::current());
    ///     let server = net.tcp_server("127.0.0.1:0").serve_streams(answer).await?;
    /// #   LoopRef::current().call_soon(|| rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM));
    ///     server.serve_until_interrupted().await?;
    ///     let drained = server.drain(Duration::from_secs(5)).await;
    ///     println!("{} were cut off", drained.aborted);
    ///     Ok(())
    /// })?
    /// # }
    /// ```
    ///
    /// Any number of servers may wait, on any number of loops. It waits as
    /// [`interrupted`](loop_core::interrupted()) does: meanwhile other handlers that the loop has for these signals are
    /// replaced, and afterwards a second Ctrl-C does what it does by default, and ends the process at once.
    ///
    /// Dropping the future closes the server, as [`serve_forever`](Self::serve_forever) does, and lets the signals
    /// go.
    ///
    /// # Errors
    /// As [`serve_forever`](Self::serve_forever), and when a signal cannot be handled; the server is closed
    /// then.
    pub async fn serve_until_interrupted(&self) -> io::Result<()> {
        // Ending this closes the server.
        let _serving = self.begin_serving()?;
        let mut stopped = pin!(self.stopped());
        let mut interrupted = pin!(interrupted());
        poll_fn(|cx| match stopped.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => interrupted.as_mut().poll(cx).map_ok(drop),
        })
        .await?;
        self.state().close_behind_the_last();
        Ok(())
    }
}
