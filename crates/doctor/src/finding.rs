//! What is said of a machine.

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It works.
    Good,
    /// Worth knowing; nothing is wrong.
    Note,
    /// It works, and is slower than it could be.
    Slow,
    /// It does not work.
    Fails,
}

impl Severity {
    /// All of them, the gravest first.
    pub const ALL: [Severity; 4] =
        [Severity::Fails, Severity::Slow, Severity::Note, Severity::Good];

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Good => "good",
            Severity::Note => "note",
            Severity::Slow => "slow",
            Severity::Fails => "fails",
        }
    }
}

/// What a finding is about; programs distinguish findings by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// The driver, and whether there is a GPU.
    Gpu,
    /// Whether GPUs can map one another's memory.
    PeerAccess,
    /// Interfaces and RDMA devices.
    Network,
    /// `/dev/shm`.
    SharedMemory,
    /// What the system allows a process.
    Limits,
    /// Python and its packages.
    Python,
    /// Which `libnccl.so.2` a process loads.
    Library,
    /// More than one library where one should be.
    TwoLibraries,
    /// Variables.
    Variable,
}

/// One thing that is said of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about.
    pub topic: Topic,
    /// What was found, and what follows from it, in one sentence or two.
    pub message: String,
    /// What to do, if there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// Something about which nothing needs to be done.
    pub(crate) fn new(severity: Severity, topic: Topic, message: impl Into<String>) -> Self {
        Self { severity, topic, message: message.into(), advice: None }
    }

    /// The same, with what to do.
    pub(crate) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}
