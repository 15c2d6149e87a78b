//! The answers that a page gets, asked natively.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde_json::{Value, json};

const RING: &str = "\
algorithm ring(ranks N = 8) implements allreduce(chunks N) in place {
    for step in 0..N-1, c in 0..N {
        input@((c + step + 1) % N)[c] += input@((c + step) % N)[c]
    }
    for step in N-1..2*N-2, c in 0..N {
        input@((c + step + 1) % N)[c] = input@((c + step) % N)[c]
    }
}
";

fn ask(request: &Value) -> Value {
    let answer = msccl_playground::answer(&request.to_string());
    serde_json::from_str(&answer).unwrap()
}

fn source(name: &str, text: &str) -> Value {
    json!({ "name": name, "text": text })
}

fn broken(name: &str) -> Value {
    let library = ask(&json!({ "op": "library" }));
    let all = library["broken"].as_array().unwrap();
    let found = all.iter().find(|example| example["name"] == name).unwrap();
    source(name, found["text"].as_str().unwrap())
}

fn prove(source: &Value) -> Value {
    ask(&json!({ "op": "prove", "source": source }))
}

#[test]
fn a_ring_is_proved_for_64_ranks() {
    let mut ring = source("ring.msccl", RING);
    ring["ranks"] = 64.into();
    let answer = prove(&ring);
    assert_eq!(answer["verdict"]["verdict"], "proved", "{answer:#}");
    assert_eq!(answer["ranks"], 64);
    assert_eq!(answer["repairs"], json!([]));
}

#[test]
fn broken_examples_are_refused_as_they_say() {
    let fault = |name: &str| prove(&broken(name))["verdict"]["fault"].clone();
    assert_eq!(fault("unfinished_gather.msccl"), "wrong-result");
    assert_eq!(fault("race.xml"), "race");
    assert_eq!(fault("deadlock.xml"), "deadlock");
    let large = prove(&broken("deadlock_of_large_calls.xml"));
    assert_eq!(large["verdict"]["sound_up_to_bytes"], 4 << 20, "{large:#}");
}

#[test]
fn a_race_is_reported_at_both_steps_and_its_repair_is_proved() {
    let race = broken("race.xml");
    let answer = prove(&race);
    let diagnostic = &answer["diagnostics"][0];
    assert_eq!((&diagnostic["line"], &diagnostic["related"][0]["line"]), (&json!(12), &json!(8)));
    let repair = &answer["repairs"][0];
    assert_eq!(repair["title"], "let r0 tb1 s0 wait for step 1 of thread block 0");
    let repaired = prove(&source("race.xml", repair["text"].as_str().unwrap()));
    assert_eq!(repaired["verdict"]["verdict"], "proved", "{repaired:#}");
}

#[test]
fn a_misspelt_name_has_a_repair() {
    let misspelt = broken("misspelt.msccl");
    let answer = ask(&json!({ "op": "check", "source": misspelt }));
    assert_eq!(answer["diagnostics"][0]["line"], 4, "{answer:#}");
    let text = answer["repairs"][0]["text"].as_str().unwrap();
    assert_eq!(prove(&source("x.msccl", text))["verdict"]["verdict"], "proved");
}

#[test]
fn replays_end_as_the_verdict_says() {
    let ending = |source: &Value| {
        let answer = ask(&json!({ "op": "replay", "source": source }));
        assert!(answer["error"].is_null(), "{answer:#}");
        assert!(!answer["events"].as_array().unwrap().is_empty());
        answer["ending"].clone()
    };
    assert_eq!(ending(&source("ring.msccl", RING))["kind"], "right");
    assert_eq!(ending(&broken("unfinished_gather.msccl"))["kind"], "wrong");
    for name in ["deadlock.xml", "deadlock_of_large_calls.xml"] {
        let stalled = ending(&broken(name));
        assert_eq!(stalled["blocked"].as_array().map(Vec::len), Some(2), "{stalled:#}");
    }
}

#[test]
fn pictures_figures_and_files_are_given() {
    let ring = source("ring.msccl", RING);
    let of = |op: &str| ask(&json!({ "op": op, "source": ring }));
    for op in ["chunks", "schedule", "timeline"] {
        let answer = of(op);
        assert!(answer["svg"].as_str().unwrap().starts_with("<svg "), "{op}: {answer:#}");
    }
    assert_eq!(of("figures")["estimates"].as_array().map(Vec::len), Some(11));
    assert!(of("page")["html"].as_str().unwrap().contains("✓ proved"));
    let export = ask(&json!({ "op": "export", "source": ring, "dialect": "msccl" }));
    let xml = export["text"].as_str().unwrap();
    assert_eq!(prove(&source("ring.xml", xml))["verdict"]["verdict"], "proved");
}

#[test]
fn programs_are_compared_on_a_machine() {
    let mut ring = source("ring", RING);
    ring["machine"] = "hgx-h100-8".into();
    let all = json!([ring, broken("race.xml")]);
    let answer = ask(&json!({ "op": "compare", "sources": all }));
    let [one, other] = answer["columns"].as_array().unwrap().as_slice() else { panic!() };
    assert!(one["estimates"][0]["us"].as_f64().unwrap() > 0.0, "{one:#}");
    assert!(one["assumptions"].as_str().unwrap().contains("H100"));
    assert!(other["error"].as_str().unwrap().contains("refused"));
}

#[test]
fn what_makes_no_sense_is_an_error() {
    let error = |request: &str| {
        let answer: Value = serde_json::from_str(&msccl_playground::answer(request)).unwrap();
        answer["error"].as_str().unwrap_or_default().to_owned()
    };
    assert!(error("").starts_with("cannot read the request"));
    assert!(error(r#"{"op": "sing"}"#).contains("sing"));
    let moon = json!({ "op": "figures", "source":
        { "name": "ring", "text": RING, "machine": "moon" } });
    assert!(error(&moon.to_string()).contains("moon"));
    let many = json!({ "op": "prove", "source": { "name": "ring", "text": RING, "ranks": 5000 } });
    assert!(ask(&many)["unreadable"].as_str().unwrap().contains("at most 1024"));
    let unread = prove(&source("x.msccl", "algorithm"));
    assert_eq!(unread["diagnostics"][0]["line"], 1, "{unread:#}");
}
