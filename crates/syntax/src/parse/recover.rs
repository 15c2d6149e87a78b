//! What did not parse: where exactly, what was expected there, and what to do.
//!
//! The grammar marks a stretch of text as bad; here it is matched once more, alone, to learn how
//! far it goes and which tokens it misses there. `expected.rs` finds the words.

use pest::Parser;
use pest::error::{ErrorVariant, InputLocation};

use super::expected::Expected;
use super::hint::{self, Slip};
use super::statement::Within;
use super::{Builder, Depth, MAX_DIAGNOSTICS};
use crate::grammar::{Grammar, Node, Rule};
use crate::scan::{Scan, word_bytes};
use crate::{Diagnostic, FileId, Span};

impl Builder<'_> {
    /// Reports a definition that does not parse, and what is wrong within its block.
    pub(super) fn bad_item(&mut self, node: Node<'_>) {
        self.bad(Rule::item, node, Within::Program, Depth(0));
    }

    /// Reports a statement that does not parse, and what is wrong within its block.
    pub(super) fn bad_statement(&mut self, node: Node<'_>, within: Within, depth: Depth) {
        self.bad(Rule::statement, node, within, depth);
    }

    fn bad(&mut self, rule: Rule, node: Node<'_>, within: Within, depth: Depth) {
        if self.diagnostics.len() == MAX_DIAGNOSTICS {
            return;
        }
        let failure = self.failure(rule, node.as_span().start());
        self.report(failure.explain(rule));
        let mut parts = self.parts(node);
        if let Some(block) = parts.nodes.find(|part| part.as_rule() == Rule::block)
            && let Err(diagnostic) = self.block(block, within, depth)
        {
            self.report(diagnostic);
        }
    }

    /// Matches the text from `start` once more, to see where it fails.
    fn failure(&self, rule: Rule, start: usize) -> Failure<'_> {
        let expected = Expected::default();
        let mut failure = Failure { file: self.file, scan: self.scan, start, at: start, expected };
        if let Err(error) = Grammar::parse(rule, &self.scan.text[start..])
            && let ErrorVariant::ParsingError { positives, negatives: _ } = &error.variant
            && let InputLocation::Pos(at) | InputLocation::Span((at, _)) = error.location
        {
            failure.at = start + at;
            failure.expected = Expected::of(positives);
        }
        failure
    }
}

/// Where something fails to parse, and what would have gone on.
struct Failure<'t> {
    file: FileId,
    scan: &'t Scan<'t>,
    /// Where the definition or statement starts.
    start: usize,
    /// Where it fails.
    at: usize,
    expected: Expected,
}

impl Failure<'_> {
    fn explain(&self, rule: Rule) -> Diagnostic {
        if let Some(hint) = self.foreign_word() {
            let what = if rule == Rule::item { "a definition" } else { "a statement" };
            return self.error(self.start, what).hint(hint);
        }
        match rule {
            Rule::item if self.at == self.start => self.no_item(),
            _ if self.is_left_over() => self.left_over(),
            Rule::statement if self.at == self.start => self.no_statement(),
            _ => self.broken(),
        }
    }

    /// "Expected …, found …" at a token, or where the token is missing if that is lines above.
    fn error(&self, at: usize, expected: &str) -> Diagnostic {
        let token = self.token(at);
        let found = match token {
            "" => "the end of the file".to_string(),
            "input" | "output" | "true" | "false" => format!("`{token}`"),
            _ if is_keyword(token) => format!("the keyword `{token}`"),
            _ => format!("`{token}`"),
        };
        let message = format!("expected {expected}, found {found}");
        let there = self.span(at, at + token.len());
        let missing = self.scan.code_before(at);
        if at == self.start || !self.scan.text[missing..at].contains('\n') {
            return Diagnostic::error(there, message);
        }
        let diagnostic = Diagnostic::error(self.span(missing, missing), message);
        if token.is_empty() { diagnostic } else { diagnostic.label(there, "found this") }
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: start as u32, end: end as u32 }
    }

    /// The token at a place; empty at the end of the file.
    fn token(&self, at: usize) -> &str {
        let rest = &self.scan.text[at..];
        &rest[..token_bytes(rest)]
    }

    fn foreign_word(&self) -> Option<&'static str> {
        let word = self.token(self.start);
        // `use = 3` and `loop@1` are ordinary names.
        let next = self.scan.text[self.start + word.len()..].trim_start();
        let is_name = next.starts_with(['=', '+', '@', '[', '.']);
        if is_name { None } else { hint::foreign(word) }
    }

    /// The definition fails at its first word.
    fn no_item(&self) -> Diagnostic {
        let error = self.error(self.at, "a definition");
        error.hint(match self.token(self.at) {
            "let" | "for" | "if" | "on" | "scratch" | "require" | "given" | "promise" | "{" => {
                "statements stand in the block of an algorithm or a function"
            }
            "," => "each `import` names one module",
            word if word.starts_with("alg") => "did you mean `algorithm`?",
            _ => "a file is made of `import`, `fn`, `collective` and `algorithm`",
        })
    }

    /// Whether this is no broken statement but a rest that the one before it did not take in.
    fn is_left_over(&self) -> bool {
        let before = self.scan.text[..self.start].trim_end_matches([' ', '\t']);
        let continues = !before.is_empty() && !before.ends_with(['\n', '{', '}']);
        let lone = self.at == self.start || self.expected.is_assignment();
        continues && lone && !is_statement_word(self.token(self.start))
    }

    fn left_over(&self) -> Diagnostic {
        self.error(self.start, "an operator or the next statement")
    }

    /// The statement fails at its first word.
    fn no_statement(&self) -> Diagnostic {
        let error = self.error(self.at, "a statement");
        error.hint(match self.token(self.at) {
            "else" => "`else` follows the `}` of an `if`; after it stands `{` or `if`",
            "{" => "a block follows `for …`, `if …`, `else` or `on …`",
            "fn" | "algorithm" | "collective" | "import" => {
                "definitions stand outside of blocks; is a `}` missing before it?"
            }
            _ => "a statement moves data, as `input@1[0] = input@0[0]`, or starts with a keyword",
        })
    }

    /// It starts well and then fails.
    fn broken(&self) -> Diagnostic {
        let slip = Slip {
            expected: &self.expected,
            found: self.token(self.at),
            so_far: &self.scan.text[self.start..self.at],
        };
        let error = self.error(self.at, &self.expected.words());
        slip.hints().fold(error, Diagnostic::hint)
    }
}

/// The length of the token that a text begins with, as a person would see it.
fn token_bytes(text: &str) -> usize {
    let symbols = ["**", "==", "!=", "<=", ">=", "..", "<<", ">>", "+="];
    let Some(first) = text.chars().next() else { return 0 };
    if first == '"' {
        let end = text[1..].find('"').map_or(text.len(), |end| end + 2);
        return end;
    }
    match word_bytes(text) {
        0 => symbols.iter().find(|s| text.starts_with(**s)).map_or(first.len_utf8(), |s| s.len()),
        bytes => bytes,
    }
}

/// Whether a word is reserved.
pub(super) fn is_keyword(word: &str) -> bool {
    Grammar::parse(Rule::keyword, word).is_ok_and(|mut pairs| {
        pairs.next().is_some_and(|keyword| keyword.as_str().len() == word.len())
    })
}

fn is_statement_word(word: &str) -> bool {
    matches!(word, "let" | "if" | "for" | "on" | "scratch" | "require" | "given" | "promise")
}

/// All diagnostics in order of place. A line says at most one thing that is no slip, and none if a
/// slip has been mended there: what follows the first error of a line is most often its echo.
pub(super) fn without_echoes(scan: &Scan<'_>, mut found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let start = |diagnostic: &Diagnostic| diagnostic.labels.first().map_or(0, |l| l.span.start);
    let line = |diagnostic: &Diagnostic| {
        let before = &scan.text[..start(diagnostic) as usize];
        before.rfind('\n').map_or(0, |newline| newline + 1)
    };
    let mut said: Vec<_> = scan.slips.iter().map(line).collect();
    found.sort_by_key(start);
    found.retain(|diagnostic| {
        let line = line(diagnostic);
        let is_new = !said.contains(&line);
        said.push(line);
        is_new
    });
    found.extend(scan.slips.iter().cloned());
    found.sort_by_key(start);
    found
}
