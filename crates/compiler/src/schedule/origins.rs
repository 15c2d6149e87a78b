//! From the steps of an algorithm back to the statements of its program.

use msccl_ir::StepRef;
use msccl_syntax::Diagnostic;

use crate::chunk::{Origin, StatementId};

/// Which statement each step came from.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// By rank, thread block, step.
    pub(super) statements: Vec<Vec<Vec<StatementId>>>,
    pub(super) table: Vec<Origin>,
}

impl Origins {
    /// The statement that requested the step at `at`, if there is such a step.
    pub fn of(&self, at: StepRef) -> Option<&Origin> {
        let block = self.statements.get(at.rank.index())?.get(at.tb.index())?;
        self.table.get(block.get(at.step.index())?.0 as usize)
    }

    /// What a program has to do with `message`, which is about the steps at `at`, the principal one
    /// first: the statements that became these steps, and the calls that led there. None if no
    /// step came from a statement.
    pub fn explain(&self, message: &str, at: &[StepRef]) -> Option<Diagnostic> {
        let mut places = at.iter().filter_map(|&step| Some((step, self.of(step)?)));
        let (step, origin) = places.next()?;
        let principal = Diagnostic::error(origin.span, message).saying(format!("became {step}"));
        let calls = origin.called_from.iter();
        let mut diagnostic =
            calls.fold(principal, |shown, call| shown.label(*call, "called from here"));
        let mut shown = vec![origin.span];
        for (step, origin) in places {
            if !shown.contains(&origin.span) {
                shown.push(origin.span);
                diagnostic = diagnostic.label(origin.span, format!("became {step}"));
            }
        }
        Some(diagnostic)
    }
}
