//! `Server::serve_until_interrupted`. Signals are the process's: one test at a time, and none sends one before
//! somebody handles it.

mod common;

use std::cell::Cell;
use std::io::{self, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{Probe, World, for_each_backend};
use loop_core::Task;
use loop_net::{Server, Signal};
use loop_selector::raise;

fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task that serves, and its result.
fn serve(world: &mut World, server: &Rc<Server>) -> Task<io::Result<()>> {
    let serving = server.clone();
    let task = world.event_loop.spawn(async move { serving.serve_until_interrupted().await });
    world.idle();
    task
}

/// Whether the loop has let go of both signals.
fn handles_none(world: &World) -> bool {
    let removed = [Signal::INT, Signal::TERM].map(|it| world.event_loop.remove_signal_handler(it));
    removed == [false, false]
}

#[test]
fn either_signal_ends_all_that_wait_and_closes_their_servers_but_no_connection() {
    let _alone = alone();
    for signal in [Signal::INT, Signal::TERM] {
        for_each_backend(|world| {
            let probe = Probe::new();
            let (server, other) = (Rc::new(world.serve(&probe)), Rc::new(world.serve(&probe)));
            let addr = server.local_addrs()[0];
            let mut peer = TcpStream::connect(addr).unwrap();
            world.until(|| probe.trace.has("made"));
            let serving = [serve(world, &server), serve(world, &other)];
            raise(signal).unwrap();
            for task in serving {
                world.block_on(task).unwrap().unwrap();
            }
            assert!(!server.is_serving() && server.connections() == 1 && !other.is_serving());
            assert!(TcpStream::connect(addr).is_err());
            peer.write_all(b"x").unwrap();
            world.until(|| probe.trace.has("data x"));
            drop(peer);
            let drained = world.block_on(server.drain(Duration::from_secs(30)));
            assert_eq!((drained.finished, drained.aborted), (1, 0));
            assert!(handles_none(world));
        });
    }
}

#[test]
fn those_who_wait_to_be_accepted_are_served_before_it_ends() {
    let _alone = alone();
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = Rc::new(world.serve(&probe));
        let serving = serve(world, &server);
        raise(Signal::TERM).unwrap();
        let peers = [(); 4].map(|()| TcpStream::connect(server.local_addrs()[0]).unwrap());
        world.block_on(serving).unwrap().unwrap();
        assert!(!server.is_serving() && server.connections() == 4);
        drop(peers);
        world.until(|| server.connections() == 0);
        assert_eq!(probe.trace.count("made"), 4);
    });
}

#[test]
fn dropped_it_closes_the_server_and_handles_no_signal() {
    let _alone = alone();
    for_each_backend(|world| {
        let server = Rc::new(world.serve(&Probe::new()));
        let serving = serve(world, &server);
        serving.cancel();
        assert!(world.block_on(serving).unwrap_err().is_cancelled());
        assert!(!server.is_serving());
        assert!(handles_none(world));
    });
}

#[test]
fn it_ends_with_close_and_is_refused_while_the_server_serves_or_is_closed() {
    let _alone = alone();
    for_each_backend(|world| {
        let server = Rc::new(world.serve(&Probe::new()));
        let serving = serve(world, &server);
        let error = world.block_on(server.serve_until_interrupted()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        let error = world.block_on(server.serve_forever()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(server.is_serving(), "the first is unaffected");
        server.close();
        world.block_on(serving).unwrap().unwrap();
        let error = world.block_on(server.serve_until_interrupted()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(handles_none(world));
    });
}

#[test]
fn a_handler_that_takes_its_place_meanwhile_stays() {
    let _alone = alone();
    for_each_backend(|world| {
        let server = Rc::new(world.serve(&Probe::new()));
        let serving = serve(world, &server);
        let heard = Rc::new(Cell::new(0));
        let count = heard.clone();
        let count = move || count.set(count.get() + 1);
        let _handle = world.event_loop.add_signal_handler(Signal::INT, count).unwrap();
        raise(Signal::INT).unwrap();
        world.until(|| heard.get() == 1);
        assert!(server.is_serving());
        server.close();
        world.block_on(serving).unwrap().unwrap();
        raise(Signal::INT).unwrap();
        world.until(|| heard.get() == 2);
        assert!(world.event_loop.remove_signal_handler(Signal::INT));
    });
}
