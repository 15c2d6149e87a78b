//! Proofs that clauses cannot be satisfied, and their check in linear time.
//!
//! A proof is a list of clauses, the last of which is empty. Each comes with hints: the places of
//! clauses before it, those of the CNF first. If one assumes that all literals of the clause are
//! false, each hint but the last has one literal left that is not false, which must then be true,
//! and the last hint has none. These are the additions of the format LRAT (Cruz-Filipe, Heule,
//! Hunt, Kaufmann, Schneider-Kamp, "Efficient certified RAT verification", 2017), without what it
//! has for RAT, and without deletions.

use super::cnf::{Cnf, Literal};
use crate::step_fault::ProofFault;

/// A clause that follows from those before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lemma {
    /// At least one of them is true.
    pub literals: Vec<Literal>,
    /// Places of clauses before it: first those of the CNF, then lemmas.
    pub hints: Vec<u32>,
}

/// Whether `lemmas` prove that `cnf` cannot be satisfied. It takes time linear in the literals that
/// the hints lead to.
///
/// # Errors
///
/// The first lemma that does not follow, or that none is empty.
pub fn check(cnf: &Cnf, lemmas: &[Lemma]) -> Result<(), ProofFault> {
    let mut values = FalseLiterals::new(cnf.variables());
    for (at, lemma) in lemmas.iter().enumerate() {
        let clause = |hint: usize| match hint.checked_sub(cnf.clauses().len()) {
            None => Some(&cnf.clauses()[hint]),
            Some(place) => lemmas[..at].get(place).map(|it| &it.literals),
        };
        if !values.refute(lemma, clause) {
            return Err(ProofFault::DoesNotFollow(at));
        }
        if lemma.literals.is_empty() {
            return Ok(());
        }
    }
    Err(ProofFault::NotEmpty)
}

/// Literals that are false, for one lemma at a time.
struct FalseLiterals {
    /// By [`Literal::index`]: the number of the lemma for which it was found false.
    is_false: Vec<u64>,
    lemma: u64,
}

impl FalseLiterals {
    fn new(variables: usize) -> Self {
        Self { is_false: vec![0; 2 * variables], lemma: 0 }
    }

    /// Whether the hints of `lemma` lead from the negation of its literals to a clause without any
    /// literal that could be true.
    fn refute<'a>(
        &mut self,
        lemma: &Lemma,
        clause: impl Fn(usize) -> Option<&'a Vec<Literal>>,
    ) -> bool {
        self.lemma += 1;
        if !lemma.literals.iter().all(|literal| self.set_false(*literal)) {
            return false;
        }
        for hint in &lemma.hints {
            let Some(clause) = clause(*hint as usize) else { return false };
            let mut open = clause.iter().filter(|literal| !self.is_false(**literal));
            match (open.next().copied(), open.next()) {
                (None, _) => return true,
                (Some(only), None) => {
                    self.set_false(!only);
                }
                (Some(_), Some(_)) => return false,
            }
        }
        false
    }

    fn is_false(&self, literal: Literal) -> bool {
        self.is_false[literal.index()] == self.lemma
    }

    /// `false` if there is no such variable.
    fn set_false(&mut self, literal: Literal) -> bool {
        let Some(place) = self.is_false.get_mut(literal.index()) else { return false };
        *place = self.lemma;
        true
    }
}
