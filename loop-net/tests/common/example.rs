//! The built examples, started as processes of their own.
#![allow(dead_code)] // Each test binary uses some of it.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Test executables lie in `target/<profile>/deps`, examples beside that.
pub fn path_of(name: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let path = deps.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: `cargo build --examples --all-features`",
        path.display()
    );
    path
}

/// An example that listens on a port of its own choice and says which.
pub struct Example {
    child: Child,
    output: BufReader<ChildStdout>,
    addr: SocketAddr,
}

impl Example {
    pub fn start(name: &str) -> Example {
        Example::start_with(name, &[])
    }

    /// With more arguments behind the port.
    pub fn start_with(name: &str, args: &[&str]) -> Example {
        let mut command = Command::new(path_of(name));
        let mut child = command.arg("0").args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let addr =
            line.strip_prefix("listening on ").and_then(|rest| rest.split_whitespace().next());
        let addr = addr.and_then(|addr| addr.parse().ok());
        Example { child, output, addr: addr.unwrap_or_else(|| panic!("no address in {line:?}")) }
    }

    /// A connection that waits for an answer for 20 seconds.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    pub fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// What else it wrote.
    pub fn finish(mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
        rest
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
