//! Values as a directed graph of sums, each expression stored once.
//!
//! Two expressions are the same value number exactly if they are the same tree up to swapping the
//! first two summands of a sum, which no rounding can distinguish. Equality of numbers is therefore
//! exact; hashing only finds candidates.

use msccl_collective::{Collective, Contribution, Rank};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The number of a value. Contributions come first, in the order of ranks and input chunks; then
/// sums, each after its summands; the highest number stands for "never written".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct ValueId(u32);

impl ValueId {
    /// What a slot holds before anybody writes it.
    pub(super) const UNWRITTEN: ValueId = ValueId(u32::MAX);
}

/// The summands of a sum under way.
pub(super) type Summands = SmallVec<[ValueId; 4]>;

/// All values of one run.
pub(super) struct Expressions {
    /// The first contribution of every rank, and the number of all.
    first_of_rank: Vec<u32>,
    sums: Vec<SumTerm>,
    /// Summands of sums of more than two.
    longer: Vec<ValueId>,
    /// Sums of two, by both as one number: most sums are such, and every one of them is looked for
    /// once.
    pairs: FxHashMap<u64, ValueId>,
    long_sums: FxHashMap<Summands, ValueId>,
}

/// A sum, and how many contributions it has, counted with multiplicity.
#[derive(Clone, Copy)]
struct SumTerm {
    shape: Shape,
    leaves: u32,
}

#[derive(Clone, Copy)]
enum Shape {
    Pair([ValueId; 2]),
    Longer { start: u32, length: u32 },
}

impl Expressions {
    pub(super) fn new(collective: &Collective) -> Self {
        let mut first_of_rank = vec![0];
        let mut contributions = 0;
        for rank in collective.all_ranks() {
            contributions += collective.input_chunks(rank);
            first_of_rank.push(contributions);
        }
        Self {
            first_of_rank,
            sums: Vec::new(),
            longer: Vec::new(),
            pairs: FxHashMap::default(),
            long_sums: FxHashMap::default(),
        }
    }

    /// The value of an input slot at the start.
    pub(super) fn contribution(&self, contribution: Contribution) -> ValueId {
        ValueId(self.first_of_rank[contribution.rank.index()] + contribution.index)
    }

    /// The value of `summands` (at least one), combined in that order and rounded once.
    pub(super) fn sum(&mut self, mut summands: Summands) -> ValueId {
        if summands.contains(&ValueId::UNWRITTEN) {
            return ValueId::UNWRITTEN;
        }
        if let [first, second, ..] = summands.as_mut_slice()
            && first > second
        {
            std::mem::swap(first, second);
        }
        match summands.as_slice() {
            [only] => *only,
            &[first, second] => self.pair(first, second),
            _ => self.long_sum(summands),
        }
    }

    fn pair(&mut self, first: ValueId, second: ValueId) -> ValueId {
        let next = self.next();
        let both = u64::from(first.0) << 32 | u64::from(second.0);
        let id = *self.pairs.entry(both).or_insert(next);
        if id == next {
            self.push(Shape::Pair([first, second]));
        }
        id
    }

    fn long_sum(&mut self, summands: Summands) -> ValueId {
        if let Some(&known) = self.long_sums.get(&summands) {
            return known;
        }
        let (start, length) = (self.longer.len() as u32, summands.len() as u32);
        self.longer.extend_from_slice(&summands);
        let id = self.push(Shape::Longer { start, length });
        self.long_sums.insert(summands, id);
        id
    }

    /// The number of the next new sum.
    fn next(&self) -> ValueId {
        ValueId(self.contributions() + self.sums.len() as u32)
    }

    fn push(&mut self, shape: Shape) -> ValueId {
        let id = self.next();
        self.sums.push(SumTerm { shape, leaves: 0 });
        let summands = self.summands(id).iter();
        let leaves = summands.fold(0u32, |sum, &summand| sum.saturating_add(self.leaves(summand)));
        if let Some(sum) = self.sums.last_mut() {
            sum.leaves = leaves;
        }
        id
    }

    /// How many contributions the value combines, counted with multiplicity, up to `u32::MAX`.
    pub(super) fn leaves(&self, value: ValueId) -> u32 {
        self.sum_of(value).map_or(1, |sum| sum.leaves)
    }

    /// What the value is the sum of; empty for a contribution and for what was never written.
    pub(super) fn summands(&self, value: ValueId) -> &[ValueId] {
        match self.sum_of(value) {
            None => &[],
            Some(SumTerm { shape: Shape::Pair(pair), .. }) => pair,
            Some(SumTerm { shape: Shape::Longer { start, length }, .. }) => {
                &self.longer[*start as usize..][..*length as usize]
            }
        }
    }

    /// The contribution that the value is, unless it is a sum or was never written.
    pub(super) fn as_contribution(&self, value: ValueId) -> Option<Contribution> {
        if value.0 >= self.contributions() {
            return None;
        }
        let rank = self.first_of_rank.partition_point(|&first| first <= value.0) - 1;
        let index = value.0 - self.first_of_rank[rank];
        Some(Contribution { rank: Rank::from(rank), index })
    }

    /// The first `most` contributions of the value, with multiplicity, and whether those are all.
    pub(super) fn expand(&self, value: ValueId, most: usize) -> (Vec<Contribution>, bool) {
        let mut found = Vec::new();
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            if found.len() == most {
                return (found, false);
            }
            found.extend(self.as_contribution(value));
            open.extend(self.summands(value));
        }
        (found, true)
    }

    /// How many ranks there are.
    pub(super) fn ranks(&self) -> u32 {
        self.first_of_rank.len() as u32 - 1
    }

    /// All sums, each after its summands.
    pub(super) fn sums(&self) -> impl Iterator<Item = ValueId> {
        (self.contributions()..self.next().0).map(ValueId)
    }

    /// The position of a sum among all.
    pub(super) fn position(&self, sum: ValueId) -> usize {
        (sum.0 - self.contributions()) as usize
    }

    fn contributions(&self) -> u32 {
        self.first_of_rank.last().copied().unwrap_or(0)
    }

    fn sum_of(&self, value: ValueId) -> Option<&SumTerm> {
        let position = value.0.checked_sub(self.contributions())?;
        self.sums.get(position as usize)
    }
}
