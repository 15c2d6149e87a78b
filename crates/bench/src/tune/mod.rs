//! Which candidate is best for a call on this machine: measured, and written as a tuning table.
//!
//! Where no machine is at hand, [`estimate()`] takes times of the cost model in place of
//! measurements.
//!
//! Reading order: [`measure()`] asks our library for every candidate for calls of a size
//! ([`msccl_runtime::Choice`]) and times them, and looks closer where the best changes; [`Data`] is
//! all that was measured, and can be kept; [`decide()`] makes ranges of sizes with a choice each
//! out of it, by a [`Rule`], [`table()`] the rows of a tuning table, [`report()`] a text and
//! [`picture()`] a picture.
//!
//! # Guarantees
//!
//! * What is chosen for a size was measured at that size, and its result there was right in every
//!   element. A choice with a wrong result anywhere is disqualified everywhere, and the run is not
//!   good.
//! * What was measured is what was named: the library fails rather than serve a call otherwise.
//! * The same data gives the same table and report.
//!
//! Not guaranteed: that nothing else is faster. Ways are tried as the runtime lists them, and most
//! are looked at only briefly, or not at all at sizes between two at which everything is tried.

mod boundaries;
mod budget;
mod candidates;
mod columns;
mod comparison;
mod data;
mod decide;
mod estimate;
mod measure;
mod picture;
mod report;
mod rule;
#[cfg(test)]
mod sample_data;
mod slower;
mod table;

pub use data::{CandidateTimes, Data, Floor, TunePoint};
pub use decide::{Decision, decide};
pub use estimate::{EstimatePlan, estimate};
pub use measure::{TuneObserver, TunePlan, measure};
pub use picture::picture;
pub use report::report;
pub use rule::Rule;
pub use table::{remarks, table};
