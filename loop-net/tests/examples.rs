//! The built examples, talked to from outside and interrupted.

mod common;
#[path = "common/example.rs"]
mod example;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{terminal, watchdog};
use example::{Example, path_of};

struct Client {
    lines: BufReader<TcpStream>,
}

impl Client {
    fn new(example: &Example) -> Client {
        Client { lines: BufReader::new(example.connect()) }
    }

    fn say(&mut self, text: &str) {
        self.lines.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }
}

fn echoes(name: &str) {
    let _watchdog = watchdog();
    let example = Example::start(name);
    let mut clients = [Client::new(&example), Client::new(&example)];
    for (index, client) in clients.iter_mut().enumerate() {
        client.say(&format!("hello from {index}\n"));
    }
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.hear(), format!("hello from {index}\n"));
    }
    example.interrupt();
    example.finish();
    for client in &mut clients {
        assert_eq!(client.hear(), "", "closed with the process");
    }
}

#[test]
fn echo_protocol_echoes_and_ends_with_ctrl_c() {
    echoes("echo_protocol");
}

#[test]
fn echo_streams_echoes_and_ends_with_ctrl_c() {
    echoes("echo_streams");
}

#[test]
fn chat_broadcasts_to_the_others_and_says_goodbye() {
    let _watchdog = watchdog();
    let example = Example::start("chat");
    let names = ["ann", "ben", "cleo"];
    let mut clients = names.map(|name| {
        let mut client = Client::new(&example);
        client.say(&format!("{name}\n"));
        client
    });
    for client in &mut clients {
        assert!(client.hear().starts_with("* welcome "));
    }
    let [ann, ben, cleo] = &mut clients;
    ann.say("hi all\nagain\n");
    for other in [&mut *ben, &mut *cleo] {
        assert_eq!(other.hear(), "ann: hi all\n");
        assert_eq!(other.hear(), "ann: again\n");
    }
    ben.say("hi ann\n");
    assert_eq!(ann.hear(), "ben: hi ann\n");
    assert_eq!(cleo.hear(), "ben: hi ann\n");

    let mut dan = Client::new(&example);
    dan.say("dan\n");
    assert_eq!(dan.hear(), "* welcome dan, others here: 3\n");

    example.interrupt();
    assert_eq!(example.finish(), "");
    for client in clients.iter_mut().chain([&mut dan]) {
        assert_eq!(client.hear(), "* goodbye\n");
        assert_eq!(client.hear(), "");
    }
}

#[test]
fn chat_holds_up_who_speaks_to_a_slow_reader_until_it_reads() {
    let _watchdog = watchdog();
    let example = Example::start("chat");
    let (mut slow, mut fast) = (Client::new(&example), Client::new(&example));
    slow.say("slow\n");
    assert!(slow.hear().starts_with("* welcome "));
    fast.say("fast\n");
    assert!(fast.hear().starts_with("* welcome "));

    // Written until the room takes no more: it reads nothing while `slow` is over its mark.
    let line = format!("{}\n", "x".repeat(999));
    let stream = fast.lines.get_ref().try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let (mut written, mut blocked) = (0, false);
    let lines = line.repeat(64);
    while !blocked {
        match (&stream).write(&lines.as_bytes()[written % lines.len()..]) {
            Ok(count) => written += count,
            Err(_) => blocked = true,
        }
        assert!(written < 256 << 20, "nothing holds the sender up");
    }

    // `slow` reads on its own thread, and gets every byte.
    let reader = std::thread::spawn(move || {
        let (mut heard, mut lines) = (0, 0);
        while heard < written - written % 1000 {
            let line = slow.hear();
            assert!(line.starts_with("fast: xxx"), "{line:?}");
            heard += line.len() - "fast: ".len();
            lines += 1;
        }
        (lines, slow)
    });
    let (lines, _slow) = reader.join().unwrap();
    assert_eq!(lines, written / 1000);
    example.interrupt();
    assert_eq!(example.finish(), "");
}

#[test]
fn netcat_reads_a_terminal_and_a_socket_side_by_side() {
    let _watchdog = watchdog();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut person, program) = terminal();
    let mut child = Command::new(path_of("netcat"))
        .arg(listener.local_addr().unwrap().to_string())
        .stdin(program.try_clone().unwrap())
        .stdout(program)
        .spawn()
        .unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let mut screen = BufReader::new(person.try_clone().unwrap());
    let mut shown = |expected: &str| {
        let mut line = String::new();
        screen.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), expected);
    };
    // The peer speaks while nothing is typed.
    peer.write_all(b"welcome\n").unwrap();
    shown("welcome");
    person.write_all(b"hello\n").unwrap();
    // The terminal shows what is typed.
    shown("hello");
    let mut heard = [0; 6];
    peer.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello\n");
    // Ctrl-D ends our side only.
    person.write_all(b"\x04").unwrap();
    assert_eq!(peer.read(&mut heard).unwrap(), 0);
    peer.write_all(b"bye\n").unwrap();
    shown("bye");
    drop(peer);
    assert!(child.wait().unwrap().success());
}

#[test]
fn netcat_sends_a_file_and_ends_with_its_peer() {
    let _watchdog = watchdog();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let file = std::fs::File::open("/proc/self/status").unwrap();
    let mut child = Command::new(path_of("netcat"))
        .arg(listener.local_addr().unwrap().to_string())
        .stdin(file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let mut heard = String::new();
    peer.read_to_string(&mut heard).unwrap();
    assert!(heard.contains("SigIgn"), "{heard}");
    drop(peer);
    assert!(child.wait().unwrap().success());
}
