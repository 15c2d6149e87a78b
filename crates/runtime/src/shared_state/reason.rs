//! Why a rank is in its state, as a text in the shared state.
//!
//! The first line is the call that cannot finish because of it, as the rank calls it; empty if the
//! reason speaks of none. All that follows is the reason in words.

use std::fmt;

/// Why a rank is in its state. `Display` gives the words.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reason {
    /// The call of which `words` say that it cannot finish, such as `call 41, allgather of 1024
    /// f32`.
    pub unfinished: Option<String>,
    /// For people; such as `r1 failed: out of memory; call 41, allgather of 1024 f32 cannot
    /// finish`.
    pub words: String,
}

impl Reason {
    pub(super) fn to_text(&self) -> String {
        let Self { unfinished, words } = self;
        format!("{}\n{words}", unfinished.as_deref().unwrap_or_default())
    }

    /// What [`Reason::to_text`] wrote, of which the end may be missing.
    pub(super) fn from_text(text: &str) -> Self {
        let (call, words) = text.split_once('\n').unwrap_or_default();
        let unfinished = (!call.is_empty()).then(|| call.to_owned());
        Self { unfinished, words: words.to_owned() }
    }
}

impl From<&str> for Reason {
    /// One that speaks of no call.
    fn from(words: &str) -> Self {
        Self { unfinished: None, words: words.to_owned() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_come_back() {
        for unfinished in [None, Some("call 1, allgather of 1 f32".to_owned())] {
            for words in ["", "enough", "r1 failed: two\nlines", "\n"] {
                let reason = Reason { unfinished: unfinished.clone(), words: words.to_owned() };
                assert_eq!(Reason::from_text(&reason.to_text()), reason);
            }
        }
        assert_eq!(Reason::from_text(""), Reason::default());
    }
}
