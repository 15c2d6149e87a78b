//! In which order the promised sums are added.
//!
//! Expressions are compared with chunk numbers left out: a contribution becomes its rank, and two
//! sums are one if their summands are, the first two in either order. Every sum of the run is
//! looked at once, after its summands.

use rustc_hash::{FxHashMap, FxHashSet};

use super::expression::{Expressions, ValueId};
use super::promise::Verdict;
use super::symbols::End;
use crate::order::{AdditionOrder, AdditionOrders};

/// The orders of the promised sums at the end of a run whose result is right.
pub(super) fn of(end: &End, verdict: &Verdict) -> AdditionOrders {
    if verdict.completed.is_empty() {
        return AdditionOrders::NoSums;
    }
    let erased = Erased::of(&end.expressions);
    let orders: FxHashSet<_> = verdict.completed.iter().map(|&sum| erased.number(sum)).collect();
    match orders.iter().next() {
        Some(&only) if orders.len() == 1 => AdditionOrders::One(erased.order(only)),
        _ => AdditionOrders::Several(orders.len()),
    }
}

/// The number of an expression without chunk numbers: of a contribution its rank, then those of
/// sums, each after its summands.
type Number = u32;

/// The expressions of a run without chunk numbers.
struct Erased<'a> {
    expressions: &'a Expressions,
    /// Of each sum of the run.
    numbers: Vec<Number>,
    /// The summands of each sum.
    sums: Vec<Numbers>,
    known: FxHashMap<Numbers, Number>,
}

type Numbers = smallvec::SmallVec<[Number; 4]>;

impl<'a> Erased<'a> {
    fn of(expressions: &'a Expressions) -> Self {
        let mut erased = Self {
            expressions,
            numbers: Vec::new(),
            sums: Vec::new(),
            known: FxHashMap::default(),
        };
        for sum in expressions.sums() {
            let number = erased.add(expressions.summands(sum));
            erased.numbers.push(number);
        }
        erased
    }

    fn add(&mut self, summands: &[ValueId]) -> Number {
        let mut summands: Numbers = summands.iter().map(|&value| self.number(value)).collect();
        if let [first, second, ..] = summands.as_mut_slice()
            && first > second
        {
            std::mem::swap(first, second);
        }
        let next = self.expressions.ranks() + self.sums.len() as u32;
        let number = *self.known.entry(summands.clone()).or_insert(next);
        if number == next {
            self.sums.push(summands);
        }
        number
    }

    fn number(&self, value: ValueId) -> Number {
        match self.expressions.as_contribution(value) {
            Some(contribution) => contribution.rank.0,
            None => self.numbers[self.expressions.position(value)],
        }
    }

    /// The order of an expression: that of its summands first, as these have lower numbers.
    fn order(&self, whole: Number) -> AdditionOrder {
        let mut parts: FxHashMap<Number, AdditionOrder> = FxHashMap::default();
        for number in self.parts(whole) {
            let order = match self.summands(number) {
                None => AdditionOrder::rank(number),
                Some(summands) => {
                    AdditionOrder::sum(summands.iter().map(|part| parts[part].clone()).collect())
                }
            };
            parts.insert(number, order);
        }
        parts.remove(&whole).unwrap_or_else(|| AdditionOrder::rank(whole))
    }

    /// All parts of an expression, ascending.
    fn parts(&self, whole: Number) -> Vec<Number> {
        let mut found = FxHashSet::default();
        let mut open = vec![whole];
        while let Some(number) = open.pop() {
            if found.insert(number) {
                open.extend(self.summands(number).into_iter().flatten());
            }
        }
        let mut parts: Vec<_> = found.into_iter().collect();
        parts.sort_unstable();
        parts
    }

    fn summands(&self, number: Number) -> Option<&Numbers> {
        let position = number.checked_sub(self.expressions.ranks())?;
        self.sums.get(position as usize)
    }
}
