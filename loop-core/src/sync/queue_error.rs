//! Why an item was not put into a queue, or not got out of it.

use std::error::Error;
use std::fmt;
use std::io;

/// The queue is shut down; the item comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PutError<T>(pub T);

/// Why an item was not put in; it comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TryPutError<T> {
    /// The queue is full.
    Full(T),
    /// The queue is shut down.
    ShutDown(T),
}

/// The queue is shut down and has nothing left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueShutDown;

/// Why no item was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryGetError {
    /// There is none now.
    Empty,
    /// There will be none any more.
    ShutDown,
}

impl fmt::Display for QueueShutDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is shut down")
    }
}

impl fmt::Display for TryGetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryGetError::Empty => f.write_str("the queue is empty"),
            TryGetError::ShutDown => QueueShutDown.fmt(f),
        }
    }
}

impl<T> fmt::Debug for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PutError(..)")
    }
}

impl<T> fmt::Display for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        QueueShutDown.fmt(f)
    }
}

impl<T> fmt::Debug for TryPutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryPutError::Full(_) => "Full(..)",
            TryPutError::ShutDown(_) => "ShutDown(..)",
        })
    }
}

impl<T> fmt::Display for TryPutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryPutError::Full(_) => f.write_str("the queue is full"),
            TryPutError::ShutDown(_) => QueueShutDown.fmt(f),
        }
    }
}

impl Error for QueueShutDown {}
impl Error for TryGetError {}
impl<T> Error for PutError<T> {}
impl<T> Error for TryPutError<T> {}

impl From<QueueShutDown> for io::Error {
    fn from(error: QueueShutDown) -> io::Error {
        io::Error::other(error)
    }
}

/// An empty queue is one that would block.
impl From<TryGetError> for io::Error {
    fn from(error: TryGetError) -> io::Error {
        match error {
            TryGetError::Empty => io::Error::new(io::ErrorKind::WouldBlock, error),
            TryGetError::ShutDown => QueueShutDown.into(),
        }
    }
}

/// The item is dropped.
impl<T> From<PutError<T>> for io::Error {
    fn from(_: PutError<T>) -> io::Error {
        QueueShutDown.into()
    }
}

/// A full queue is one that would block. The item is dropped.
impl<T> From<TryPutError<T>> for io::Error {
    fn from(error: TryPutError<T>) -> io::Error {
        match error {
            TryPutError::Full(_) => io::Error::new(io::ErrorKind::WouldBlock, error.to_string()),
            TryPutError::ShutDown(_) => QueueShutDown.into(),
        }
    }
}
