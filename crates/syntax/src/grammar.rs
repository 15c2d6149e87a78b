//! The parser that pest derives from `grammar.pest`, and the classes of its rules.
#![allow(missing_docs)] // The derived rules are described in `grammar.pest`.

use pest::iterators::Pair;

#[derive(pest_derive::Parser)]
#[grammar = "grammar.pest"]
pub(crate) struct Grammar;

/// A piece of text that matched a rule.
pub(crate) type Node<'i> = Pair<'i, Rule>;

/// Whether the rule is a keyword or punctuation: of use to the formatter, not to the tree.
pub(crate) fn is_mark(rule: Rule) -> bool {
    is_keyword(rule) || is_punctuation(rule)
}

fn is_keyword(rule: Rule) -> bool {
    use Rule::*;
    matches!(
        rule,
        kw_import
            | kw_fn
            | kw_collective
            | kw_algorithm
            | kw_implements
            | kw_in
            | kw_place
            | kw_let
            | kw_if
            | kw_then
            | kw_else
            | kw_for
            | kw_on
            | kw_scratch
            | kw_require
            | kw_given
            | kw_promise
            | kw_sum
            | word_protocol
            | word_instances
            | word_interleaved
            | word_bytes
            | word_threads
            | word_order
            | word_channel
            | word_tb
            | word_send
            | word_receive
    )
}

fn is_punctuation(rule: Rule) -> bool {
    use Rule::*;
    matches!(
        rule,
        open_paren
            | open_call
            | close_paren
            | open_bracket
            | open_index
            | close_bracket
            | open_brace
            | close_brace
            | comma
            | colon
            | at_sign
            | equals
            | up_to
            | EOI
    )
}
