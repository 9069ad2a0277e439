//! Who can serve an echo: this project's three levels, and the rivals.

use std::sync::Arc;

use super::echo_round::Server;
use super::selectors;
use crate::finding::Finding;
use crate::rival::echo_server::Serve;
use crate::rival::{
    calloop_echo, foreign, loop_net, loop_selector, mio, optional, polling_echo, tokio,
};

/// A server with its name.
pub(super) type Named = (String, Server);

/// This project's, with callbacks: a protocol on each selector that this system has.
pub(super) fn protocols() -> impl Iterator<Item = Named> {
    ours("", loop_net::protocol_server)
}

/// The same with a task for each connection, which reads and writes a stream.
pub(super) fn streams() -> impl Iterator<Item = Named> {
    ours(" streams", loop_net::stream_server)
}

/// The same with a task for each connection, which waits for its socket and calls it itself.
pub(super) fn sockets() -> impl Iterator<Item = Named> {
    ours(" sockets", loop_net::socket_server)
}

fn ours(level: &'static str, server: fn(&'static str) -> Serve) -> impl Iterator<Item = Named> {
    loop_selector::usable()
        .map(move |name| (format!("loop-net/{name}{level}"), Server::Thread(server(name))))
}

/// Everyone else's fastest way to serve, those that a quick run takes first.
pub(super) fn rivals() -> impl Iterator<Item = Named> {
    let [tokio, mio, others @ ..] = rust_rivals();
    [tokio, mio].into_iter().chain(foreign()).chain(others).chain(optional())
}

/// The rivals in Rust that have a task for each connection.
pub(super) fn task_rivals() -> impl Iterator<Item = Named> {
    rust_rivals().into_iter().take(1).chain(optional())
}

/// All that are threads of this process.
pub(super) fn in_rust() -> impl Iterator<Item = Named> {
    protocols().chain(streams()).chain(sockets()).chain(rust_rivals()).chain(optional())
}

fn rust_rivals() -> [Named; 4] {
    [
        thread("tokio", Arc::new(tokio::serve_echo)),
        thread("mio", Arc::new(mio::serve_echo)),
        thread("polling", Arc::new(polling_echo::serve_echo)),
        thread("calloop", Arc::new(calloop_echo::serve_echo)),
    ]
}

/// Those that are built in, and that this system lets run.
fn optional() -> impl Iterator<Item = Named> {
    let found = optional::echo_servers().iter();
    found.filter_map(|(name, found)| Some(thread(name, found.as_ref().ok()?.clone())))
}

/// Processes, in other languages.
fn foreign() -> impl Iterator<Item = Named> {
    let found = foreign::echo_servers().iter();
    found.filter_map(|(name, found)| {
        Some(((*name).to_owned(), Server::Process(found.as_ref().ok()?.clone())))
    })
}

fn thread(name: &str, serve: Serve) -> Named {
    (name.to_owned(), Server::Thread(serve))
}

/// Those of them that are threads of this process.
pub(super) fn threads(
    servers: impl Iterator<Item = Named>,
) -> impl Iterator<Item = (String, Serve)> {
    servers.filter_map(|(name, server)| match server {
        Server::Thread(serve) => Some((name, serve)),
        Server::Process(_) => None,
    })
}

/// The rivals that are missing here, and how to get each.
pub(super) fn missing() -> Vec<(&'static str, String)> {
    fn missing<S>(
        (name, found): &(&'static str, Result<S, String>),
    ) -> Option<(&'static str, String)> {
        Some((*name, found.as_ref().err()?.clone()))
    }
    let foreign = foreign::echo_servers().iter().filter_map(missing);
    foreign.chain(optional::echo_servers().iter().filter_map(missing)).collect()
}

/// Who cannot take part here, and why.
pub(super) fn absences() -> Vec<Finding> {
    let missing = missing().into_iter();
    let missing = missing.map(|(name, why)| Finding::NotMeasured { what: name.into(), why });
    selectors::refused().into_iter().chain(missing).collect()
}
