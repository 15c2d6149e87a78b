//! Whether the links of a call may leave out a copy.

use std::fmt;
use std::str::FromStr;

/// How links deliver what their senders have, as `docs/MEMORY.md` describes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Links {
    /// Through slots: the sender copies in, the receiver copies out.
    #[default]
    Staged,
    /// Straight from and to the buffers of callers, where that is proved sound and peers have mapped them;
    /// through slots elsewhere. Only under protocol Simple.
    Direct,
}

impl Links {
    /// Both.
    pub const ALL: [Links; 2] = [Links::Staged, Links::Direct];

    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Links::Staged => "staged",
            Links::Direct => "direct",
        }
    }
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Links {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Links::ALL.into_iter().find(|links| links.name() == text);
        found.ok_or_else(|| format!("expected links (staged, direct), found `{text}`"))
    }
}
