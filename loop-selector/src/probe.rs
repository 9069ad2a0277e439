//! What was tried when a backend was chosen.

use std::fmt;
use std::io;

/// Which backend was chosen, and for each better one why not: the kernel is too old, a seccomp
/// filter forbids it, a limit was reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProbeReport {
    chosen: Option<&'static str>,
    refused: Vec<Refusal>,
}

/// A backend that could not be created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    name: &'static str,
    kind: io::ErrorKind,
    reason: String,
}

impl ProbeReport {
    pub(crate) fn choose(&mut self, name: &'static str) {
        self.chosen = Some(name);
    }

    pub(crate) fn refuse(&mut self, name: &'static str, error: &io::Error) {
        self.refused.push(Refusal { name, kind: error.kind(), reason: error.to_string() });
    }

    /// The name of the backend that works; `None` if none did.
    pub fn chosen(&self) -> Option<&'static str> {
        self.chosen
    }

    /// Those that were tried before it, best first.
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }
}

impl Refusal {
    /// The backend.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What kind of error its creation met.
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }

    /// The text of that error.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for ProbeReport {
    /// "poll (not epoll: Too many open files)".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.chosen.unwrap_or("none"))?;
        for (index, refusal) in self.refused.iter().enumerate() {
            f.write_str(if index == 0 { " (" } else { "; " })?;
            write!(f, "not {}: {}", refusal.name, refusal.reason)?;
        }
        f.write_str(if self.refused.is_empty() { "" } else { ")" })
    }
}
