//! What the grammar expected at a place, in the words of the language.
//!
//! The grammar lists every token that would have matched. Most of them are beside the point: after
//! `for i in 0..4` an operator would do, but what is missing is `{`. So tokens come in two ranks,
//! and those that merely could go on are named only if there is nothing else.

use super::operation::binary;
use crate::grammar::Rule;

/// The tokens that would have matched.
#[derive(Default)]
pub(super) struct Expected {
    phrases: Vec<Phrase>,
}

/// A word or two for some tokens, in the order in which they are named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phrase {
    Definition,
    Statement,
    Expression,
    Region,
    Name,
    Integer,
    Text,
    In,
    Then,
    Else,
    Implements,
    Collective,
    Clause,
    Place,
    Hint,
    Tb,
    Equals,
    Reduces,
    Colon,
    UpTo,
    OpenParen,
    OpenBracket,
    Comma,
    CloseParen,
    CloseBracket,
    Block,
    Operator,
    On,
    If,
}

impl Expected {
    /// Sorts out what the grammar says.
    pub(super) fn of(rules: &[Rule]) -> Self {
        let mut phrases: Vec<_> = rules.iter().filter_map(|rule| phrase(*rule)).collect();
        phrases.sort_unstable();
        phrases.dedup();
        let mut expected = Self { phrases };
        expected.drop_what_is_beside_the_point();
        expected
    }

    /// Whether such tokens would have matched and are named.
    pub(super) fn has(&self, phrase: Phrase) -> bool {
        self.phrases.contains(&phrase)
    }

    fn drop_what_is_beside_the_point(&mut self) {
        let closes = self.has(Phrase::CloseParen) || self.has(Phrase::CloseBracket);
        let weak = |phrase: &Phrase| match phrase {
            Phrase::Operator | Phrase::On | Phrase::If => true,
            Phrase::Comma => !closes,
            Phrase::Equals | Phrase::In => closes,
            _ => false,
        };
        if !self.phrases.iter().all(weak) {
            self.phrases.retain(|phrase| !weak(phrase));
        }
        if self.has(Phrase::Expression) {
            self.phrases.retain(|phrase| !phrase.begins_expression());
        }
    }

    /// The phrase that is named first.
    pub(super) fn first(&self) -> Option<Phrase> {
        self.phrases.first().copied()
    }

    /// Whether a region was read, and nothing says what becomes of it.
    pub(super) fn is_assignment(&self) -> bool {
        self.has(Phrase::Reduces)
    }

    /// As in "expected …".
    pub(super) fn words(&self) -> String {
        let words: Vec<_> = self.phrases.iter().map(|phrase| phrase.words()).collect();
        match words.as_slice() {
            [] => "something else".to_string(),
            [only] => only.to_string(),
            [first @ .., last] => format!("{} or {last}", first.join(", ")),
        }
    }
}

impl Phrase {
    /// Whether it is covered already by "an expression".
    fn begins_expression(self) -> bool {
        use Phrase::*;
        matches!(self, Region | Name | Integer | Text | OpenParen | OpenBracket)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Definition => "a definition",
            Self::Statement => "a statement",
            Self::Expression => "an expression",
            Self::Region => "a region",
            Self::Name => "a name",
            Self::Integer => "an integer",
            Self::Text => "a text in quotes",
            Self::In => "`in` after the loop variable",
            Self::Then => "`then` after the condition",
            Self::Else => "`else`",
            Self::Implements => "`implements` and a collective",
            Self::Collective => "a collective",
            Self::Clause => "a clause",
            Self::Place => "`place`",
            Self::Hint => "`channel`, `tb`, `send tb` or `receive tb`",
            Self::Tb => "`tb`",
            Self::Equals => "`=`",
            Self::Reduces => "`+=`",
            Self::Colon => "`:`",
            Self::UpTo => "`..`",
            Self::OpenParen => "`(`",
            Self::OpenBracket => "`[`",
            Self::Comma => "`,`",
            Self::CloseParen => "`)`",
            Self::CloseBracket => "`]`",
            Self::Block => "`{`",
            Self::Operator => "an operator",
            Self::On => "`on`",
            Self::If => "`if`",
        }
    }
}

/// The words for a rule of the grammar that did not match. A rule is named if it starts where the
/// text fails and more than one of its parts could; hence both wholes and tokens appear here.
fn phrase(rule: Rule) -> Option<Phrase> {
    use Rule::*;
    Some(match rule {
        import | function | collective | algorithm | kw_import | kw_fn | kw_collective
        | kw_algorithm => Phrase::Definition,
        binding | conditional | branch | loop_statement | placed | scratch | require | given
        | promise | assignment | call_statement | kw_let | kw_for | kw_scratch | kw_require
        | kw_given | kw_promise => Phrase::Statement,
        int => Phrase::Integer,
        expr | operation | bound | bool | sum | kw_sum | parenthesised | comprehension | list
        | negate => Phrase::Expression,
        name | param | labelled | pattern | binder | binders | word_ranks | word_per_node => {
            Phrase::Name
        }
        place | buffer | call => Phrase::Region,
        string => Phrase::Text,
        kw_in => Phrase::In,
        kw_then => Phrase::Then,
        kw_else => Phrase::Else,
        kw_implements => Phrase::Implements,
        implements => Phrase::Collective,
        clause | in_place | protocol | instances | interleaved | bytes | threads | order
        | word_protocol | word_instances | word_interleaved | word_bytes | word_threads
        | word_order => Phrase::Clause,
        kw_place => Phrase::Place,
        hint | on_channel | on_tb | on_send_tb | on_receive_tb | word_channel | word_send
        | word_receive => Phrase::Hint,
        word_tb => Phrase::Tb,
        equals | copies => Phrase::Equals,
        up_to => Phrase::UpTo,
        reduces => Phrase::Reduces,
        colon => Phrase::Colon,
        params | open_paren => Phrase::OpenParen,
        open_bracket => Phrase::OpenBracket,
        comma => Phrase::Comma,
        close_paren => Phrase::CloseParen,
        close_bracket => Phrase::CloseBracket,
        block | open_brace => Phrase::Block,
        hints | kw_on => Phrase::On,
        kw_if => Phrase::If,
        index | at | open_call | open_index | at_sign | range | by | not => Phrase::Operator,
        _ => return binary(rule).map(|_| Phrase::Operator),
    })
}
