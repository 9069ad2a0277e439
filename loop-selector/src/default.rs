//! Choosing a backend at run time.

use std::env::{self, VarError};
use std::io;

#[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
use crate::backend::epoll::EpollSelector;
use crate::backend::poll::PollSelector;
use crate::selector::Selector;

/// The environment variable that names the backend of [`default_selector`].
const VARIABLE: &str = "LOOP_SELECTOR";

type Make = fn() -> io::Result<Box<dyn Selector>>;

/// Every backend of this target, best first.
const BACKENDS: &[(&str, Make)] = &[
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
    ("epoll", || Ok(Box::new(EpollSelector::new()?))),
    ("poll", || Ok(Box::new(PollSelector::new()?))),
];

const NAMES: [&str; BACKENDS.len()] = {
    let mut names = [""; BACKENDS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = BACKENDS[i].0;
        i += 1;
    }
    names
};

/// The names that [`by_name`] knows on this target, best first.
pub fn available() -> &'static [&'static str] {
    &NAMES
}

/// The backend of that name.
///
/// # Errors
/// `InvalidInput`, with a list of the known ones, for an unknown name; or what the system says when
/// it is created.
pub fn by_name(name: &str) -> io::Result<Box<dyn Selector>> {
    match BACKENDS.iter().find(|(known, _)| *known == name) {
        Some((_, make)) => make(),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("unknown selector {name:?}; this system has {}", NAMES.join(", ")),
        )),
    }
}

/// The best backend that works here: each is probed by really creating it (B-SEL-30). If the
/// environment variable `LOOP_SELECTOR` is set and not empty, the backend of that name, or an error:
/// a forced choice never falls back.
///
/// # Errors
/// Those of [`by_name`]; without the variable, the last backend's, when none can be created.
pub fn default_selector() -> io::Result<Box<dyn Selector>> {
    match env::var(VARIABLE) {
        Ok(name) if !name.is_empty() => by_name(&name)
            .map_err(|error| io::Error::new(error.kind(), format!("{VARIABLE}={name}: {error}"))),
        Err(VarError::NotUnicode(name)) => by_name(&name.to_string_lossy()),
        _ => first_that_works(BACKENDS),
    }
}

fn first_that_works(backends: &[(&str, Make)]) -> io::Result<Box<dyn Selector>> {
    let mut failure = io::Error::from(io::ErrorKind::Unsupported);
    for (_, make) in backends {
        match make() {
            Ok(selector) => return Ok(selector),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_available_backend_can_be_named() {
        for name in available() {
            assert_eq!(by_name(name).unwrap().name(), *name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = by_name("kqueueue").err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        for name in available() {
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn b_sel_30_a_backend_that_cannot_be_created_is_passed_over() {
        let broken: (&str, Make) = ("broken", || Err(io::Error::from(io::ErrorKind::OutOfMemory)));
        let poll = BACKENDS[BACKENDS.len() - 1];
        assert_eq!(first_that_works(&[broken, poll]).unwrap().name(), "poll");
        let error = first_that_works(&[broken]).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
