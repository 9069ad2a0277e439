//! Echo servers in Rust that are built in only if they are asked for: they take a while to build.

use std::sync::OnceLock;

use super::echo_server::Serve;

type Found = Vec<(&'static str, Result<Serve, String>)>;

/// Each by its name, or why it cannot run here. The first call tries whether the system allows io_uring.
pub(crate) fn echo_servers() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| vec![("smol", smol()), ("monoio", monoio()), ("compio", compio())])
}

#[cfg(feature = "smol")]
fn smol() -> Result<Serve, String> {
    Ok(std::sync::Arc::new(super::smol::serve_echo))
}

#[cfg(not(feature = "smol"))]
fn smol() -> Result<Serve, String> {
    not_built_in("smol")
}

#[cfg(all(feature = "monoio", target_os = "linux"))]
fn monoio() -> Result<Serve, String> {
    match super::monoio::refusal() {
        None => Ok(std::sync::Arc::new(super::monoio::serve_echo)),
        Some(why) => Err(why),
    }
}

#[cfg(not(all(feature = "monoio", target_os = "linux")))]
fn monoio() -> Result<Serve, String> {
    on_linux().and_then(|()| not_built_in("monoio"))
}

#[cfg(all(feature = "compio", target_os = "linux"))]
fn compio() -> Result<Serve, String> {
    match super::compio::refusal() {
        None => Ok(std::sync::Arc::new(super::compio::serve_echo)),
        Some(why) => Err(why),
    }
}

#[cfg(not(all(feature = "compio", target_os = "linux")))]
fn compio() -> Result<Serve, String> {
    on_linux().and_then(|()| not_built_in("compio"))
}

#[cfg(not(all(feature = "monoio", feature = "compio", target_os = "linux")))]
fn on_linux() -> Result<(), String> {
    if cfg!(target_os = "linux") { Ok(()) } else { Err("it is measured on Linux alone".into()) }
}

#[cfg(not(all(feature = "smol", feature = "monoio", feature = "compio", target_os = "linux")))]
fn not_built_in(feature: &str) -> Result<Serve, String> {
    Err(format!("not built in; try cargo build --release -p loop-bench --features {feature}"))
}
