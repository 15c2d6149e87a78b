//! How much of a GPU calls may have, as the environment limits it.

use msccl_select::CtaPolicy;

use super::{Reader, variable};

/// What variables say about it; a configuration of a communicator counts where they say nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Budget {
    /// Most thread blocks of a call.
    pub blocks_max: Option<u32>,
    /// Whether multiprocessors are left alone.
    pub cta_policy: Option<CtaPolicy>,
}

impl Budget {
    /// What the variables of `reader` say. Ours comes before those of NCCL.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let multiprocessors: Option<u32> =
            reader.parse(&variable::SM_BUDGET, |text| text.parse().ok());
        Self {
            blocks_max: multiprocessors.filter(|most| *most > 0).or_else(|| ctas_max(reader)),
            cta_policy: match multiprocessors {
                Some(0) => Some(CtaPolicy::Zero),
                Some(_) | None => reader.parse(&variable::CTA_POLICY, cta_policy),
            },
        }
    }
}

/// By its name, or by the one that it had before.
fn ctas_max(reader: &mut Reader<'_>) -> Option<u32> {
    let older = reader.count(&variable::MAX_NCHANNELS);
    reader.count(&variable::MAX_CTAS).or(older)
}

/// By NCCL's numbers, or its names.
fn cta_policy(text: &str) -> Option<CtaPolicy> {
    match text.to_ascii_uppercase().as_str() {
        "0" | "1" | "DEFAULT" | "EFFICIENCY" => Some(CtaPolicy::Default),
        "2" | "3" | "ZERO" => Some(CtaPolicy::Zero),
        _ => None,
    }
}
