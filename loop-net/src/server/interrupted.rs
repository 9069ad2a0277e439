//! Serving until the program is asked to end.

use std::io;

use loop_core::{Handle, LoopRef, Signal};

use super::handle::Server;

/// What Ctrl-C sends, and what a supervisor sends first.
const REQUESTS: [Signal; 2] = [Signal::INT, Signal::TERM];

impl Server {
    /// Serves until the program is asked to end, by SIGINT (which Ctrl-C sends) or SIGTERM (which systemd and
    /// containers send), or until [`close`](Self::close). The server has stopped listening when this returns;
    /// its connections live on, to be ended as befits them: the end of a program's `main`.
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
    /// While it serves, its handlers take the place of others that the loop has for these signals, those of another
    /// server that waits here included: of several servers one waits, and the others are closed behind it. Afterwards
    /// a second Ctrl-C does what it does by default, and ends the process at once.
    ///
    /// Dropping the future closes the server, as [`serve_forever`](Self::serve_forever) does, and removes the
    /// handlers.
    ///
    /// # Errors
    /// As [`serve_forever`](Self::serve_forever), and when a signal cannot be handled; the server is closed
    /// then.
    pub async fn serve_until_interrupted(&self) -> io::Result<()> {
        let serving = self.begin_serving()?;
        let handlers = Handlers::install(self)?;
        self.stopped().await;
        drop((handlers, serving));
        Ok(())
    }
}

/// Removed when this is dropped.
struct Handlers {
    lp: LoopRef,
    installed: Vec<(Signal, Handle)>,
}

impl Handlers {
    /// Each request closes the server.
    fn install(server: &Server) -> io::Result<Handlers> {
        let mut handlers = Handlers { lp: server.lp().clone(), installed: Vec::new() };
        for signal in REQUESTS {
            let state = server.state().clone();
            let handle = handlers.lp.add_signal_handler(signal, move || state.close())?;
            handlers.installed.push((signal, handle));
        }
        Ok(handlers)
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for (signal, handle) in &self.installed {
            // Another one that has taken the place has cancelled ours.
            if !handle.is_cancelled() {
                self.lp.remove_signal_handler(*signal);
            }
        }
    }
}
