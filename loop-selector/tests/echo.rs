//! The example, run: two clients at once, one of which sends far more than fits into the buffers.

#[path = "../examples/echo.rs"]
mod echo;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use loop_selector::conformance::{usable, watched};
use loop_selector::{Selector, by_name};

#[test]
fn the_example_echoes_on_every_backend() {
    watched("echo", echo_on_every_backend);
}

fn echo_on_every_backend() {
    for name in usable() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut selector = by_name(name).unwrap();
        let waker = selector.waker();
        let done = Arc::new(AtomicBool::new(false));
        let is_over = done.clone();
        let clients = thread::spawn(move || {
            let lengths = [1, 4 << 20];
            let clients = lengths.map(|length| thread::spawn(move || round_trip(address, length)));
            for client in clients {
                client.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
            waker.wake();
        });
        echo::serve(&mut *selector, listener, || is_over.load(Ordering::Relaxed)).unwrap();
        clients.join().unwrap();
        assert!(selector.registry().is_empty());
    }
}

fn round_trip(address: std::net::SocketAddr, length: usize) {
    let sent: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writing = thread::spawn(move || writer.write_all(&copy).unwrap());
    let mut received = vec![0; length];
    stream.read_exact(&mut received).unwrap();
    assert!(sent == received);
    writing.join().unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}
