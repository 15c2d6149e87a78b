//! From the steps of an algorithm back to the statements of its program.

use msccl_ir::StepRef;
use msccl_syntax::{Diagnostic, FileId, SourceMap};

use crate::chunk::{Origin, StatementId};

/// Which statement each step came from.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// By rank, thread block, step.
    pub(super) statements: Vec<Vec<Vec<StatementId>>>,
    pub(super) table: Vec<Origin>,
}

/// The line of each step in the text of its program.
#[derive(Clone, Debug)]
pub struct SourceLines {
    /// The name of the text.
    pub name: String,
    /// By rank, thread block, step.
    statements: Vec<Vec<Vec<StatementId>>>,
    /// By statement; none if nothing of it stands in the text.
    lines: Vec<Option<u32>>,
}

impl SourceLines {
    /// The line of the step at `at`, from 1, if there is such a step and it has one.
    pub fn line(&self, at: StepRef) -> Option<u32> {
        let block = self.statements.get(at.rank.index())?.get(at.tb.index())?;
        *self.lines.get(block.get(at.step.index())?.0 as usize)?
    }
}

impl Origins {
    /// The lines of all steps in `file` of `sources`. A statement of another file, such as one of
    /// the standard library, has the line of the call in `file` that led to it.
    pub fn into_lines(self, sources: &SourceMap, file: FileId) -> SourceLines {
        let Self { statements, table } = self;
        let line = |origin: &Origin| {
            let mut spans = std::iter::once(&origin.span).chain(&origin.called_from);
            let span = spans.find(|span| span.file == file)?;
            Some(sources.line_column(*span).line)
        };
        let lines = table.iter().map(line).collect();
        SourceLines { name: sources.name(file).to_owned(), statements, lines }
    }

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
