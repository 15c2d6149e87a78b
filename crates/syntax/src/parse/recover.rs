//! What did not parse: where exactly, what was expected there, and what to do.
//!
//! The grammar marks a stretch of text as bad; here it is matched once more, alone, to learn how far
//! it goes and which tokens it misses there. `expected.rs` finds the words.

use pest::Parser;
use pest::error::{ErrorVariant, InputLocation};

use super::expected::Expected;
use super::statement::Within;
use super::{Builder, Depth, MAX_DIAGNOSTICS};
use crate::grammar::{Grammar, Node, Rule};
use crate::scan::word_bytes;
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
        if self.diagnostics.len() > MAX_DIAGNOSTICS {
            return;
        }
        let failure = self.failure(rule, node.as_span().start());
        self.diagnostics.push(failure.explain(rule));
        let mut parts = self.parts(node);
        if let Some(block) = parts.nodes.find(|part| part.as_rule() == Rule::block)
            && let Err(diagnostic) = self.block(block, within, depth)
        {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Matches the text from `start` once more, to see where it fails.
    fn failure(&self, rule: Rule, start: usize) -> Failure<'_> {
        let mut failure =
            Failure { file: self.file, text: self.text, start, at: start, expected: Expected::default() };
        if let Err(error) = Grammar::parse(rule, &self.text[start..])
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
    text: &'t str,
    /// Where the definition or statement starts.
    start: usize,
    /// Where it fails.
    at: usize,
    expected: Expected,
}

/// Words that begin a statement or a definition in other languages, and what stands for them here.
const FOREIGN: [(&str, &str); 18] = [
    ("elif", "write `else if`"),
    ("elseif", "write `else if`"),
    ("elsif", "write `else if`"),
    ("while", "loops run over ranges and lists: `for i in a..b { … }`"),
    ("foreach", "write `for x in list { … }`"),
    ("loop", "loops run over ranges and lists: `for i in a..b { … }`"),
    ("return", "a function states its value: `fn name(…) = value`"),
    ("def", "write `fn name(…) = value` or `fn name(…) { … }`"),
    ("func", "write `fn name(…) = value` or `fn name(…) { … }`"),
    ("function", "write `fn name(…) = value` or `fn name(…) { … }`"),
    ("var", "write `let name = value`"),
    ("const", "write `let name = value`"),
    ("int", "write `let name = value`"),
    ("assert", "write `require condition, \"message\"`"),
    ("algo", "write `algorithm`"),
    ("use", "write `import`"),
    ("include", "write `import`"),
    ("from", "write `import`"),
];

impl Failure<'_> {
    fn explain(&self, rule: Rule) -> Diagnostic {
        if let Some((word, hint)) = self.foreign_word() {
            let what = if rule == Rule::item { "a definition" } else { "a statement" };
            return self.error(self.start, what, word).hint(*hint);
        }
        match rule {
            Rule::item if self.at == self.start => self.no_item(),
            _ if self.is_left_over() => self.left_over(),
            Rule::statement if self.at == self.start => self.no_statement(),
            _ => self.broken(),
        }
    }

    fn error(&self, at: usize, expected: &str, found: &str) -> Diagnostic {
        let end = at + if self.text[at..].is_empty() { 0 } else { token_bytes(&self.text[at..]) };
        let span = Span { file: self.file, start: at as u32, end: end as u32 };
        let found = match found {
            "" => "the end of the file".to_string(),
            _ if is_keyword(found) => format!("the keyword `{found}`"),
            _ => format!("`{found}`"),
        };
        Diagnostic::error(span, format!("expected {expected}, found {found}"))
    }

    /// The token at a place; empty at the end of the file.
    fn token(&self, at: usize) -> &str {
        let rest = &self.text[at..];
        &rest[..token_bytes(rest)]
    }

    fn foreign_word(&self) -> Option<&'static (&'static str, &'static str)> {
        let word = self.token(self.start);
        // `use = 3` and `loop@1` are ordinary names.
        let next = self.text[self.start + word.len()..].trim_start();
        let is_name = next.starts_with(['=', '+', '@', '[', '.']);
        FOREIGN.iter().find(|(foreign, _)| *foreign == word && !is_name)
    }

    /// The definition fails at its first word.
    fn no_item(&self) -> Diagnostic {
        let found = self.token(self.at);
        let error = self.error(self.at, "a definition", found);
        match found {
            "let" | "for" | "if" | "on" | "scratch" | "require" | "given" | "promise" | "{" => {
                error.hint("statements stand in the block of an algorithm or a function")
            }
            _ => error.hint("a file is made of `import`, `fn`, `collective` and `algorithm`"),
        }
    }

    /// Whether this is no broken statement but a rest that the one before it did not take in.
    fn is_left_over(&self) -> bool {
        let before = self.text[..self.start].trim_end_matches([' ', '\t']);
        let continues = !before.is_empty() && !before.ends_with(['\n', '{', '}']);
        let lone = self.at == self.start || self.expected.is_assignment();
        continues && lone && !is_statement_word(self.token(self.start))
    }

    fn left_over(&self) -> Diagnostic {
        let found = self.token(self.start);
        let error = self.error(self.start, "an operator or the next statement", found);
        match found {
            "=" => error.hint("`==` compares"),
            _ => error,
        }
    }

    /// The statement fails at its first word.
    fn no_statement(&self) -> Diagnostic {
        let found = self.token(self.at);
        let error = self.error(self.at, "a statement", found);
        match found {
            "else" => error.hint("`else` follows the `}` of an `if`"),
            "{" => error.hint("a block follows `for …`, `if …`, `else` or `on …`"),
            "fn" | "algorithm" | "collective" | "import" => {
                error.hint("definitions stand outside of blocks; is a `}` missing before it?")
            }
            _ => error.hint("a statement moves data, as `input@1[0] = input@0[0]`, or starts with a keyword"),
        }
    }

    /// It starts well and then fails.
    fn broken(&self) -> Diagnostic {
        let found = self.token(self.at);
        let error = self.error(self.at, &self.expected.words(), found);
        self.hints(found).into_iter().fold(error, Diagnostic::hint)
    }

    fn hints(&self, found: &str) -> Vec<&'static str> {
        let so_far = &self.text[self.start..self.at];
        let mut hints = Vec::new();
        hints.extend(self.expected.hint(found, so_far));
        if self.token(self.start) == "for" && so_far.contains("range(") {
            hints.push("`0..n` counts from 0 up to, and without, n");
        }
        hints
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

/// All diagnostics in order of place, without those on a line where a slip has been mended: they
/// would most likely repeat it.
pub(super) fn without_echoes(
    text: &str,
    slips: &[Diagnostic],
    diagnostics: Vec<Diagnostic>,
) -> Vec<Diagnostic> {
    let start = |diagnostic: &Diagnostic| diagnostic.labels.first().map_or(0, |l| l.span.start);
    let line = |diagnostic: &Diagnostic| line_start(text, start(diagnostic) as usize);
    let slip_lines: Vec<_> = slips.iter().map(line).collect();
    let mut all = slips.to_vec();
    all.extend(diagnostics.into_iter().filter(|found| !slip_lines.contains(&line(found))));
    all.sort_by_key(start);
    all
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}
