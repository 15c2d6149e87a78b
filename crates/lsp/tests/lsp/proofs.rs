//! Proofs: verdicts, lenses, hints beside the head, for which ranks.

use serde_json::{Value, json};

use crate::client::{Client, FakeHost};

const RING: &str = "algorithm ring(ranks N = 4) implements allreduce(chunks N) in place {
    for step in 0..N-1, c in 0..N {
        input@((c + step + 1) % N)[c] += input@((c + step) % N)[c]
    }
    for step in N-1..2*N-2, c in 0..N {
        input@((c + step + 1) % N)[c] = input@((c + step) % N)[c]
    }
}
";

fn hints(client: &mut Client) -> Vec<String> {
    let end = json!({ "line": 1000, "character": 0 });
    let range = json!({ "start": { "line": 0, "character": 0 }, "end": end });
    let params = json!({ "textDocument": { "uri": client.uri }, "range": range });
    let found = client.ask("textDocument/inlayHint", params).unwrap();
    let labels = found.as_array().unwrap().iter();
    labels.map(|it| it["label"].as_str().unwrap().to_owned()).collect()
}

fn prove(client: &mut Client, ranks: u32) -> Value {
    let arguments = json!([client.uri, "ring", ranks]);
    let params = json!({ "command": "msccl.prove", "arguments": arguments });
    client.ask("workspace/executeCommand", params).unwrap()
}

#[test]
fn what_is_proved_stands_beside_the_head() {
    let mut client = Client::open(RING);
    assert_eq!(client.final_diagnostics(), json!([]));
    assert_eq!(
        hints(&mut client),
        ["proved for N = 4 · 28 steps · sends 1.5 × the buffer · adds in 4 orders or more"]
    );
}

#[test]
fn lenses_prove_for_other_ranks() {
    let mut client = Client::open(RING);
    let lenses = client.ask("textDocument/codeLens", client.whole()).unwrap();
    let titles = lenses.as_array().unwrap().iter().map(|it| it["command"]["title"].clone());
    let expected =
        ["prove for 8 ranks", "prove for 16 ranks", "prove for 64 ranks", "show timeline"];
    assert_eq!(titles.collect::<Vec<_>>(), expected);
    let answer = prove(&mut client, 8);
    assert_eq!(answer["proved"], true, "{answer}");
    assert!(client.shown[0].starts_with("ring: proved for N = 8"), "{:?}", client.shown);
    assert!(hints(&mut client)[0].starts_with("proved for N = 8"));
    assert!(prove(&mut client, 16)["text"].as_str().unwrap().contains("N = 16"));
}

#[test]
fn an_edit_ends_the_wait_for_a_proof() {
    let mut client = Client::open(RING);
    client.final_diagnostics();
    let arguments = json!([client.uri, "ring", 48]);
    let params = json!({ "command": "msccl.prove", "arguments": arguments });
    let id = client.send("workspace/executeCommand", params);
    client.replace("fn f(a) = a\n");
    assert_eq!(client.answer(&id), Err("the text has changed since; ask again".to_owned()));
    assert_eq!(client.final_diagnostics(), json!([]));
}

#[test]
fn comments_say_for_which_ranks() {
    let mut client = Client::open(&format!("// msccl: ranks 2 3\n{RING}"));
    assert_eq!(client.final_diagnostics(), json!([]));
    let hints = hints(&mut client);
    assert!(hints[0].starts_with("proved for N = 2 ·"), "{hints:?}");
    assert!(hints[0].contains("| proved for N = 3 ·"), "{hints:?}");
}

#[test]
fn comments_name_machines_and_bounds_are_compared() {
    let mut client = Client::open(&format!("// msccl: topo hgx-h100-8\n{RING}"));
    assert_eq!(client.final_diagnostics(), json!([]));
    let hints = hints(&mut client);
    assert!(hints[0].contains("N = 8") && hints[0].ends_with("× the bound"), "{hints:?}");
    client.replace(&format!("// msccl: topo moon\n{RING}"));
    let found = client.final_diagnostics();
    assert!(found[0]["message"].as_str().unwrap().starts_with("there is no machine `moon`"));
    client.replace(&format!("// msccl: ranks many\n{RING}"));
    let found = client.final_diagnostics();
    assert_eq!(found[0]["severity"], 2, "{found:#}");
    assert_eq!(client.text_at(&found[0]["range"]), "// msccl: ranks many");
}

#[test]
fn settings_say_for_which_ranks() {
    let settings = json!({ "msccl": { "ranks": 6, "lensRanks": [5] } });
    let mut client = Client::with(FakeHost::default(), settings, RING);
    assert_eq!(client.final_diagnostics(), json!([]));
    assert!(hints(&mut client)[0].starts_with("proved for N = 6"));
    let settings = json!({ "msccl": { "ranks": 3, "prove": false } });
    client.notify("workspace/didChangeConfiguration", json!({ "settings": settings }));
    client.final_diagnostics();
    assert_eq!(hints(&mut client), [""; 0]);
}

#[test]
fn a_deadlock_shows_its_whole_circle() {
    // Every rank sends more parts of a chunk than links hold before it takes one.
    let text = RING.replace("in place {", "in place interleaved 16 {");
    let mut client = Client::open(&text);
    let found = client.final_diagnostics();
    assert_eq!(found[0]["code"], "deadlock", "{found:#}");
    let related = found[0]["relatedInformation"].as_array().unwrap();
    let said: Vec<_> = related.iter().map(|it| it["message"].as_str().unwrap()).collect();
    for rank in 0..4 {
        let waits = |it: &&&str| it.starts_with(&format!("r{rank} ")) && it.contains("waits for");
        assert!(said.iter().find(waits).is_some(), "rank {rank}: {said:#?}");
    }
    for place in related {
        let text = client.text_at(&place["location"]["range"]);
        assert!(text.starts_with("input@((c + step + 1) % N)[c]"), "{place:#}");
    }
}

#[test]
fn a_claim_of_order_that_does_not_hold_can_be_removed() {
    let text = RING.replace("in place {", "in place order flat {");
    let mut client = Client::open(&text);
    let found = client.final_diagnostics();
    assert_eq!(found[0]["code"], "order", "{found:#}");
    let params = json!({
        "textDocument": { "uri": client.uri }, "range": found[0]["range"],
        "context": { "diagnostics": found },
    });
    let actions = client.ask("textDocument/codeAction", params).unwrap();
    let edits = actions[0]["edit"]["changes"][&client.uri].clone();
    assert_eq!(client.applied(&edits), RING, "{actions:#}");
}

#[test]
fn timelines_are_drawn() {
    let mut client = Client::open(RING);
    let arguments = json!([client.uri, "ring"]);
    let params = json!({ "command": "msccl.timeline", "arguments": arguments });
    let answer = client.ask("workspace/executeCommand", params).unwrap();
    assert_eq!(answer["uri"], "file:///pictures/timeline.svg");
    assert!(answer["svg"].as_str().unwrap().contains("ring"));
}
