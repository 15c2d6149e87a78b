//! What a communicator is doing, as JSON: an object of texts, with the names that `ncclCommDump` of
//! NCCLX and RCCL has, and few of our own (`docs/TRACING.md`, section 9).

use msccl_runtime::{CallProgress, CallState, Communicator, RankSummary, WaitState};
use serde_json::{Map, Value, json};

use crate::profiler::function_name;

/// The dump of `communicator`, to which the program gave `name`.
pub fn dump(communicator: &Communicator, name: Option<&str>) -> String {
    let state = communicator.state();
    let calls = |progress| {
        let own = state.calls.iter().filter(move |call| call.progress == progress);
        own.map(call).collect::<Value>().to_string()
    };
    let texts = [
        ("commHash", format!("{:x}", communicator.id())),
        ("commDesc", name.unwrap_or_default().to_owned()),
        ("rank", communicator.rank().0.to_string()),
        ("nRanks", communicator.ranks().to_string()),
        ("nNodes", state.nodes.to_string()),
        ("localRanks", state.local_ranks.to_string()),
        ("CT_pastColls", calls(CallProgress::Past)),
        ("CT_currentColls", calls(CallProgress::Current)),
        ("CT_pendingColls", calls(CallProgress::Pending)),
        ("msccl_failure", state.failure.clone().unwrap_or_default()),
        ("msccl_waits", state.waits.iter().map(wait).collect::<Value>().to_string()),
        ("msccl_ranks", state.ranks.iter().map(rank).collect::<Value>().to_string()),
    ];
    let texts = texts.map(|(name, text)| (name.to_owned(), Value::String(text)));
    Value::Object(Map::from_iter(texts)).to_string()
}

fn call(call: &CallState) -> Value {
    let CallState { sequence, number, call, progress: _ } = call;
    json!({
        "collId": sequence,
        "number": number,
        "opName": function_name(&call.operation).to_string_lossy(),
        "count": call.count,
        "dataType": call.data_type.to_string(),
        "call": call.to_string(),
    })
}

fn wait(wait: &WaitState) -> Value {
    let WaitState { sequence, peer, text } = wait;
    json!({ "collId": sequence, "peer": peer, "text": text })
}

fn rank(rank: &RankSummary) -> Value {
    let RankSummary { rank, state, collectives, last } = rank;
    json!({ "rank": rank, "state": state, "collectives": collectives, "last": last })
}
