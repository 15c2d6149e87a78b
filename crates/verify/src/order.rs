//! In which order contributions are added.
//!
//! Floating-point addition is not associative, so the bits of a sum depend on the order of its
//! additions and on where a partial sum is rounded. An [`AdditionOrder`] is the expression of an
//! output with chunk numbers left out: its leaves are ranks, each inner node is a sum that is
//! rounded once, and the first two summands of a sum are not ordered, since addition is
//! commutative. `docs/VERIFICATION.md` ("The order of additions") says what follows from it.

use std::cmp::Ordering;
use std::fmt;

use msccl_collective::NamedOrder;
use msccl_ir::StepForm;

use crate::Verified;
use crate::refusal::{Fault, FaultKind};

/// In which orders an algorithm adds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdditionOrders {
    /// It promises no sum of two contributions or more.
    NoSums,
    /// Every promised sum on every rank, in every call that is served, is added in this order: the
    /// algorithm *adds in one order*.
    One(AdditionOrder),
    /// There are at least so many orders: which one counts depends on the chunk or on the call.
    Several(usize),
}

impl AdditionOrders {
    /// The one order, if the algorithm has one.
    pub fn one(&self) -> Option<&AdditionOrder> {
        match self {
            Self::One(order) => Some(order),
            Self::NoSums | Self::Several(_) => None,
        }
    }

    /// The orders of calls of which some are added as `self` says, and the others as `other`.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::NoSums, orders) | (orders, Self::NoSums) => orders,
            (Self::One(one), Self::One(other)) if one == other => Self::One(one),
            (Self::One(_), Self::One(_)) => Self::Several(2),
            (Self::Several(count), Self::One(_)) | (Self::One(_), Self::Several(count)) => {
                Self::Several(count)
            }
            (Self::Several(count), Self::Several(other)) => Self::Several(count.max(other)),
        }
    }
}

/// An order of additions that has a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OrderShape {
    /// One sum of all ranks, from the lowest to the highest, rounded once.
    Flat,
    /// A balanced binary tree: the lower part has the largest power of two of ranks that leaves
    /// some for the upper part, and each part is such a tree. Every sum of two is rounded.
    Tree,
    /// Flat and a tree: the sum of two ranks.
    FlatAndTree,
    /// Another order.
    Other,
}

impl OrderShape {
    /// `flat`, `tree`, `flat and tree` or `other`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Tree => "tree",
            Self::FlatAndTree => "flat and tree",
            Self::Other => "other",
        }
    }
}

/// The order in which contributions are added.
///
/// The text form writes each sum that is rounded as a group: `0+1+2` is rounded once, `(0+1)+2`
/// twice. Four consecutive ranks or more in a sum are shortened: `0+1+…+7`.
///
/// ```
/// use msccl_verify::{AdditionOrder, OrderShape};
///
/// assert_eq!(AdditionOrder::flat(8).to_string(), "0+1+…+7");
/// assert_eq!(AdditionOrder::tree(6).to_string(), "((0+1)+(2+3))+(4+5)");
/// assert_eq!(AdditionOrder::tree(2).shape(), OrderShape::FlatAndTree);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AdditionOrder {
    /// Each sum before its summands.
    terms: Vec<Term>,
}

/// A part of an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Term {
    Rank(u32),
    /// A sum of so many terms, which follow.
    Sum(u32),
}

impl AdditionOrder {
    /// All of `ranks` ranks (at least one), from the lowest to the highest, rounded once.
    pub fn flat(ranks: u32) -> Self {
        Self::sum((0..ranks).map(Self::rank).collect())
    }

    /// The balanced binary tree of `ranks` ranks (at least one).
    pub fn tree(ranks: u32) -> Self {
        Self::tree_of(0, ranks)
    }

    fn tree_of(first: u32, ranks: u32) -> Self {
        if ranks <= 1 {
            return Self::rank(first);
        }
        let lower = ranks.next_power_of_two() / 2;
        let upper = Self::tree_of(first + lower, ranks - lower);
        Self::sum(vec![Self::tree_of(first, lower), upper])
    }

    /// The contribution of a rank.
    pub(crate) fn rank(rank: u32) -> Self {
        Self { terms: vec![Term::Rank(rank)] }
    }

    /// The sum of `summands`, in that order but for the first two, rounded once.
    pub(crate) fn sum(mut summands: Vec<Self>) -> Self {
        if let [only] = &mut summands[..] {
            return Self { terms: std::mem::take(&mut only.terms) };
        }
        if let [first, second, ..] = &mut summands[..]
            && first.cmp(second) == Ordering::Greater
        {
            std::mem::swap(first, second);
        }
        let sum = Term::Sum(summands.len() as u32);
        let terms = summands.into_iter().flat_map(|summand| summand.terms);
        Self { terms: std::iter::once(sum).chain(terms).collect() }
    }

    /// Which of two summands is written first: the one whose ranks come first.
    fn cmp(&self, other: &Self) -> Ordering {
        self.ranks().cmp(other.ranks()).then_with(|| self.terms.cmp(&other.terms))
    }

    /// The ranks, in the order of the text.
    fn ranks(&self) -> impl Iterator<Item = u32> {
        self.terms.iter().filter_map(|term| match term {
            Term::Rank(rank) => Some(*rank),
            Term::Sum(_) => None,
        })
    }

    /// How many contributions there are.
    pub fn contributions(&self) -> u32 {
        self.ranks().count() as u32
    }

    /// Whether it has a name.
    pub fn shape(&self) -> OrderShape {
        let ranks = self.contributions();
        match (*self == Self::flat(ranks), *self == Self::tree(ranks)) {
            (true, true) => OrderShape::FlatAndTree,
            (true, false) => OrderShape::Flat,
            (false, true) => OrderShape::Tree,
            (false, false) => OrderShape::Other,
        }
    }

    /// Whether no partial sum is rounded.
    pub fn is_rounded_once(&self) -> bool {
        let sums = self.terms.iter().filter(|term| matches!(term, Term::Sum(_)));
        sums.count() == 1
    }
}

/// Most characters of an order in a message.
const MOST_IN_MESSAGE: usize = 64;

impl AdditionOrder {
    /// The order of that name over `ranks` ranks (at least one).
    pub fn named(name: NamedOrder, ranks: u32) -> Self {
        match name {
            NamedOrder::Flat => Self::flat(ranks),
            NamedOrder::Tree => Self::tree(ranks),
        }
    }

    /// The text form for messages: cut where it is long.
    pub fn short_text(&self) -> String {
        let text = self.to_string();
        match text.char_indices().nth(MOST_IN_MESSAGE) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }
}

/// What is wrong if the algorithm claims to add in the order `claimed`; nothing if it does so, or
/// adds nothing.
pub(crate) fn contradiction(verified: &Verified, claimed: NamedOrder) -> Option<Fault> {
    let expected = AdditionOrder::named(claimed, verified.algorithm().collective.ranks);
    let found = match &verified.facts().addition_orders {
        AdditionOrders::NoSums => return None,
        AdditionOrders::One(order) if *order == expected => return None,
        AdditionOrders::One(order) => format!("in the order {}", order.short_text()),
        AdditionOrders::Several(count) => format!("in {count} orders or more"),
    };
    let target = verified.target();
    let reason = match target.form {
        StepForm::Native => String::new(),
        StepForm::Msccl => format!(" (on target {target} every sum of two is rounded)"),
    };
    let expected = expected.short_text();
    let message =
        format!("the claimed order is {claimed}, {expected}, but it adds {found}{reason}");
    Some(Fault::new(FaultKind::Order, message))
}

/// Fewest consecutive ranks that are shortened.
const SHORTENED: usize = 4;

impl fmt::Display for AdditionOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Summands that are still to come, of each open sum.
        let mut open: Vec<u32> = Vec::new();
        let mut at = 0;
        while let Some(&term) = self.terms.get(at) {
            at += 1;
            match term {
                Term::Sum(summands) => {
                    if !open.is_empty() {
                        f.write_str("(")?;
                    }
                    open.push(summands);
                    continue;
                }
                Term::Rank(rank) => {
                    write!(f, "{rank}")?;
                    let most = open.last().map_or(1, |&left| left as usize);
                    let run = self.run(at - 1, most);
                    if run >= SHORTENED {
                        write!(f, "+{}+…", rank + 1)?;
                        // The last of the run is written as any other.
                        at += run - 2;
                        if let Some(left) = open.last_mut() {
                            *left -= run as u32 - 2;
                        }
                    }
                }
            }
            end_summand(f, &mut open)?;
        }
        Ok(())
    }
}

impl AdditionOrder {
    /// How many of the next `most` terms from `start` are consecutive ranks.
    fn run(&self, start: usize, most: usize) -> usize {
        let terms = &self.terms[start..];
        let pairs = terms.windows(2).take(most.saturating_sub(1));
        let follows = |pair: &&[Term]| match pair {
            [Term::Rank(rank), Term::Rank(next)] => rank + 1 == *next,
            _ => false,
        };
        1 + pairs.take_while(follows).count()
    }
}

/// Writes what stands behind a summand: a plus, or the ends of the sums that it ends.
fn end_summand(f: &mut fmt::Formatter<'_>, open: &mut Vec<u32>) -> fmt::Result {
    while let Some(left) = open.last_mut() {
        *left -= 1;
        if *left > 0 {
            return f.write_str("+");
        }
        open.pop();
        if !open.is_empty() {
            f.write_str(")")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u32) -> AdditionOrder {
        AdditionOrder::rank(rank)
    }

    fn sum<const N: usize>(summands: [AdditionOrder; N]) -> AdditionOrder {
        AdditionOrder::sum(summands.to_vec())
    }

    #[test]
    fn each_group_of_the_text_is_rounded_once() {
        let check = |order: AdditionOrder, text: &str| assert_eq!(order.to_string(), text);
        check(rank(3), "3");
        check(sum([rank(0), rank(1)]), "0+1");
        check(sum([sum([rank(0), rank(1)]), rank(2)]), "(0+1)+2");
        check(sum([rank(0), rank(1), sum([rank(2), rank(3)])]), "0+1+(2+3)");
        check(AdditionOrder::tree(8), "((0+1)+(2+3))+((4+5)+(6+7))");
        check(AdditionOrder::tree(5), "((0+1)+(2+3))+4");
    }

    #[test]
    fn four_consecutive_ranks_of_a_sum_are_shortened() {
        let check = |order: AdditionOrder, text: &str| assert_eq!(order.to_string(), text);
        check(AdditionOrder::flat(3), "0+1+2");
        check(AdditionOrder::flat(4), "0+1+…+3");
        check(AdditionOrder::flat(16), "0+1+…+15");
        check(sum([AdditionOrder::flat(4), AdditionOrder::flat(2)]), "(0+1)+(0+1+…+3)");
        let later: Vec<_> = [7, 0, 1, 2, 3, 5].map(rank).into_iter().collect();
        check(AdditionOrder::sum(later), "0+7+1+2+3+5");
        let later: Vec<_> = [0, 7, 1, 2, 3, 4].map(rank).into_iter().collect();
        check(AdditionOrder::sum(later), "0+7+1+2+…+4");
        // The ranks of two sums are not one run.
        check(sum([sum([rank(0), rank(1)]), rank(2), rank(3), rank(4)]), "(0+1)+2+3+4");
        check(sum([rank(0), rank(1), rank(2), sum([rank(3), rank(4)])]), "0+1+2+(3+4)");
    }

    #[test]
    fn only_the_first_two_summands_commute() {
        assert_eq!(sum([rank(1), rank(0)]), sum([rank(0), rank(1)]));
        assert_eq!(sum([rank(1), rank(0), rank(2)]), AdditionOrder::flat(3));
        assert_ne!(sum([rank(0), rank(2), rank(1)]), AdditionOrder::flat(3));
        let upper = sum([rank(2), rank(3)]);
        assert_eq!(sum([upper.clone(), sum([rank(1), rank(0)])]), AdditionOrder::tree(4));
        assert_eq!(sum([upper, rank(0)]).to_string(), "0+(2+3)");
    }

    #[test]
    fn shapes_have_names() {
        let shapes = [1, 2, 3, 8]
            .map(|ranks| (AdditionOrder::flat(ranks).shape(), AdditionOrder::tree(ranks).shape()));
        let (both, apart) = (OrderShape::FlatAndTree, (OrderShape::Flat, OrderShape::Tree));
        assert_eq!(shapes, [(both, both), (both, both), apart, apart]);
        assert_eq!(sum([rank(0), sum([rank(1), rank(2)])]).shape(), OrderShape::Other);
        assert!(AdditionOrder::flat(9).is_rounded_once());
        assert!(!AdditionOrder::tree(3).is_rounded_once());
    }

    #[test]
    fn calls_with_different_orders_have_several() {
        let one = |order| AdditionOrders::One(order);
        let (flat, tree) = (one(AdditionOrder::flat(4)), one(AdditionOrder::tree(4)));
        assert_eq!(flat.clone().and(flat.clone()), flat);
        assert_eq!(AdditionOrders::NoSums.and(flat.clone()), flat);
        assert_eq!(flat.clone().and(tree), AdditionOrders::Several(2));
        assert_eq!(AdditionOrders::Several(3).and(flat), AdditionOrders::Several(3));
    }
}
