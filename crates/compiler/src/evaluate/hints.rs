//! Numbers for distinct placement hints.

use rustc_hash::FxHashMap;

use crate::chunk::{Hints, HintsId};

/// All hints used, each once; number 0 is "no hints".
pub(super) struct HintTable {
    all: Vec<Hints>,
    numbers: FxHashMap<Hints, HintsId>,
    latest: (Hints, HintsId),
}

impl Default for HintTable {
    fn default() -> Self {
        let none = (Hints::default(), HintsId(0));
        Self { all: vec![none.0], numbers: FxHashMap::from_iter([none]), latest: none }
    }
}

impl HintTable {
    /// The number of `hints`.
    #[inline]
    pub fn number(&mut self, hints: Hints) -> HintsId {
        if self.latest.0 != hints {
            let number = *self.numbers.entry(hints).or_insert_with(|| {
                self.all.push(hints);
                HintsId(self.all.len() as u32 - 1)
            });
            self.latest = (hints, number);
        }
        self.latest.1
    }

    pub fn into_hints(self) -> Vec<Hints> {
        self.all
    }
}
