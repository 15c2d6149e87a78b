//! What the statements of a custom collective have said so far.

use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::{Contribution, Rank};
use msccl_syntax::Span;

use crate::chunk::Region;

/// What has been given and promised so far.
#[derive(Default)]
pub(super) struct Conditions {
    pub given: BTreeSet<Contribution>,
    pub promised: BTreeMap<(Rank, u32), Vec<Contribution>>,
    /// Where each promised region of inputs stands, to be checked when all is known that is given.
    pub used: Vec<(Region, Span)>,
    pub entries: u64,
}
