//! The table of decisions: what serves which sizes.

use std::ops::RangeInclusive;

use msccl_collective::{Collective, Kind};
use msccl_runtime::{PreferenceReason, ServiceSummary};
use msccl_verify::AdditionOrders;

use super::{Explained, Library};
use crate::size::ByteSize;

/// The sizes in question are powers of two: these.
const POWERS: RangeInclusive<u32> = 10..=30;

/// What serves some sizes that follow one another.
pub struct Decision {
    /// Of which collective.
    pub collective: Collective,
    /// The smallest of these sizes.
    pub from: ByteSize,
    /// The largest of them.
    pub to: ByteSize,
    /// What serves them; `None` if nothing does.
    pub choice: Option<Choice>,
}

/// What serves, and how.
pub struct Choice {
    /// Its name.
    pub algorithm: String,
    /// Whether it was loaded.
    pub loaded: bool,
    /// Why it is preferred, in a call of the smallest of the sizes.
    pub basis: PreferenceReason,
    /// How, in a call of the smallest of the sizes.
    pub service: ServiceSummary,
    /// In which orders it adds, if that is known.
    pub orders: Option<AdditionOrders>,
}

impl Choice {
    /// Whether they are the same but for rounds, which change with every size, and the kernel,
    /// which the table does not name.
    fn is_like(&self, other: &Choice) -> bool {
        let Choice { algorithm, loaded: _, basis, service, orders: _ } = other;
        let ServiceSummary { rounds, kernel, .. } = self.service;
        let service = ServiceSummary { rounds, kernel, ..*service };
        self.algorithm == *algorithm && self.basis == *basis && self.service == service
    }
}

/// What serves every size of every kind.
pub fn of(library: &Library, kinds: &[Kind]) -> Vec<Decision> {
    let mut decisions: Vec<Decision> = Vec::new();
    for kind in kinds {
        for size in POWERS.map(|power| ByteSize(1 << power)) {
            let next = Decision::of(library, &library.call(kind, size), size);
            match decisions.last_mut().filter(|last| last.continues(&next)) {
                Some(last) => last.to = size,
                None => decisions.push(next),
            }
        }
    }
    decisions
}

impl Decision {
    /// `size` is what was requested, before it was rounded up to whole elements.
    fn of(library: &Library, explained: &Explained, size: ByteSize) -> Self {
        let choice = explained.served().map(|(alternative, service)| Choice {
            algorithm: alternative.name.clone(),
            loaded: alternative.loaded,
            basis: alternative.basis.clone(),
            service,
            orders: library.addition_orders(&explained.collective, alternative),
        });
        let collective = explained.collective.clone();
        Self { collective, from: size, to: size, choice }
    }

    fn continues(&self, next: &Decision) -> bool {
        let alike = match (&self.choice, &next.choice) {
            (Some(one), Some(other)) => one.is_like(other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        alike && self.collective == next.collective
    }
}
