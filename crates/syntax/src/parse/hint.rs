//! Hints for common slips.

use super::expected::{Expected, Phrase};
use super::recover::is_keyword;

/// Where a definition or a statement fails.
pub(super) struct Slip<'t> {
    /// What would have gone on.
    pub expected: &'t Expected,
    /// The token that was found; empty at the end of the file.
    pub found: &'t str,
    /// The text from the start of the definition or statement to that token.
    pub so_far: &'t str,
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

/// What stands for a word of another language.
pub(super) fn foreign(word: &str) -> Option<&'static str> {
    FOREIGN.iter().find(|(foreign, _)| *foreign == word).map(|(_, hint)| *hint)
}

impl Slip<'_> {
    /// What to do about it, the most telling first.
    pub(super) fn hints(&self) -> impl Iterator<Item = &'static str> {
        let hint = self.after().or_else(|| self.instead()).or_else(|| self.missing());
        hint.into_iter().chain(self.python_range())
    }

    /// Found by what came before.
    fn after(&self) -> Option<&'static str> {
        let Self { expected, found, so_far } = self;
        let before = so_far.trim_end();
        if before.ends_with("sum(") {
            return Some("write `sum(i in a..b: term)`");
        }
        if before.ends_with("..") || *found == ".." {
            return Some("a range names both ends: `a..b`");
        }
        if before.ends_with('@') || (*found == "(" && so_far.contains('@')) {
            return Some("after `@` stands a name, an integer or an expression in parentheses");
        }
        if so_far.contains("implements") && expected.has(Phrase::Expression) {
            return Some("arguments are labelled: `allreduce(chunks N)`, `broadcast(root 0)`");
        }
        if so_far.contains("implements") && expected.has(Phrase::OpenParen) {
            return Some("parentheses follow the collective, even if empty: `allreduce()`");
        }
        if self.is_word_before_parameter() {
            return Some(
                "`ranks N` counts the ranks, `per_node G` those of a node; other parameters are \
                 names",
            );
        }
        if so_far.starts_with("fn") && *found == "{" {
            return Some("a function with a block has no `=`: `fn name(…) { … }`");
        }
        (before.ends_with(',') && matches!(*found, ")" | "]")).then_some("remove the `,` before it")
    }

    /// Whether a parameter of an algorithm has two names, as in `rank N`.
    fn is_word_before_parameter(&self) -> bool {
        let Self { expected, found, so_far } = self;
        let in_params = so_far.starts_with("algorithm") && !so_far.contains("implements");
        let is_word = found.starts_with(|first: char| first.is_alphabetic() || first == '_');
        in_params && is_word && expected.has(Phrase::CloseParen)
    }

    /// Found by what was found.
    fn instead(&self) -> Option<&'static str> {
        let Self { expected, found, so_far } = self;
        let condition = ["if", "require", "let"].iter().any(|word| so_far.starts_with(word));
        Some(match *found {
            "(" if so_far.starts_with("for") && expected.has(Phrase::Name) => {
                "loops have no parentheses: `for i in a..b { … }`"
            }
            "," if expected.has(Phrase::CloseBracket) => "several chunks are a run: `[a..b]`",
            "==" if expected.has(Phrase::Equals) => "`=` gives a value, `==` compares",
            "=" if expected.has(Phrase::In) => "write `for i in a..b`",
            "=" if condition && expected.has(Phrase::Operator) => "`==` compares",
            "," if expected.has(Phrase::In) => {
                "write `for i in a, j in b`, or `for [i, j] in pairs`"
            }
            ":" if expected.has(Phrase::Block) => "a block stands in braces: `{ … }`",
            "not" => "put `not …` in parentheses",
            "if" if expected.has(Phrase::Expression) => "put the inner `if` in parentheses",
            "+=" if expected.has(Phrase::Equals) => "write `=`",
            _ if expected.has(Phrase::Name) && is_keyword(found) => "choose another name",
            _ => return None,
        })
    }

    /// Found by what is missing.
    fn missing(&self) -> Option<&'static str> {
        if self.expected.is_assignment() {
            return Some("`=` copies, `+=` reduces");
        }
        Some(match self.expected.first()? {
            Phrase::Implements => "write which: `implements allreduce(chunks N)`",
            Phrase::Clause => {
                "the clauses are `in place`, `protocol NAME`, `instances k`, `interleaved k`, \
                 `bytes a..b`, `threads t` and `order NAME`"
            }
            Phrase::UpTo => "message sizes are given as `bytes a..b` or `bytes a..`",
            Phrase::Hint => "for example `on channel c, send tb 0`",
            Phrase::Else => "every `if … then …` has an `else`: it is a value",
            _ => return None,
        })
    }

    fn python_range(&self) -> Option<&'static str> {
        let calls_range = self.so_far.starts_with("for") && self.so_far.contains("range(");
        calls_range
            .then_some("`0..n` counts from 0 up to, and without, n; `a..b by s` in steps of s")
    }
}
