//! Echo servers in C and Python, and one in Rust that is no part of this workspace: programs that say where they listen,
//! and what they have echoed when their standard input has ended. With an argument more they only tell what they are
//! built on.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::c_source::CSource;
use crate::child::{Launch, ServerProcess, built};
use crate::machine::line_of;

/// The floor, and three event loops.
const IN_C: [CSource; 4] = [
    CSource {
        name: "epoll-c",
        text: include_str!("../../c/epoll_echo.c"),
        flags: &[],
        package: "libc6-dev",
    },
    CSource {
        name: "libuv",
        text: include_str!("../../c/libuv_echo.c"),
        flags: &["-luv"],
        package: "libuv1-dev",
    },
    CSource {
        name: "libevent",
        text: include_str!("../../c/libevent_echo.c"),
        flags: &["-levent"],
        package: "libevent-dev",
    },
    CSource {
        name: "libev",
        text: include_str!("../../c/libev_echo.c"),
        // Its macros look at one struct as another.
        flags: &["-fno-strict-aliasing", "-lev"],
        package: "libev-dev",
    },
];

/// The modules, each with how to get it.
const IN_PYTHON: [(&str, &str); 2] =
    [("asyncio", "apt-get install python3"), ("uvloop", "python3 -m pip install uvloop")];
const PYTHON_SOURCE: &str = include_str!("../../python/echo.py");

/// Ends a server; the bytes that it has echoed.
pub(crate) fn finish(server: ServerProcess) -> io::Result<u64> {
    let said = server.finish()?;
    let count = said.trim().strip_prefix("echoed ").and_then(|count| count.parse().ok());
    count.ok_or_else(|| io::Error::other(format!("the server's last words: {said:?}")))
}

/// Each server by its name: how to start it, or what is missing and how to get it. The first call compiles.
pub(crate) fn echo_servers() -> &'static [(&'static str, Result<Launch, String>)] {
    static FOUND: OnceLock<Vec<(&str, Result<Launch, String>)>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let in_c = IN_C.iter().map(|source| {
            let program = source.compile();
            (source.name, program.map(|program| Launch { program, arguments: vec![] }))
        });
        let in_python = IN_PYTHON.iter().map(|&(module, how)| (module, python(module, how)));
        let servers = in_c.chain(in_python).chain([("glommio", glommio())]);
        if ServerProcess::tells_time() {
            return servers.collect();
        }
        let why = "this system does not tell another process's time";
        servers.map(|(name, _)| (name, Err(why.to_owned()))).collect()
    })
}

/// Name and version of what is not built in: of those servers that `takes_part` names, and of redis. Starts each for a
/// moment.
pub fn foreign_versions(takes_part: impl Fn(&str) -> bool) -> Vec<String> {
    let servers = echo_servers().iter().filter(|(name, _)| takes_part(name));
    let servers = servers.filter_map(|(_, found)| {
        let Launch { program, arguments } = found.as_ref().ok()?;
        let arguments: Vec<&str> =
            arguments.iter().map(String::as_str).chain(["version"]).collect();
        line_of(program, &arguments)
    });
    let redis = takes_part("redis").then(|| line_of("redis-server", &["--version"]));
    servers.chain(redis.flatten()).collect()
}

fn python(module: &'static str, how: &str) -> Result<Launch, String> {
    let import = ["-c", &format!("import {module}")];
    let told = refusal("python3".as_ref(), &import)
        .map_err(|error| format!("python3: {error}; try apt-get install python3"))?;
    if let Some(told) = told {
        return Err(format!("python3: {told}; try {how}"));
    }
    let arguments = ["-c", PYTHON_SOURCE, module].map(str::to_owned).to_vec();
    Ok(Launch { program: "python3".into(), arguments })
}

/// A feature of this crate would make its build a part of every `cargo test --all-features`.
fn glommio() -> Result<Launch, String> {
    let how =
        "cargo build --release --manifest-path loop-bench/glommio/Cargo.toml --target-dir target";
    let program = built("glommio_echo").map_err(|error| format!("{error}; try {how}"))?;
    match refusal(&program, &["version"]) {
        Ok(None) => Ok(Launch { program, arguments: vec![] }),
        Ok(Some(told)) => Err(told),
        Err(error) => Err(format!("{}: {error}", program.display())),
    }
}

/// The last words of a program that fails.
fn refusal(program: &Path, arguments: &[&str]) -> io::Result<Option<String>> {
    let output = Command::new(program).args(arguments).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or("failed");
    Ok((!output.status.success()).then(|| last.to_owned()))
}
