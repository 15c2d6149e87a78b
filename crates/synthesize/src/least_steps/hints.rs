//! From what a solver learnt to a proof with hints, without what the proof does not need.
//!
//! Each learnt clause follows from those before it by unit propagation. This does the propagation
//! and writes down which clauses it took. What is true without assumptions becomes a lemma of its
//! own, so that hints are short. Nothing here is trusted: [`super::lrat`] checks the result.

use super::cnf::{Cnf, Literal};
use super::lrat::Lemma;
use crate::time_limit::TimeLimit;

/// The proof that `learnt`, whose last clause is empty, gives; `None` if one clause does not follow
/// by unit propagation, or the time is over.
pub(super) fn proof(cnf: &Cnf, learnt: &[Vec<Literal>], limit: TimeLimit) -> Option<Vec<Lemma>> {
    let mut propagation = Propagation::new(cnf);
    propagation.settle();
    for clause in learnt {
        if propagation.is_refuted {
            break;
        }
        if limit.is_over() {
            return None;
        }
        propagation.learn(clause)?;
    }
    propagation.is_refuted.then(|| needed(cnf.clauses().len(), propagation.lemmas))
}

/// Clauses, and what follows from them.
struct Propagation {
    /// Those of the CNF, then lemmas. The first two literals of each are watched: while one of them
    /// is not false, or the other is true, nothing follows.
    clauses: Vec<Vec<Literal>>,
    /// By [`Literal::index`].
    watchers: Vec<Vec<u32>>,
    /// By [`Literal::index`].
    is_true: Vec<bool>,
    /// By variable, of literals that follow: the clause from which.
    reasons: Vec<Option<u32>>,
    /// What is true, in the order in which it was found.
    trail: Vec<Literal>,
    /// How much of `trail` has been propagated.
    done: usize,
    lemmas: Vec<Lemma>,
    /// Whether a lemma is empty.
    is_refuted: bool,
}

impl Propagation {
    fn new(cnf: &Cnf) -> Self {
        let literals = 2 * cnf.variables();
        let mut new = Self {
            clauses: Vec::new(),
            watchers: vec![Vec::new(); literals],
            is_true: vec![false; literals],
            reasons: vec![None; cnf.variables()],
            trail: Vec::new(),
            done: 0,
            lemmas: Vec::new(),
            is_refuted: false,
        };
        cnf.clauses().iter().for_each(|clause| new.watch(clause.clone()));
        for (place, clause) in (0..).zip(cnf.clauses()) {
            match **clause {
                [] => new.lemma(Vec::new(), vec![place]),
                [only] if !new.is_true[only.index()] => new.set_true(only, Some(place)),
                _ => {}
            }
        }
        new
    }

    fn is_false(&self, literal: Literal) -> bool {
        self.is_true[(!literal).index()]
    }

    fn set_true(&mut self, literal: Literal, reason: Option<u32>) {
        self.is_true[literal.index()] = true;
        self.reasons[literal.variable()] = reason;
        self.trail.push(literal);
    }

    /// Adds a clause; two of its literals that are not false are watched, if there are two.
    fn watch(&mut self, mut clause: Vec<Literal>) {
        clause.sort_by_key(|literal| self.is_false(*literal));
        let place = self.clauses.len() as u32;
        clause.iter().take(2).for_each(|literal| self.watchers[literal.index()].push(place));
        self.clauses.push(clause);
    }

    fn lemma(&mut self, literals: Vec<Literal>, hints: Vec<u32>) {
        self.is_refuted |= literals.is_empty();
        self.watch(literals.clone());
        self.lemmas.push(Lemma { literals, hints });
    }

    /// Adds a learnt clause and what follows from it; `None` if it does not follow.
    fn learn(&mut self, clause: &[Literal]) -> Option<()> {
        if clause.iter().any(|literal| self.is_true[literal.index()]) {
            return Some(());
        }
        let hints = self.hints(clause)?;
        self.lemma(clause.to_vec(), hints);
        let place = self.clauses.len() as u32 - 1;
        let added = &self.clauses[place as usize];
        if let Some(&first) = added.first()
            && added.get(1).is_none_or(|second| self.is_false(*second))
        {
            self.follows(first, place);
        }
        self.settle();
        Some(())
    }

    /// Propagates what is true without assumptions.
    fn settle(&mut self) {
        while !self.is_refuted {
            match self.next_consequence() {
                Some(Consequence::Literal { literal, reason }) => self.follows(literal, reason),
                Some(Consequence::Conflict { clause }) => {
                    let hints = self.units_of(clause, None);
                    self.lemma(Vec::new(), hints);
                }
                None => break,
            }
        }
    }

    /// `literal` is true by clause `reason`, the others of which are false without assumptions.
    fn follows(&mut self, literal: Literal, reason: u32) {
        if self.clauses[reason as usize].len() == 1 {
            return self.set_true(literal, Some(reason));
        }
        let hints = self.units_of(reason, Some(literal));
        self.lemma(vec![literal], hints);
        self.set_true(literal, Some(self.clauses.len() as u32 - 1));
    }

    /// The clauses of one literal that make all of `clause` but `except` false, then `clause`.
    fn units_of(&self, clause: u32, except: Option<Literal>) -> Vec<u32> {
        let others = self.clauses[clause as usize].iter().filter(|it| Some(**it) != except);
        let units = others.filter_map(|literal| self.reasons[literal.variable()]);
        units.chain(std::iter::once(clause)).collect()
    }

    /// The hints of a clause, none of whose literals is true; `None` if it does not follow.
    fn hints(&mut self, clause: &[Literal]) -> Option<Vec<u32>> {
        let settled = self.trail.len();
        for &literal in clause {
            if !self.is_false(literal) && !self.is_true[literal.index()] {
                self.set_true(!literal, None);
            }
        }
        let conflict = loop {
            match self.next_consequence() {
                Some(Consequence::Literal { literal, reason }) => {
                    self.set_true(literal, Some(reason));
                }
                Some(Consequence::Conflict { clause }) => break Some(clause),
                None => break None,
            }
        };
        let hints = conflict.map(|conflict| self.reasons_of(conflict, clause));
        for literal in self.trail.drain(settled..) {
            self.is_true[literal.index()] = false;
            self.reasons[literal.variable()] = None;
        }
        self.done = settled;
        hints
    }

    /// What led to `conflict`, in the order in which it was found, from the negation of `assumed`.
    fn reasons_of(&self, conflict: u32, assumed: &[Literal]) -> Vec<u32> {
        let mut is_used = vec![false; self.reasons.len()];
        let want = |clause: u32, is_used: &mut Vec<bool>| {
            let literals = self.clauses[clause as usize].iter();
            literals.for_each(|literal| is_used[literal.variable()] = true);
        };
        want(conflict, &mut is_used);
        let mut hints = vec![conflict];
        for literal in self.trail.iter().rev() {
            let reason = self.reasons[literal.variable()];
            let is_given = assumed.contains(&!*literal);
            if let (true, false, Some(reason)) = (is_used[literal.variable()], is_given, reason) {
                hints.push(reason);
                want(reason, &mut is_used);
            }
        }
        hints.reverse();
        hints
    }

    /// Something that is true, or cannot be, because of a literal that has not been propagated.
    fn next_consequence(&mut self) -> Option<Consequence> {
        while let Some(&literal) = self.trail.get(self.done) {
            let falsified = (!literal).index();
            let mut watching = std::mem::take(&mut self.watchers[falsified]);
            let mut at = 0;
            let mut found = None;
            while at < watching.len() && found.is_none() {
                let place = watching[at];
                match self.watch_another(place, !literal) {
                    Watched::Other => {
                        watching.swap_remove(at);
                    }
                    Watched::Same => at += 1,
                    Watched::Follows(consequence) => found = Some(consequence),
                }
            }
            self.watchers[falsified] = watching;
            if found.is_some() {
                return found;
            }
            self.done += 1;
        }
        None
    }

    /// `falsified`, which clause `place` watches, has become false.
    fn watch_another(&mut self, place: u32, falsified: Literal) -> Watched {
        let clause = &mut self.clauses[place as usize];
        if let [first, second, ..] = clause[..]
            && first == falsified
            && second != falsified
        {
            clause.swap(0, 1);
        }
        let kept = clause[0];
        if self.is_true[kept.index()] && kept != falsified {
            return Watched::Same;
        }
        let open = clause.iter().skip(2).position(|it| !self.is_true[(!*it).index()]);
        if let Some(open) = open {
            clause.swap(1, open + 2);
            let watched = clause[1];
            self.watchers[watched.index()].push(place);
            return Watched::Other;
        }
        let is_conflict = self.is_true[(!kept).index()];
        Watched::Follows(if is_conflict {
            Consequence::Conflict { clause: place }
        } else {
            Consequence::Literal { literal: kept, reason: place }
        })
    }
}

/// What follows.
enum Consequence {
    Literal { literal: Literal, reason: u32 },
    Conflict { clause: u32 },
}

/// What becomes of a watcher whose literal has become false.
enum Watched {
    Other,
    Same,
    Follows(Consequence),
}

/// The lemmas that the empty one needs, with `axioms` clauses before them.
fn needed(axioms: usize, lemmas: Vec<Lemma>) -> Vec<Lemma> {
    let mut is_needed = vec![false; lemmas.len()];
    if let Some(last) = lemmas.iter().position(|lemma| lemma.literals.is_empty()) {
        is_needed[last] = true;
    }
    for at in (0..lemmas.len()).rev() {
        if is_needed[at] {
            let places =
                lemmas[at].hints.iter().filter_map(|it| (*it as usize).checked_sub(axioms));
            places.for_each(|place| is_needed[place] = true);
        }
    }
    let mut place = axioms as u32;
    let mut places = Vec::new();
    for is_needed in &is_needed {
        places.push(place);
        place += u32::from(*is_needed);
    }
    let moved = |hint: u32| (hint as usize).checked_sub(axioms).map_or(hint, |at| places[at]);
    let kept = lemmas.into_iter().zip(&is_needed).filter(|(_, is_needed)| **is_needed);
    let kept = kept.map(|(lemma, _)| Lemma {
        literals: lemma.literals,
        hints: lemma.hints.into_iter().map(moved).collect(),
    });
    kept.collect()
}
