//! Findings as diagnostics of the protocol.
//!
//! The principal place of a finding may lie in another file than the text in question: a module of
//! the standard library, or a file that is imported. Then it stands at the call or the import that
//! leads there, with the other file's place beside it.

use lsp_types::{
    Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Range,
};
use msccl_syntax::{FileId, Label, Severity, SourceMap, Span, parse};
use serde_json::json;

use crate::judgement::{Finding, Judgement, Place};
use crate::line_index::LineIndex;
use crate::workspace::Workspace;

/// What stands at the end of a place in words of the compiler's.
const SOURCE: &str = "msccl";

/// The diagnostics of a judgement, at places of the text in question.
pub fn of_judgement(judgement: &Judgement, workspace: &Workspace) -> Vec<Diagnostic> {
    let places = Places { judgement, workspace };
    judgement.findings.iter().map(|finding| places.diagnostic(finding)).collect()
}

struct Places<'a> {
    judgement: &'a Judgement,
    workspace: &'a Workspace,
}

impl Places<'_> {
    fn diagnostic(&self, finding: &Finding) -> Diagnostic {
        let Finding { diagnostic, code, events, launch } = finding;
        let msccl_syntax::Diagnostic { severity, message, labels, hints } = diagnostic;
        let principal = labels.first();
        let shown = labels.iter().find(|label| label.span.file == self.judgement.file);
        let range = match shown {
            Some(label) => self.range(label.span),
            None => self.import_of(principal.map(|label| label.span.file)),
        };
        let here = shown.map(|label| label.span);
        let others = labels.iter().filter(|label| Some(label.span) != here);
        let related: Vec<_> = others
            .filter_map(|label| self.label(label, message))
            .chain(events.iter().filter_map(|event| self.event(event)))
            .collect();
        let words = principal.map(|label| label.text.as_str()).unwrap_or_default();
        Diagnostic {
            range,
            severity: Some(match severity {
                Severity::Error => DiagnosticSeverity::ERROR,
                Severity::Warning => DiagnosticSeverity::WARNING,
            }),
            code: Some(NumberOrString::String((*code).to_owned())),
            code_description: None,
            source: Some(SOURCE.to_owned()),
            message: text(message, words, hints, launch.as_deref()),
            related_information: Some(related).filter(|related| !related.is_empty()),
            tags: None,
            data: Some(json!({ "message": message, "hints": hints })),
        }
    }

    fn sources(&self) -> &SourceMap {
        &self.judgement.sources
    }

    fn range(&self, span: Span) -> Range {
        let text = self.sources().text(span.file);
        LineIndex::new(text).range(text, span)
    }

    fn location(&self, span: Span) -> Option<Location> {
        let uri = self.workspace.uri(self.sources().name(span.file))?;
        Some(Location { uri, range: self.range(span) })
    }

    fn label(&self, label: &Label, message: &str) -> Option<DiagnosticRelatedInformation> {
        let location = self.location(label.span)?;
        let text = if label.text.is_empty() { message } else { &label.text };
        Some(DiagnosticRelatedInformation { location, message: text.to_owned() })
    }

    fn event(&self, event: &Place) -> Option<DiagnosticRelatedInformation> {
        let location = self.location(event.span?)?;
        Some(DiagnosticRelatedInformation { location, message: event.text.clone() })
    }

    /// The import that leads to another file, or the start of the text.
    fn import_of(&self, file: Option<FileId>) -> Range {
        let main = self.judgement.file;
        let tree = parse(self.sources(), main);
        let imports = tree.as_ref().map(|tree| &tree.imports[..]).unwrap_or_default();
        let name = file.map(|file| self.sources().name(file));
        let leads = |what| self.workspace.imported(self.sources().name(main), what);
        let found = imports.iter().find(|import| leads(&import.what).as_deref() == name);
        let span = found.or(imports.first()).map(|import| import.span);
        self.range(span.unwrap_or(Span { file: main, start: 0, end: 0 }))
    }
}

/// What is shown: the sentence, what stands at the place, what to do, for which launch.
fn text(message: &str, words: &str, hints: &[String], launch: Option<&str>) -> String {
    let mut text = message.to_owned();
    if !words.is_empty() {
        text += &format!(": {words}");
    }
    for hint in hints {
        text += &format!("\nhint: {hint}");
    }
    if let Some(launch) = launch {
        text += &format!("\nwith {launch}");
    }
    text
}
