//! Waits for sockets have a name in a dump of the loop.

use std::io::Write;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use loop_core::{EventLoop, Task, WaitsFor};
use loop_net::{AsyncFd, Net};

fn waits_for<T>(event_loop: &mut EventLoop, task: &Task<T>) -> Vec<WaitsFor> {
    for _ in 0..3 {
        event_loop.run_once(Some(Duration::ZERO)).unwrap();
    }
    event_loop.dump().task(task.id()).unwrap().waits_for.clone()
}

#[test]
fn an_async_fd_is_named_with_its_direction_while_somebody_waits() {
    let mut event_loop = EventLoop::new().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let fd = ours.as_raw_fd();
    let async_fd = AsyncFd::new(&event_loop, ours).unwrap();
    let task = event_loop.spawn(async move {
        let mut byte = [0];
        async_fd.read(&mut byte).await.unwrap();
        std::future::pending::<()>().await;
    });
    let waits = waits_for(&mut event_loop, &task);
    assert!(
        matches!(waits[..], [WaitsFor::Descriptor { fd: named, interest }]
            if named == fd && interest.is_readable() && !interest.is_writable()),
        "{waits:?}"
    );
    theirs.write_all(b"x").unwrap();
    assert_eq!(waits_for(&mut event_loop, &task), []);
    task.abort();
}

#[test]
fn a_read_of_a_stream_is_named_by_its_descriptor() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut event_loop = EventLoop::new().unwrap();
    let connect = Net::os(&event_loop).tcp_connect(listener.local_addr().unwrap()).open_stream();
    let (mut reader, writer) = event_loop.run_until_complete(connect).unwrap().unwrap();
    let fd = writer.transport().socket().fileno().unwrap();
    let task = event_loop.spawn(async move { reader.read(1).await.unwrap() });
    let waits = waits_for(&mut event_loop, &task);
    assert!(
        matches!(waits[..], [WaitsFor::Descriptor { fd: named, interest }]
            if named == fd && interest.is_readable() && !interest.is_writable()),
        "{waits:?}"
    );
    let text = event_loop.dump().to_string();
    assert!(text.contains(&format!("waits for fd {fd} to be ready for reading")), "{text}");
    listener.accept().unwrap().0.write_all(b"x").unwrap();
    assert_eq!(event_loop.run_until_complete(task).unwrap().unwrap(), b"x");
    drop(writer);
}
