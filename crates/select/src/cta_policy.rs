//! How much of a GPU its user leaves to collectives.

use std::fmt;

/// How many thread blocks calls may have: NCCL's `CTAPolicy`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CtaPolicy {
    /// As many as tables say.
    #[default]
    Default,
    /// None, where copy engines can carry the links.
    Zero,
}

impl fmt::Display for CtaPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CtaPolicy::Default => "default",
            CtaPolicy::Zero => "zero",
        })
    }
}
