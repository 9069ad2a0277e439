//! The kinds of connections, and running a test over each.

use super::{World, backends, watchdog};

/// What a connection goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tcp,
    Unix,
    /// TLS on TCP. A thread encrypts for the peer, so what arrives takes its time.
    Tls,
    /// A pipe that we read.
    ReadPipe,
    /// A pipe that we write to.
    WritePipe,
}

pub const PIPES: &[Kind] = &[Kind::ReadPipe, Kind::WritePipe];

impl Kind {
    const ALL: [Kind; 5] = [Kind::Tcp, Kind::Unix, Kind::Tls, Kind::ReadPipe, Kind::WritePipe];

    /// Whether our side reads. If not, part of a test is left out, which is told.
    pub fn reads(self) -> bool {
        self.has(self != Kind::WritePipe, "is read")
    }

    /// Whether our side writes; as [`reads`](Self::reads).
    pub fn writes(self) -> bool {
        self.has(self != Kind::ReadPipe, "is written to")
    }

    /// Whether its peer can end one direction and go on with the other; as [`reads`](Self::reads).
    pub fn half_closes(self) -> bool {
        self.has(matches!(self, Kind::Tcp | Kind::Unix), "ends one direction alone")
    }

    /// Whether an impolite peer resets it; as [`reads`](Self::reads).
    pub fn resets(self) -> bool {
        self.has(matches!(self, Kind::Tcp | Kind::Tls), "is reset")
    }

    fn has(self, holds: bool, what: &str) -> bool {
        if !holds {
            eprintln!("  over {self:?} without what takes a connection that {what}");
        }
        holds
    }
}

/// Runs a test in a world of each backend; nothing may be reported that the test did not take.
pub fn for_each_backend(test: impl Fn(&mut World)) {
    let _watchdog = watchdog();
    for name in backends() {
        eprintln!("backend {name}");
        run_on(name, Kind::Tcp, &test);
    }
}

fn run_on(backend: &str, kind: Kind, test: impl Fn(&mut World)) {
    let mut world = World::new(backend);
    assert_eq!(world.event_loop.selector_name(), backend);
    world.kind = kind;
    test(&mut world);
    assert_eq!(world.reports.take(), [""; 0], "reported");
}

/// The kinds that a test runs over: all, but those that it says do not do what it is about.
#[must_use = "nothing is tested before `run`"]
pub struct Kinds {
    left_out: Vec<(Kind, &'static str)>,
}

pub fn every_kind() -> Kinds {
    Kinds { left_out: Vec::new() }
}

impl Kinds {
    /// Leaves kinds out, and says why.
    pub fn not_over(mut self, kinds: &[Kind], why: &'static str) -> Kinds {
        self.left_out.extend(kinds.iter().map(|kind| (*kind, why)));
        self
    }

    /// Those that read.
    pub fn that_read(self) -> Kinds {
        self.not_over(&[Kind::WritePipe], "it is not read")
    }

    /// Those that write.
    pub fn that_write(self) -> Kinds {
        self.not_over(&[Kind::ReadPipe], "it is not written to")
    }

    /// Those with both directions.
    pub fn both_ways(self) -> Kinds {
        self.not_over(PIPES, "it has one direction")
    }

    /// Those whose peer can end one direction and go on with the other.
    pub fn half_closed(self) -> Kinds {
        self.both_ways()
            .not_over(&[Kind::Tls], "TLS ends both directions at once (B-TLS-13, B-TLS-17)")
    }

    /// Those that an impolite peer resets.
    pub fn reset(self) -> Kinds {
        self.not_over(&[Kind::Unix], "a Unix socket ends, and is not reset")
            .not_over(PIPES, "a pipe ends, and is not reset")
    }

    /// Runs the test over each in a world of each backend, and says which it leaves out.
    pub fn run(self, test: impl Fn(&mut World)) {
        let mut kinds = Vec::new();
        for kind in Kind::ALL {
            match self.left_out.iter().find(|(out, _)| *out == kind) {
                Some((_, why)) => eprintln!("not over {kind:?}: {why}"),
                None if kind == Kind::Tls && cfg!(not(feature = "tls")) => {
                    eprintln!("not over {kind:?}: its feature is off");
                }
                None => kinds.push(kind),
            }
        }
        assert!(!kinds.is_empty(), "no kind is left");
        let _watchdog = watchdog();
        for name in backends() {
            for kind in &kinds {
                eprintln!("backend {name}, kind {kind:?}");
                run_on(name, *kind, &test);
            }
        }
    }
}
