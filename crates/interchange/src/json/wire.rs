//! The format, as types.
//!
//! Doc comments here become descriptions in the JSON Schema. Every struct refuses fields that it
//! does not know, so that a file of a later version is never half understood.

use schemars::JsonSchema;
use serde::de::{self, Deserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// A collective algorithm, scheduled: what every thread block of every rank does, in order.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Algorithm")]
pub(super) struct Algorithm<R> {
    /// Always `msccl-ir`.
    pub format: Format,
    /// The version of the format: 1.
    pub version: Version,
    /// Its name, for people.
    pub name: String,
    /// What it computes.
    pub collective: Collective,
    /// Which calls it serves.
    pub placement: Placement,
    /// How its links' messages are laid out.
    pub protocol: Protocol,
    /// Which message sizes it serves.
    pub sizes: Sizes,
    /// Threads per thread block that the author requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The program of each rank, in the order of ranks.
    pub ranks: R,
}

/// The format's name.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) enum Format {
    /// This format.
    #[serde(rename = "msccl-ir")]
    MscclIr,
}

/// The format's version.
pub(super) struct Version;

/// What is computed, by whom, in how many chunks.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Collective {
    /// What is computed.
    pub kind: Kind,
    /// How many ranks take part.
    pub ranks: u32,
    /// Chunks in a block: what one rank contributes to one destination; 1 for a custom collective.
    pub chunks: u32,
}

/// What is computed.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Kind {
    /// Every rank gets the reduction of all inputs.
    AllReduce,
    /// Every rank gets all inputs.
    AllGather,
    /// Every rank gets its block of the reduction of all inputs.
    ReduceScatter,
    /// Every rank gets its block of every input.
    AllToAll,
    /// Every rank gets the root's input.
    Broadcast {
        /// The root.
        root: u32,
    },
    /// The root gets the reduction of all inputs.
    Reduce {
        /// The root.
        root: u32,
    },
    /// The root gets all inputs.
    Gather {
        /// The root.
        root: u32,
    },
    /// Every rank gets its block of the root's input.
    Scatter {
        /// The root.
        root: u32,
    },
    /// Anything else.
    Custom {
        /// Its name.
        name: String,
        /// Input chunks of every rank.
        input_chunks: u32,
        /// Output chunks of every rank.
        output_chunks: u32,
        /// Pre- and post-condition, where they are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        contract: Option<Contract>,
    },
}

/// The pre- and post-condition of a custom collective.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Contract {
    /// Input slots that hold a value at the start.
    pub given: Vec<Slot>,
    /// What output slots must hold at the end; others may hold anything.
    pub promised: Vec<Promise>,
}

/// One slot of one rank's input or output.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Slot {
    /// The rank.
    pub rank: u32,
    /// The position in the buffer, in chunks.
    pub index: u32,
}

/// What one output slot must hold at the end.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Promise {
    /// The rank.
    pub rank: u32,
    /// The position in its output, in chunks.
    pub index: u32,
    /// The input slots whose values are summed, each as often as it counts.
    #[schemars(length(min = 1))]
    pub sum: Vec<Slot>,
}

/// Which calls an algorithm serves.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Placement {
    /// Input and output share memory.
    InPlace,
    /// Input and output are disjoint.
    OutOfPlace,
    /// Either.
    Both,
}

/// How a link's messages are laid out in memory.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) enum Protocol {
    /// Plain data, with a separate flag.
    Simple,
    /// Eight-byte packets, half data and half flag.
    #[serde(rename = "LL")]
    Ll,
    /// 128-byte packets, 120 bytes of data.
    #[serde(rename = "LL128")]
    Ll128,
}

/// Which message sizes an algorithm serves, both ends included.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sizes {
    /// Smallest size, in bytes.
    pub min_bytes: u64,
    /// Largest size, in bytes; without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// What one rank does.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rank")]
pub(super) struct Rank<B> {
    /// Size of the scratch buffer, in chunks.
    pub scratch_chunks: u32,
    /// The thread blocks.
    pub thread_blocks: B,
}

/// A sequence of steps on one channel, with the link ends it owns.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ThreadBlock")]
pub(super) struct ThreadBlock<S> {
    /// The channel of all its links.
    pub channel: u32,
    /// The ranks it sends to, ascending.
    pub sends: Vec<u32>,
    /// The ranks it receives from, ascending.
    pub receives: Vec<u32>,
    /// What it does, in order.
    pub steps: S,
}

/// One step: Σ sources → destinations, after waits. One without sources and destinations only
/// waits, and its count is 0.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// Steps of other thread blocks of the same rank that must have finished first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// What is read, in the order in which it is combined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Place>,
    /// Where the result goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<Place>,
    /// Chunks in every operand.
    pub count: u32,
}

/// What a step reads or writes.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    /// Slots of the rank's input, from this one on.
    Input(u32),
    /// Slots of the rank's output, from this one on.
    Output(u32),
    /// Slots of the rank's scratch, from this one on.
    Scratch(u32),
    /// The next message from, or to, this rank.
    Link(u32),
}

/// The end of a step of another thread block of the same rank.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    /// The thread block's position.
    pub tb: u32,
    /// The step's position in it.
    pub step: u32,
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(super::VERSION)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = u32::deserialize(deserializer)?;
        if found == super::VERSION {
            return Ok(Version);
        }
        let message = format!("expected version {}, found {found}", super::VERSION);
        Err(de::Error::custom(message))
    }
}

impl JsonSchema for Version {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "const": super::VERSION })
    }
}
