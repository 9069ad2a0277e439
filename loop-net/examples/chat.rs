//! A chat room on level 3: a task a client.
//!
//! `cargo run --release -p loop-net --example chat [PORT]`, then `nc 127.0.0.1 7777` several times.
//! A client's first line is its name; every other one goes to all the others as `name: text`.
//!
//! Slow readers: after a line, its sender's task drains the writers of all the others, and reads no
//! further line meanwhile. So a client that does not read holds up whoever speaks, and what is buffered
//! for it stays near its high-water mark; after `PATIENCE` it is thrown out, and the talk goes on.
//!
//! Ctrl-C closes in order: stop listening, say goodbye, flush, wait up to `GRACE`, exit with 0.

use std::cell::{OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use loop_net::{LoopRef, Net, ReadError, StreamReader, StreamWriter, run, timeout};

const PATIENCE: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(5);

struct Client {
    name: OnceCell<String>,
    writer: StreamWriter,
}

#[derive(Default)]
struct Room {
    clients: RefCell<Vec<Rc<Client>>>,
}

impl Room {
    /// Everybody who has a name, but not `me`.
    fn others(&self, me: &Rc<Client>) -> Vec<Rc<Client>> {
        let clients = self.clients.borrow();
        let named = clients.iter().filter(|other| other.name.get().is_some());
        named.filter(|other| !Rc::ptr_eq(other, me)).cloned().collect()
    }

    async fn say(&self, me: &Rc<Client>, line: &[u8]) {
        let Some(name) = me.name.get() else { return };
        let others = self.others(me);
        for other in &others {
            other.writer.write_all_vectored(&[name.as_bytes(), b": ", line, b"\n"]);
        }
        for other in &others {
            // One that is gone is its own task's business.
            if timeout(PATIENCE, other.writer.drain()).await.is_err() {
                println!("{:?} does not read", other.name.get());
                other.writer.abort();
            }
        }
    }

    async fn talk(&self, me: &Rc<Client>, reader: &mut StreamReader) -> Result<(), ReadError> {
        loop {
            let line = match reader.read_line().await {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(()),
                Err(ReadError::LimitOverrun { .. }) => {
                    me.writer.write(b"* that line was too long\n");
                    continue;
                }
                Err(error) => return Err(error),
            };
            let line = line.trim_ascii_end();
            if me.name.get().is_some() {
                self.say(me, line).await;
            } else {
                let name = me.name.get_or_init(|| String::from_utf8_lossy(line).into_owned());
                let others = self.others(me).len();
                me.writer.write(format!("* welcome {name}, others here: {others}\n").as_bytes());
            }
        }
    }

    async fn serve(&self, mut reader: StreamReader, writer: StreamWriter) {
        let me = Rc::new(Client { name: OnceCell::new(), writer });
        self.clients.borrow_mut().push(me.clone());
        if let Err(error) = self.talk(&me, &mut reader).await {
            println!("{error}");
        }
        self.clients.borrow_mut().retain(|other| !Rc::ptr_eq(other, &me));
    }

    fn goodbye(&self) {
        for client in &*self.clients.borrow() {
            client.writer.write(b"* goodbye\n");
            client.writer.close();
        }
    }
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7777".to_owned());
    run(chat(&port))?
}

async fn chat(port: &str) -> io::Result<()> {
    let lp = LoopRef::current();
    let room = Rc::new(Room::default());
    let everybody = room.clone();
    let server = Net::os(&lp)
        .tcp_server(format!("127.0.0.1:{port}"))
        .serve_streams(async move |reader, writer| everybody.serve(reader, writer).await)
        .await?;
    println!("listening on {} ({})", server.local_addrs()[0], lp.selector_name());

    server.serve_until_interrupted().await?;
    room.goodbye();
    let drained = server.drain(GRACE).await;
    if drained.aborted > 0 {
        println!("{} connections did not end, aborted", drained.aborted);
    }
    Ok(())
}
