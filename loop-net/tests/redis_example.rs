//! The example that speaks the protocol of Redis: its parts, and the built program. `ci/interop/redis.py`
//! holds it against the real server.

mod common;
#[path = "common/example.rs"]
mod example;
#[path = "../examples/redis_server/request.rs"]
mod request;
#[path = "../examples/redis_server/store.rs"]
#[allow(dead_code)]
mod store;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::watchdog;
use example::Example;
use loop_core::{AutoJump, EventLoop, default_selector, sleep};
use request::Request;
use store::Store;

/// The arguments of each command in `data`, as they are found when it comes in these pieces.
fn commands(data: &[u8], cuts: &[usize]) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let (mut request, mut found, mut begin) = (Request::default(), Vec::new(), 0);
    for &end in cuts.iter().chain([&data.len()]) {
        loop {
            match request.parse(&data[begin..end]) {
                Ok(length) => {
                    let args =
                        request.args.iter().map(|arg| data[begin..end][arg.clone()].to_vec());
                    found.push(args.collect());
                    begin += length;
                }
                Err(None) => break,
                Err(Some(wrong)) => return Err(wrong),
            }
        }
    }
    assert_eq!(begin, data.len(), "something is left");
    Ok(found)
}

#[test]
fn commands_are_found_wherever_they_are_cut() {
    let data = b"*3\r\n$3\r\nSET\r\n$4\r\n\r\n*1\r\n$0\r\n\r\n  get  key \r\n\r\n*0\r\n*1\r\n$4\r\nPING\r\nPING\n";
    let whole = commands(data, &[]).unwrap();
    let text = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let expected: Vec<Vec<Vec<u8>>> = vec![
        text(&["SET", "\r\n*1", ""]),
        text(&["get", "key"]),
        text(&[]),
        text(&[]),
        text(&["PING"]),
        text(&["PING"]),
    ];
    assert_eq!(whole, expected);
    for first in 0..data.len() {
        for second in first..data.len() {
            assert_eq!(commands(data, &[first, second]).unwrap(), expected, "{first}, {second}");
        }
    }
}

#[test]
fn what_is_no_command_is_refused_before_it_is_kept() {
    let refused = |data: &[u8], why: &str| {
        assert_eq!(Request::default().parse(data), Err(Some(why.to_owned())), "{data:?}");
    };
    refused(b"*x\r\n", "invalid multibulk length");
    refused(b"*-1\r\n", "invalid multibulk length");
    refused(b"*1048577\r\n", "invalid multibulk length");
    refused(b"*0000000001\r\n", "invalid multibulk length");
    refused(b"*1\r\n:1\r\n", "expected '$', got ':'");
    refused(b"*1\r\n$-1\r\n", "invalid bulk length");
    refused(b"*1\r\n$67108864\r\n", "invalid bulk length");
    refused(&[b'x'; 65_537], "too big inline request");
    assert_eq!(Request::default().parse(&[b'x'; 65_536]), Err(None));
    // Many arguments that are each short enough.
    let mut request = Request::default();
    let mut data = b"*9\r\n".to_vec();
    for _ in 0..2 {
        data.extend_from_slice(b"$30000000\r\n");
        data.resize(data.len() + 30_000_002, b'x');
        assert_eq!(request.parse(&data), Err(None));
    }
    data.extend_from_slice(b"$30000000\r\n");
    assert_eq!(request.parse(&data), Err(Some("invalid bulk length".to_owned())));
}

#[test]
fn a_key_lives_until_its_last_deadline() {
    let _watchdog = watchdog();
    let time = AutoJump::new(default_selector().unwrap());
    let mut event_loop = EventLoop::builder().virtual_time(time).build().unwrap();
    let store = Store::shared(&event_loop);
    let seconds = Duration::from_secs;
    let get = |key: &[u8]| store.borrow().get(key).map(<[u8]>::to_vec);
    {
        let mut store = store.borrow_mut();
        for key in [b"a", b"b", b"c", b"d", b"e"] {
            store.set(key, b"1", false);
            assert!(store.expire(key, 10_000));
        }
        store.expire(b"b", 100_000); // later
        store.set(b"c", b"2", false); // for ever
        store.set(b"d", b"2", true); // goes on
        assert!(store.remove(b"e"));
        store.set(b"e", b"3", false); // another one of the same name
        assert!(!store.expire(b"none", 1_000));
        store.set(b"past", b"", false);
        assert!(store.expire(b"past", 0) && !store.expire(b"past", -1), "removed once");
        let ttls = [b"a", b"b", b"c", b"d", b"f"].map(|key| store.ttl(key));
        assert_eq!(ttls, [10, 100, -1, 10, -2]);
    }
    let lived = event_loop.run_until_complete(async {
        sleep(seconds(10) - Duration::from_nanos(1)).await;
        let before = [get(b"a"), get(b"d")].iter().all(Option::is_some);
        sleep(Duration::from_nanos(1)).await;
        (before, [b"a", b"b", b"c", b"d", b"e"].map(|key| get(key)))
    });
    let (one, two, three) = (Some(b"1".to_vec()), Some(b"2".to_vec()), Some(b"3".to_vec()));
    assert_eq!(lived.unwrap(), (true, [None, one, two, None, three]));
    event_loop.run_until_complete(sleep(seconds(90))).unwrap();
    assert_eq!((get(b"b"), store.borrow().ttl(b"b")), (None, -2));
}

fn answer(stream: &mut TcpStream, sent: &[u8], expected: &[u8]) {
    stream.write_all(sent).unwrap();
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn redis_server_answers_in_order_and_ends_with_ctrl_c() {
    let _watchdog = watchdog();
    let example = Example::start("redis_server");
    let mut stream = example.connect();
    answer(
        &mut stream,
        b"PING\r\n*3\r\n$3\r\nset\r\n$1\r\n\0\r\n$2\r\n\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\n\0\r\nGET none\r\nINCR n\r\n\
          SET n x\r\nINCR n\r\nMGET n none\r\nDEL n n\r\nTTL n\r\nGET\r\nNONE a\r\n",
        b"+PONG\r\n+OK\r\n$2\r\n\r\n\r\n$-1\r\n:1\r\n\
          +OK\r\n-ERR value is not an integer or out of range\r\n*2\r\n$1\r\nx\r\n$-1\r\n:1\r\n:-2\r\n\
          -ERR wrong number of arguments for 'get' command\r\n\
          -ERR unknown command 'NONE', with args beginning with: 'a' \r\n",
    );
    // A client that is there does not keep the program from ending.
    example.interrupt();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(example.finish(), "");
}

#[test]
fn redis_server_ends_who_breaks_the_protocol_and_serves_the_others() {
    let _watchdog = watchdog();
    let example = Example::start("redis_server");
    let (mut stream, mut other) = (example.connect(), example.connect());
    other.write_all(b"*1\r\n$4\r\nPI").unwrap();
    answer(&mut stream, b"*1\r\n+1\r\n", b"-ERR Protocol error: expected '$', got '+'\r\n");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    answer(&mut other, b"NG\r\n", b"+PONG\r\n");
}
