//! Why a read of a stream gave no bytes.

use std::fmt;
use std::io;

/// Why a read gave no bytes.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The stream ended first; the buffer is empty now (B-STR-03, B-STR-05).
    Incomplete {
        /// What there was.
        partial: Vec<u8>,
        /// How many bytes were asked for, if it was a number of them.
        expected: Option<usize>,
    },
    /// More bytes than the limit came without the separator. They stay buffered (B-STR-06).
    LimitOverrun {
        /// How many of them certainly hold no separator: read that many to go on.
        consumed: usize,
    },
    /// The separator is empty.
    InvalidSeparator,
    /// The connection failed. Every later read says so again (B-STR-09).
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Incomplete { partial, expected: Some(expected) } => {
                write!(f, "the stream ended after {} of {expected} bytes", partial.len())
            }
            ReadError::Incomplete { partial, expected: None } => {
                write!(f, "the stream ended after {} bytes, before the separator", partial.len())
            }
            ReadError::LimitOverrun { consumed } => {
                write!(f, "{consumed} bytes came without the separator, more than the limit")
            }
            ReadError::InvalidSeparator => f.write_str("the separator is empty"),
            ReadError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> io::Error {
        let kind = match &error {
            ReadError::Incomplete { .. } => io::ErrorKind::UnexpectedEof,
            ReadError::LimitOverrun { .. } => io::ErrorKind::InvalidData,
            ReadError::InvalidSeparator => io::ErrorKind::InvalidInput,
            ReadError::Io(_) => {
                let ReadError::Io(error) = error else { unreachable!("just matched") };
                return error;
            }
        };
        io::Error::new(kind, error)
    }
}
