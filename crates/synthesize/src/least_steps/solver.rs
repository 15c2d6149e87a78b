//! The search for a solution of clauses, by batsat, and what it learnt on the way.

use batsat::{Callbacks, ClauseKind, Lit, Solver, SolverInterface, SolverOpts, Var, lbool};

use super::cnf::{Cnf, Literal};
use crate::time_limit::TimeLimit;

/// What the search found.
pub(super) enum Answer {
    /// Values of the variables with which all clauses hold.
    Solution(Vec<bool>),
    /// There are none. Each of these clauses follows from those before it by unit propagation, and
    /// the last one is empty.
    None(Vec<Vec<Literal>>),
    /// The time was over.
    TimeOver,
}

/// Values with which all clauses of `cnf` hold.
pub(super) fn solve(cnf: &Cnf, limit: TimeLimit) -> Answer {
    let recorder = Recorder { limit, learnt: Vec::new() };
    let mut solver = Solver::new(SolverOpts::default(), recorder);
    let variables: Vec<Var> = (0..cnf.variables()).map(|_| solver.new_var_default()).collect();
    let foreign = |it: &Literal| Lit::new(variables[it.variable()], it.is_positive());
    let mut is_possible = true;
    for clause in cnf.clauses() {
        let mut literals: Vec<Lit> = clause.iter().map(foreign).collect();
        is_possible &= solver.add_clause_reuse(&mut literals);
    }
    let result = if is_possible { solver.solve_limited(&[]) } else { lbool::FALSE };
    if result == lbool::TRUE {
        let model = solver.get_model();
        return Answer::Solution(model.iter().map(|value| *value == lbool::TRUE).collect());
    }
    if result != lbool::FALSE {
        return Answer::TimeOver;
    }
    let mut learnt = std::mem::take(&mut solver.cb_mut().learnt);
    if learnt.last().is_none_or(|clause| !clause.is_empty()) {
        learnt.push(Vec::new());
    }
    Answer::None(learnt)
}

/// Takes each clause that the solver learns.
struct Recorder {
    limit: TimeLimit,
    learnt: Vec<Vec<Literal>>,
}

impl Callbacks for Recorder {
    fn on_new_clause(&mut self, clause: &[Lit], kind: ClauseKind) {
        if kind == ClauseKind::Learnt {
            self.learnt.push(clause.iter().filter_map(|it| own(*it)).collect());
        }
    }

    fn stop(&self) -> bool {
        self.limit.is_over()
    }
}

fn own(literal: Lit) -> Option<Literal> {
    let number = literal.var().idx() as i32 + 1;
    Literal::from_number(if literal.sign() { number } else { -number })
}
