//! Files and definitions.

use super::expression::Spacing;
use super::layout::Piece;
use super::{Emitter, child};
use crate::grammar::{Node, Rule};

impl Emitter<'_> {
    /// The whole file.
    pub(super) fn file(&mut self, root: Node<'_>) {
        let mut previous = None;
        for item in root.into_inner() {
            let has_block = child(&item, Rule::block).is_some();
            let before = self.pieces.len();
            self.line(item.as_span().start(), self.end == 0);
            let stands_apart = previous.is_some_and(|previous| previous || has_block);
            if stands_apart && item.as_rule() != Rule::EOI {
                self.separate(before);
            }
            previous = Some(has_block);
            self.item(item);
        }
    }

    /// Sees to it that an empty line stands before the first line begun from that piece on.
    fn separate(&mut self, from: usize) {
        let begins_line = |piece: &&mut Piece<'_>| matches!(piece, Piece::Line | Piece::Blank);
        if let Some(line) = self.pieces[from..].iter_mut().find(begins_line) {
            *line = Piece::Blank;
        }
    }

    fn item(&mut self, item: Node<'_>) {
        if item.as_rule() == Rule::EOI {
            return;
        }
        match child(&item, Rule::block) {
            Some(block) => self.with_block(&block, true, |emitter| emitter.head(item)),
            None => self.group(|emitter| emitter.head(item)),
        }
    }

    /// A definition up to its block, or an import.
    fn head(&mut self, item: Node<'_>) {
        for part in item.into_inner() {
            match part.as_rule() {
                Rule::block => {}
                Rule::kw_import | Rule::kw_fn | Rule::kw_collective | Rule::kw_algorithm => {
                    self.word(&part);
                }
                Rule::params => self.bracketed(part, Piece::SoftSpace, Self::words),
                Rule::equals => {
                    self.push(Piece::Space);
                    self.token(&part);
                }
                Rule::expr => self.value(part),
                Rule::kw_implements => self.head_continued(|emitter| {
                    emitter.push(Piece::SoftSpace);
                    emitter.word(&part);
                }),
                Rule::implements => self.head_continued(|emitter| {
                    emitter.bracketed(part, Piece::SoftSpace, Self::words);
                }),
                Rule::clause => self.head_continued(|emitter| emitter.clause(part)),
                _ => self.tokens(&part),
            }
        }
    }

    fn clause(&mut self, clause: Node<'_>) {
        self.push(Piece::Fill);
        clause.into_inner().for_each(|clause| self.clause_kind(clause));
    }

    fn clause_kind(&mut self, node: Node<'_>) {
        if node.as_rule() != Rule::bytes {
            return self.words(node);
        }
        for part in node.into_inner() {
            match part.as_rule() {
                Rule::bound => self.operation(part, Spacing::Hugging),
                Rule::word_bytes => self.word(&part),
                _ => self.token(&part),
            }
        }
    }

    /// Words, names and expressions with a space between them: `ranks N = 8`, `chunks N`.
    pub(super) fn words(&mut self, node: Node<'_>) {
        for (index, part) in node.into_inner().enumerate() {
            if index > 0 {
                self.push(Piece::Space);
            }
            match part.as_rule() {
                Rule::expr => self.expr(part),
                _ => self.tokens(&part),
            }
        }
    }
}
