//! [`ServerProcess`]: a server that is another program.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, process, thread};

use socket2::{Domain, Socket, Type};

use crate::pin::pin_peer;
use crate::sys;

/// A program that does not listen after so long never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// How to start a server that says where it listens.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
}

impl Launch {
    /// Starts it and waits until it listens.
    pub(crate) fn start(&self) -> io::Result<ServerProcess> {
        ServerProcess::announced(self.command())
    }

    /// The same of one that takes an address as its last argument.
    pub(crate) fn start_at(&self, listen: SocketAddr) -> io::Result<ServerProcess> {
        let mut command = self.command();
        command.arg(listen.to_string());
        ServerProcess::announced(command)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }
}

/// A program of this workspace, by its path below `target/<profile>`, where the present one lies, or its tests in `deps`.
///
/// # Errors
/// That it is not there, in words.
pub(crate) fn built(path: &str) -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|error| error.to_string())?;
    let mut paths = here.ancestors().skip(1).take(2).map(|folder| folder.join(path));
    paths.find(|path| path.is_file()).ok_or_else(|| format!("{path} is not built"))
}

/// A server that runs on the peer's core, and is killed when this is dropped.
pub(crate) struct ServerProcess {
    child: Doomed,
    pub(crate) address: SocketAddr,
    /// What is still to come, of one that says something.
    output: Option<BufReader<ChildStdout>>,
}

impl ServerProcess {
    /// Whether the system tells what [`processor`](Self::processor) asks for.
    pub(crate) fn tells_time() -> bool {
        sys::processor_of(process::id()).is_ok()
    }

    /// The same of [`resident`](Self::resident).
    pub(crate) fn tells_memory() -> bool {
        sys::resident_of(process::id()).is_ok()
    }

    /// Starts what `command` makes for a port, and waits until it listens there.
    pub(crate) fn start(command: impl FnOnce(u16) -> Command + Send) -> io::Result<Self> {
        let (held, address) = hold_port()?;
        // Linux gives a port that is held, and not listened at, to nobody but who asks for this one. Elsewhere it may be
        // taken by the one who holds it only.
        let _held = cfg!(target_os = "linux").then_some(held);
        let mut command = command(address.port());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut server = Self { child: spawn(command)?, address, output: None };
        let begin = Instant::now();
        while let Err(error) = TcpStream::connect(address) {
            if let Some(status) = server.child.0.try_wait()? {
                return Err(ended(status));
            }
            if begin.elapsed() > PATIENCE {
                return Err(io::Error::new(error.kind(), format!("{address}: {error}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Starts a program that chooses its port: its first line ends in the address. Its standard input stays open
    /// as long as this.
    pub(crate) fn announced(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn(command)?;
        let mut output = child.output()?;
        let (line, output) = patiently(move || {
            let mut line = String::new();
            output.read_line(&mut line)?;
            Ok((line, output))
        })?;
        let address = line.trim().rsplit(' ').next().and_then(|word| word.parse().ok());
        match address {
            Some(address) => Ok(Self { child, address, output: Some(output) }),
            None => Err(io::Error::other(format!("the server said {line:?}, and not its address"))),
        }
    }

    /// Ends one that was [announced](Self::announced) by ending its standard input; what it has said since.
    pub(crate) fn finish(mut self) -> io::Result<String> {
        let mut output = self.output.take().ok_or(io::ErrorKind::Unsupported)?;
        drop(self.child.0.stdin.take());
        let said = patiently(move || {
            let mut said = String::new();
            output.read_to_string(&mut said).map(|_| said)
        })?;
        // It has closed its output, as the last thing that it does.
        let status = self.child.0.wait()?;
        if status.success() { Ok(said) } else { Err(ended(status)) }
    }

    /// Waits until it ends by itself, which no server does but for an error.
    pub(crate) fn wait(mut self) -> io::Result<()> {
        // Its standard input stays open, or it would end.
        let input = self.child.0.stdin.take();
        let status = self.child.0.wait()?;
        drop(input);
        Err(ended(status))
    }

    /// The processor time that it has taken so far.
    ///
    /// # Errors
    /// `Unsupported` where the system has no clock of another process's time.
    pub(crate) fn processor(&self) -> io::Result<Duration> {
        sys::processor_of(self.child.0.id())
    }

    /// The memory that it holds now, in bytes: by its page tables, for the counters that the kernel keeps are rough.
    ///
    /// # Errors
    /// If the system does not say.
    pub(crate) fn resident(&self) -> io::Result<u64> {
        sys::resident_of(self.child.0.id())
    }
}

/// A process that is killed when this is dropped.
struct Doomed(Child);

impl Doomed {
    fn output(&mut self) -> io::Result<BufReader<ChildStdout>> {
        self.0.stdout.take().map(BufReader::new).ok_or(io::ErrorKind::BrokenPipe.into())
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        // One that has ended by itself is fine too.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A port of this machine's, and the socket that holds it.
fn hold_port() -> io::Result<(Socket, SocketAddr)> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
    Ok((socket, address))
}

/// Starts it on the peer's core.
fn spawn(mut command: Command) -> io::Result<Doomed> {
    // A child runs on the cores of the thread that starts it.
    let starting = move || {
        pin_peer();
        command.spawn().map(Doomed).map_err(|error| {
            let program = command.get_program().display();
            io::Error::new(error.kind(), format!("{program}: {error}"))
        })
    };
    let started = thread::spawn(starting).join();
    started.unwrap_or_else(|_panic| Err(io::Error::other("no thread to start in")))
}

fn ended(status: ExitStatus) -> io::Error {
    io::Error::other(format!("the server ended: {status}"))
}

/// What `read` reads of a process. If it takes too long it is left behind, and ends when the process is killed.
fn patiently<R: Send + 'static>(
    read: impl FnOnce() -> io::Result<R> + Send + 'static,
) -> io::Result<R> {
    let (done, doing) = mpsc::channel();
    drop(thread::spawn(move || _ = done.send(read())));
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the server says nothing");
    doing.recv_timeout(PATIENCE).map_err(late)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = ServerProcess::start(|_port| Command::new("/nowhere/at-all")).err().unwrap();
        assert!(error.to_string().starts_with("/nowhere/at-all: "), "{error}");
    }

    #[test]
    fn a_program_that_ends_is_not_waited_for() {
        let error = ServerProcess::start(|_port| Command::new("false")).err().unwrap();
        assert!(error.to_string().starts_with("the server ended: "), "{error}");
    }

    #[test]
    fn a_program_that_says_something_else_is_no_server() {
        let mut command = Command::new("echo");
        command.arg("hello");
        let error = ServerProcess::announced(command).err().unwrap();
        assert_eq!(error.to_string(), r#"the server said "hello\n", and not its address"#);
    }

    #[test]
    fn what_a_server_says_at_its_end_is_heard_and_a_failure_noticed() {
        let shell = |last: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo at 127.0.0.1:7; read nothing; echo bye; {last}")]);
            ServerProcess::announced(command).unwrap()
        };
        let server = shell("exit 0");
        assert_eq!(server.address.to_string(), "127.0.0.1:7");
        assert_eq!(server.finish().unwrap(), "bye\n");
        let error = shell("exit 3").finish().unwrap_err();
        assert!(error.to_string().starts_with("the server ended: "), "{error}");
    }
}
