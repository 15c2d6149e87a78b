//! Dumps of communicators: what they say of calls that are done, under way, and not begun.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are loud")]

mod programs;

use serde_json::Value;

use programs::run;

/// What stands under `name`, which is a text that is JSON itself.
fn inner(dump: &Value, name: &str) -> Value {
    serde_json::from_str(dump[name].as_str().unwrap()).unwrap()
}

/// The names of the calls under `name`.
fn calls(dump: &Value, name: &str) -> Vec<String> {
    let calls = inner(dump, name);
    let calls = calls.as_array().unwrap().iter();
    calls.map(|call| call["opName"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_communicator_says_what_it_does() {
    let Some(said) = run("dumped", &[], &[]) else { return };
    let dumps: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [before, during, after] = &dumps[..] else { panic!("{said}") };
    for dump in &dumps {
        let all = ["commDesc", "rank", "nRanks", "nNodes", "localRanks", "msccl_failure"];
        assert_eq!(all.map(|name| &dump[name]), ["pipeline", "0", "2", "1", "2", ""]);
        assert!(u64::from_str_radix(dump["commHash"].as_str().unwrap(), 16).is_ok());
        assert!(dump.as_object().unwrap().values().all(Value::is_string), "{dump}");
        assert_eq!(calls(dump, "CT_pendingColls"), [""; 0]);
    }
    assert_eq!(calls(before, "CT_pastColls"), ["Broadcast"]);
    assert_eq!(calls(before, "CT_currentColls"), [""; 0]);
    assert_eq!(calls(during, "CT_currentColls"), ["AllReduce"]);
    let current = &inner(during, "CT_currentColls")[0];
    assert_eq!([&current["collId"], &current["number"], &current["count"]], [2, 2, 1000]);
    assert_eq!(current["dataType"], "f32");
    let waits = inner(during, "msccl_waits");
    let first = &waits[0];
    assert_eq!([&first["collId"], &first["peer"]], [2, 1]);
    assert!(first["text"].as_str().unwrap().contains("from r1"), "{first}");
    // Who has not come: rank 1 has entered one collective, rank 0 two.
    let ranks = inner(during, "msccl_ranks");
    assert_eq!([&ranks[0]["collectives"], &ranks[1]["collectives"]], [2, 1]);
    assert!(ranks[1]["last"].as_str().unwrap().contains("broadcast"), "{ranks}");
    assert_eq!(calls(after, "CT_pastColls"), ["Broadcast", "AllReduce"]);
    assert_eq!(inner(after, "msccl_waits"), Value::Array(Vec::new()));
}
