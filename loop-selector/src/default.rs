//! Choosing a backend at run time.

use std::env::{self, VarError};
use std::io;

use crate::backend;
use crate::probe::ProbeReport;
use crate::selector::Selector;

/// The environment variable that names the backend of [`default_selector`].
const VARIABLE: &str = "LOOP_SELECTOR";

/// The one that forbids it to fall back.
const STRICT: &str = "LOOP_SELECTOR_STRICT";

type Make = fn() -> io::Result<Box<dyn Selector>>;

/// Every backend of this target, best first. What stands behind [`LAST_RESORT`] is there for those
/// who ask by name.
const BACKENDS: &[(&str, Make)] = &[
    #[cfg(any(
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "dragonfly",
        target_os = "netbsd",
        target_os = "openbsd"
    ))]
    ("kqueue", || Ok(Box::new(backend::kqueue::KqueueSelector::new()?))),
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
    ("epoll", || Ok(Box::new(backend::epoll::EpollSelector::new()?))),
    #[cfg(any(target_os = "illumos", target_os = "solaris"))]
    ("devpoll", || Ok(Box::new(backend::devpoll::DevpollSelector::new()?))),
    ("poll", || Ok(Box::new(backend::poll::PollSelector::new()?))),
    ("select", || Ok(Box::new(backend::select::SelectSelector::new()?))),
    #[cfg(all(feature = "mio", target_pointer_width = "64"))]
    ("mio", || Ok(Box::new(backend::mio::MioSelector::new()?))),
    #[cfg(all(feature = "uring", target_os = "linux"))]
    ("uring", || Ok(Box::new(backend::uring::IoUringSelector::new()?))),
];

/// The last backend that is chosen without being named.
const LAST_RESORT: &str = "select";

const NAMES: [&str; BACKENDS.len()] = {
    let mut names = [""; BACKENDS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = BACKENDS[i].0;
        i += 1;
    }
    names
};

/// The names that [`by_name`] knows on this target, best first. Whatever follows `select` is only
/// chosen by name.
pub fn available() -> &'static [&'static str] {
    &NAMES
}

/// The backend of that name.
///
/// # Errors
/// `InvalidInput`, with a list of the known ones, for an unknown name; or what the system says when
/// it is created.
pub fn by_name(name: &str) -> io::Result<Box<dyn Selector>> {
    find(name)?.1()
}

fn find(name: &str) -> io::Result<&'static (&'static str, Make)> {
    BACKENDS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let text = format!("unknown selector {name:?}; this system has {}", NAMES.join(", "));
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// The best backend that works here: each is probed by really creating it (B-SEL-30). If the
/// environment variable `LOOP_SELECTOR` is set and not empty, the backend of that name, or an
/// error: a forced choice never falls back. If `LOOP_SELECTOR_STRICT` is `1`, the best one or an error.
///
/// # Errors
/// Those of [`SelectorChoice::from_env`] and [`SelectorChoice::create`].
pub fn default_selector() -> io::Result<Box<dyn Selector>> {
    let choice = SelectorChoice::from_env()?;
    choice.create().map_err(|error| match &choice.name {
        Some(name) => io::Error::new(error.kind(), format!("{VARIABLE}={name}: {error}")),
        None => error,
    })
}

/// What [`default_selector`] would choose now, and why not something better. Makes the selectors,
/// and drops them again.
///
/// ```
/// println!("{}", loop_selector::probe()?); // "epoll", say
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of [`SelectorChoice::from_env`].
pub fn probe() -> io::Result<ProbeReport> {
    Ok(SelectorChoice::from_env()?.probe().1)
}

/// How to choose: the best that works, or one by name; falling back or not.
///
/// ```
/// use loop_selector::{Selector, SelectorChoice};
///
/// let (selector, report) = SelectorChoice::best().probe();
/// assert_eq!(report.chosen(), Some(selector?.name()));
/// assert_eq!(SelectorChoice::named("poll").create()?.name(), "poll");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SelectorChoice {
    name: Option<String>,
    is_strict: bool,
}

impl SelectorChoice {
    /// The best that works.
    pub fn best() -> SelectorChoice {
        SelectorChoice::default()
    }

    /// The one of that name, and no other.
    pub fn named(name: impl Into<String>) -> SelectorChoice {
        SelectorChoice { name: Some(name.into()), is_strict: false }
    }

    /// Whether to fail rather than fall back from the best to something less good. A choice by name
    /// never falls back.
    pub fn strict(self, is_strict: bool) -> SelectorChoice {
        SelectorChoice { is_strict, ..self }
    }

    /// What the environment asks for: `LOOP_SELECTOR` is a name, or empty for none;
    /// `LOOP_SELECTOR_STRICT` is `1` or `0`, or empty for `0`.
    ///
    /// # Errors
    /// `InvalidInput` if a value is not text, or the second one none of these.
    pub fn from_env() -> io::Result<SelectorChoice> {
        let is_strict = match variable(STRICT)?.as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => {
                let text = format!("{STRICT}={other}: it is neither 0 nor 1");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        };
        Ok(SelectorChoice { name: variable(VARIABLE)?, is_strict })
    }

    /// Makes the selector.
    ///
    /// # Errors
    /// Those of [`by_name`] for a named one; else, when none that may be chosen can be created,
    /// that of the last.
    pub fn create(&self) -> io::Result<Box<dyn Selector>> {
        self.probe().0
    }

    /// The same, and tells what was tried.
    pub fn probe(&self) -> (io::Result<Box<dyn Selector>>, ProbeReport) {
        match self.name.as_deref().map(find) {
            Some(Ok(backend)) => first_that_works(std::slice::from_ref(backend)),
            Some(Err(error)) => (Err(error), ProbeReport::default()),
            None if self.is_strict => first_that_works(&BACKENDS[..1]),
            None => {
                let named_only = BACKENDS.iter().rev().take_while(|(name, _)| *name != LAST_RESORT);
                first_that_works(&BACKENDS[..BACKENDS.len() - named_only.count()])
            }
        }
    }
}

fn first_that_works(
    backends: &[(&'static str, Make)],
) -> (io::Result<Box<dyn Selector>>, ProbeReport) {
    let mut report = ProbeReport::default();
    let mut failure = io::Error::from(io::ErrorKind::Unsupported);
    for (name, make) in backends {
        match make() {
            Ok(selector) => {
                report.choose(name);
                return (Ok(selector), report);
            }
            Err(error) => {
                report.refuse(name, &error);
                failure = error;
            }
        }
    }
    (Err(failure), report)
}

/// The value of an environment variable, unless it is empty.
fn variable(name: &str) -> io::Result<Option<String>> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(value)) => {
            let text = format!("{name}={}: it is no text", value.to_string_lossy());
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = by_name("kqueueue").err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        for name in available() {
            assert!(error.to_string().contains(name), "{error}");
        }
        let (selector, report) = SelectorChoice::named("kqueueue").probe();
        assert_eq!(selector.err().unwrap().to_string(), error.to_string());
        assert_eq!(report.chosen(), None);
    }

    #[test]
    fn b_sel_30_a_backend_that_cannot_be_created_is_passed_over_and_reported() {
        let broken: (&str, Make) = ("broken", || Err(io::Error::from(io::ErrorKind::OutOfMemory)));
        let poll = *find("poll").unwrap();
        let (selector, report) = first_that_works(&[broken, poll]);
        assert_eq!((selector.unwrap().name(), report.chosen()), ("poll", Some("poll")));
        assert_eq!(report.refused().len(), 1);
        let refusal = &report.refused()[0];
        assert_eq!((refusal.name(), refusal.kind()), ("broken", io::ErrorKind::OutOfMemory));
        assert_eq!(report.to_string(), format!("poll (not broken: {})", refusal.reason()));
        let (selector, report) = first_that_works(&[broken]);
        assert_eq!(selector.err().unwrap().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(report.to_string(), format!("none (not broken: {})", refusal.reason()));
    }
}
