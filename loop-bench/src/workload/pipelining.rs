//! Echo servers whose clients do not wait for one answer before the next request: sixteen are under way on each
//! connection.

use super::echo_round::{self, Laps};
use super::echo_servers::{protocols, rivals, streams};
use super::load::Load;
use crate::sample::{Contest, Lap, Plan};

const LOAD: Load = Load { connections: 64, bytes: 64, messages: 0, depth: 16, seed: 0 };

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let messages = plan.size(2_000, 8_000);
    let params = [
        ("connections", LOAD.connections as u64),
        ("bytes", LOAD.bytes as u64),
        ("depth", LOAD.depth as u64),
    ];
    let contest = |name, pick: fn(Laps) -> Lap| {
        let servers = protocols().chain(streams()).chain(rivals()).collect();
        let load = move |seed| Load { messages, seed, ..LOAD };
        echo_round::contest(name, &params, servers, pick, load)
    };
    vec![
        contest("pipelining/echo", |laps| laps.wall),
        contest("pipelining/echo_cpu", |laps| laps.processor),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_answers_sixteen_requests_at_once() {
        let load = Load { connections: 4, bytes: 61, messages: 200, ..LOAD };
        for (name, server) in protocols().chain(streams()).chain(rivals()) {
            let laps = server.round(&load).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!((laps.wall.ops, laps.processor.ops), (800, 804), "{name}");
        }
    }
}
