//! How long diagnostics take after an edit, for a program of 100 lines.
//!
//! `cargo test --release -p msccl-lsp --test lsp latency -- --nocapture` says the times of a
//! release build. The limits here are loose, so that a busy machine does not fail them.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, FakeHost};

/// A program of 100 lines for 8 ranks: phases of a ring, cut in pieces.
pub fn program() -> String {
    let mut text = String::from("// A ring in pieces.\nimport blocks\nimport ring\n\n");
    text += "algorithm pieces(ranks N = 8) implements allreduce(chunks 31*N) in place {\n";
    for piece in 0..31 {
        let first = format!("{piece}*N");
        text += &format!("    // Piece {piece}.\n");
        text += &format!("    let blocks_{piece} = cut({first} .. {first} + N, N)\n");
        text += &format!("    ring_allreduce(0..N, input, blocks_{piece})\n");
    }
    text += "}\n\n";
    text
}

/// Medians of the time until the first and the last diagnostics after an edit.
fn measure(prove: bool, edits: usize) -> Duration {
    let settings = json!({ "msccl": { "prove": prove } });
    let mut client = Client::with(FakeHost::default(), settings, &program());
    client.final_diagnostics();
    let mut times = Vec::new();
    for number in 0..edits {
        let place = client.place("// Piece 15.", 0, 12);
        let range = json!({ "start": place, "end": place });
        let known = client.published.len();
        let started = Instant::now();
        client.edit(range, if number % 2 == 0 { "a" } else { "b" });
        assert_eq!(client.final_diagnostics(), json!([]));
        // With a proof there are two reports, of which this is the second.
        let reports = if prove { 2 } else { 1 };
        assert_eq!(client.published.len(), known + reports);
        times.push(client.published.last().unwrap().at - started);
    }
    times.sort();
    times[times.len() / 2]
}

#[test]
fn diagnostics_come_soon() {
    let text = program();
    assert_eq!(text.lines().count(), 100, "{text}");
    let (without, with) = (measure(false, 15), measure(true, 15));
    eprintln!("diagnostics of 100 lines: {without:?} without proof, {with:?} with proof, 8 ranks");
    assert!(without < Duration::from_secs(5), "{without:?}");
    assert!(with < Duration::from_secs(20), "{with:?}");
}
