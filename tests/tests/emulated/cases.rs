//! Algorithms to run: the examples, compiled and proved.

use std::sync::OnceLock;

use msccl_collective::{Placement, Protocol};
use msccl_compiler::evaluate::Launch;
use msccl_ir::Target;
use msccl_plan::{Delivery, Plan};
use msccl_tests::example::{Example, examples};
use msccl_verify::{Verified, verify};

use crate::scenario::Offers;

pub fn proved(example: &Example, launch: &Launch, placement: Placement) -> Option<Verified> {
    let launch = Launch { placement: Some(placement), ..launch.clone() };
    let compiled = example.compile(&launch, &Target::native()).ok()?;
    verify(compiled.schedule.algorithm, &Target::native()).ok()
}

/// An example, compiled and proved.
pub struct Case {
    pub what: String,
    pub verified: Verified,
    pub in_place: bool,
}

impl Case {
    pub fn new(example: &Example, launch: &Launch, placement: Placement) -> Option<Self> {
        let what = format!("{} {launch:?} {placement:?}", example.name);
        let in_place = placement == Placement::InPlace;
        proved(example, launch, placement).map(|verified| Self { what, verified, in_place })
    }

    /// `few` elements, or `divided` where chunks must divide the count.
    pub fn count(&self, few: usize, divided: usize) -> usize {
        if self.verified.facts().serves_any_count { few } else { divided }
    }
}

/// Every example on three and four ranks, in and out of place, as far as links of `protocol` are
/// deep enough for it.
pub fn cases(protocol: Protocol) -> impl Iterator<Item = &'static Case> {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    let prove = || {
        let placements = [Placement::InPlace, Placement::OutOfPlace];
        let mut cases = Vec::new();
        for example in examples() {
            let launches = example.launches.iter();
            for launch in launches.filter(|it| it.ranks.is_some_and(|it| (3..=4).contains(&it))) {
                cases.extend(placements.iter().filter_map(|it| Case::new(&example, launch, *it)));
            }
        }
        cases
    };
    let fits = move |case: &&Case| {
        let verified = &case.verified;
        verified.target().link(protocol).depth >= verified.facts().least_link_depth
    };
    CASES.get_or_init(prove).iter().filter(fits)
}

/// The example of that name for `ranks` ranks.
pub fn named(name: &str, ranks: u32, placement: Placement) -> Verified {
    let examples = examples();
    let example = examples.iter().find(|example| example.name == name).unwrap();
    let launch = Launch { ranks: Some(ranks), ..Launch::default() };
    proved(example, &launch, placement).unwrap()
}

pub fn deliveries(verified: &Verified) -> Vec<Delivery> {
    let plans = Plan::all(verified).unwrap();
    let blocks = plans.iter().flat_map(|plan| &plan.program().thread_blocks);
    blocks.flat_map(|block| block.deliveries.clone()).collect()
}

pub const SEQUENCE: [Offers; 6] =
    [Offers::All, Offers::None, Offers::Off, Offers::Some, Offers::All, Offers::Some];
