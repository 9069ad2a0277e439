//! `DatagramProtocol`: what a program does with datagrams.

use std::io;

use super::transport::DatagramTransport;
use crate::error::NetError;
use crate::sock_addr::SockAddr;

/// The hooks of a datagram endpoint; asyncio's `DatagramProtocol`.
///
/// `connection_made` is called once, then anything but it in any order, then `connection_lost` once, and
/// nothing after it. Hooks may call anything; none is called while another one of the same endpoint runs.
/// A panic in a hook is reported, and the endpoint goes on: it serves others too.
pub trait DatagramProtocol {
    /// The endpoint is there. Keep a clone of the transport to send.
    fn connection_made(&mut self, transport: &DatagramTransport) {
        let _ = transport;
    }

    /// One datagram, which may be empty, in the loop's buffer, and who sent it (B-UDP-01, B-UDP-06).
    fn datagram_received(&mut self, data: &[u8], from: &SockAddr);

    /// Sending or receiving one datagram failed, and the endpoint goes on (B-UDP-03): nobody listens at
    /// the other end (`ConnectionRefused`, on connected endpoints only), a datagram was too large to be
    /// sent, or one that came in was longer than
    /// [`max_size`](crate::DatagramBuilder::max_size) and is lost (`InvalidData`).
    fn error_received(&mut self, error: io::Error) {
        let _ = error;
    }

    /// More is queued than the high-water mark: stop sending if you can.
    fn pause_writing(&mut self) {}

    /// The queue has drained to the low-water mark.
    fn resume_writing(&mut self) {}

    /// The endpoint is over: `None` after a close or an abort, else what failed.
    fn connection_lost(&mut self, error: Option<&NetError>) {
        let _ = error;
    }
}
