//! Clauses of literals, as solvers and proofs have them.

use std::ops::Not;

/// A variable or its negation. Variables are numbered from 1, and a negation has the negative
/// number, as in the DIMACS format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Literal(i32);

impl Literal {
    /// The literal of that number, which is not 0.
    pub fn from_number(number: i32) -> Option<Self> {
        (number != 0 && number != i32::MIN).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Its variable, from 0.
    pub fn variable(self) -> usize {
        self.0.unsigned_abs() as usize - 1
    }

    /// Whether it is the variable itself.
    pub fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// Different for every literal, from 0.
    pub fn index(self) -> usize {
        2 * self.variable() + usize::from(!self.is_positive())
    }
}

impl Not for Literal {
    type Output = Self;

    fn not(self) -> Self {
        Self(-self.0)
    }
}

/// A conjunction of clauses, each of which is a disjunction of literals.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cnf {
    variables: u32,
    clauses: Vec<Vec<Literal>>,
}

impl Cnf {
    /// A variable that no clause has.
    pub fn fresh(&mut self) -> Literal {
        self.variables += 1;
        Literal(self.variables as i32)
    }

    /// At least one of `literals`.
    pub fn add(&mut self, literals: impl IntoIterator<Item = Literal>) {
        self.clauses.push(literals.into_iter().collect());
    }

    /// At most `limit`, 1 or more, of `literals`: a counter that is passed on from literal to
    /// literal, by Sinz, "Towards an optimal CNF encoding of Boolean cardinality constraints",
    /// 2005.
    pub fn at_most(&mut self, limit: usize, literals: &[Literal]) {
        if literals.len() <= limit {
            return;
        }
        let mut counted: Vec<Literal> = Vec::new();
        for (at, &literal) in literals.iter().enumerate() {
            if let (Some(&full), true) = (counted.last(), counted.len() == limit) {
                self.add([!literal, !full]);
            }
            if at + 1 == literals.len() {
                break;
            }
            let next: Vec<Literal> = (0..limit.min(at + 1)).map(|_| self.fresh()).collect();
            // `next[n]`: at least n + 1 of those so far.
            for (n, &more) in next.iter().enumerate() {
                if let Some(&before) = counted.get(n) {
                    self.add([!before, more]);
                }
                match n.checked_sub(1).and_then(|n| counted.get(n)) {
                    Some(&before) => self.add([!literal, !before, more]),
                    None if n == 0 => self.add([!literal, more]),
                    None => {}
                }
            }
            counted = next;
        }
    }

    /// How many variables there are.
    pub fn variables(&self) -> usize {
        self.variables as usize
    }

    /// The clauses.
    pub fn clauses(&self) -> &[Vec<Literal>] {
        &self.clauses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether values of the first variables can be completed so that all clauses hold.
    fn can_hold(cnf: &Cnf, first: &[bool]) -> bool {
        let free = cnf.variables() - first.len();
        (0..1_u32 << free).any(|values| {
            let value = |variable: usize| match first.get(variable) {
                Some(value) => *value,
                None => values >> (variable - first.len()) & 1 == 1,
            };
            let holds = |literal: &Literal| value(literal.variable()) == literal.is_positive();
            cnf.clauses().iter().all(|clause| clause.iter().any(holds))
        })
    }

    #[test]
    fn at_most_counts() {
        for (count, limit) in [(1, 1), (3, 1), (4, 1), (4, 2), (5, 3), (3, 3)] {
            let mut cnf = Cnf::default();
            let literals: Vec<Literal> = (0..count).map(|_| cnf.fresh()).collect();
            cnf.at_most(limit, &literals);
            for set in 0..1_u32 << count {
                let first: Vec<bool> = (0..count).map(|at| set >> at & 1 == 1).collect();
                let expected = set.count_ones() as usize <= limit;
                assert_eq!(can_hold(&cnf, &first), expected, "{limit} of {first:?}");
            }
        }
    }
}
