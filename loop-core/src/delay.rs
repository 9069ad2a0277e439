//! Delays that come as numbers.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// A number of seconds as a delay, by asyncio's rules (B-TMR-10, B-TMR-12): what is negative counts as
/// zero, what is too large for a [`Duration`], infinity included, as [`Duration::MAX`], which never
/// passes. Fractions are rounded to the nanosecond.
///
/// [`Duration::from_secs_f64`] panics on all of these.
///
/// ```
/// use loop_core::{EventLoop, delay_from_secs_f64};
///
/// let event_loop = EventLoop::new()?;
/// event_loop.call_later(delay_from_secs_f64(1.5)?, || println!("later"));
/// event_loop.call_later(delay_from_secs_f64(f64::INFINITY)?, || println!("never"));
/// assert!(delay_from_secs_f64(f64::NAN).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// [`InvalidDelay`] if `secs` is not a number.
pub fn delay_from_secs_f64(secs: f64) -> Result<Duration, InvalidDelay> {
    if secs.is_nan() {
        return Err(InvalidDelay);
    }
    Ok(Duration::try_from_secs_f64(secs.max(0.0)).unwrap_or(Duration::MAX))
}

/// A delay that is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidDelay;

impl fmt::Display for InvalidDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the delay is not a number")
    }
}

impl Error for InvalidDelay {}

impl From<InvalidDelay> for io::Error {
    fn from(invalid: InvalidDelay) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, invalid)
    }
}
