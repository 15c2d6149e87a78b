//! What a page offers to begin with: programs, machines, words.

use msccl_registry::built_in_programs;
use msccl_topology::cluster::presets::PRESETS;
use serde_json::{Value, json};

/// A file that is refused, and what it teaches.
struct Broken {
    name: &'static str,
    text: &'static str,
    teaches: &'static str,
}

const BROKEN: [Broken; 5] = [
    Broken {
        name: "unfinished_gather.msccl",
        text: include_str!("../examples/unfinished_gather.msccl"),
        teaches: "wrong result: a loop ends too early",
    },
    Broken {
        name: "race.xml",
        text: include_str!("../examples/race.xml"),
        teaches: "race: a thread block does not wait",
    },
    Broken {
        name: "deadlock.xml",
        text: include_str!("../../../docs/examples/deadlock.xml"),
        teaches: "deadlock: links are full",
    },
    Broken {
        name: "deadlock_of_large_calls.xml",
        text: include_str!("../examples/deadlock_of_large_calls.xml"),
        teaches: "deadlock above a size",
    },
    Broken {
        name: "misspelt.msccl",
        text: include_str!("../examples/misspelt.msccl"),
        teaches: "a name that is misspelt",
    },
];

/// The built-in programs, the broken examples and the machines.
pub fn library() -> Value {
    let programs = built_in_programs().into_iter();
    let programs = programs.map(|(name, text)| json!({ "name": name, "text": text }));
    let broken = BROKEN.iter().map(
        |Broken { name, text, teaches }| json!({ "name": name, "text": text, "teaches": teaches }),
    );
    let machines = PRESETS.iter().filter_map(|preset| {
        let cluster = preset.cluster()?;
        let gpus = cluster.gpus().count();
        Some(json!({ "name": preset.name, "title": cluster.name(), "gpus": gpus }))
    });
    json!({
        "programs": programs.collect::<Vec<_>>(), "broken": broken.collect::<Vec<_>>(),
        "machines": machines.collect::<Vec<_>>(), "version": env!("CARGO_PKG_VERSION"),
    })
}
