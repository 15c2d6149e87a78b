//! The one canonical layout.
//!
//! Four blanks per level, one statement per line, lines of at most 100 columns where a break can
//! achieve that. Brackets hug what they hold. Binary operators stand between spaces, except `**`,
//! products in a sum or a range, and ranges whose bounds have at most two operators and no blank
//! within brackets: `2**(k + 1) + 1`, `r*K + c`, `0..2*N-1`, `r*K .. (r + 1)*K`. A `%` always
//! stands between spaces, and brackets start anew. What does not fit is broken at its weakest
//! place: before operators, after the commas of a list, before `implements`, `if`, `on` and
//! clauses, after `=`. Heads of blocks go on two steps indented, so that they stand apart from the
//! block, and ` {` ends their last line.
//!
//! The author decides three things. Comments stay where they are: at the end of the line of the
//! token they follow, or on lines of their own. Empty lines between statements and definitions
//! stay, at most one, and one is added around definitions with a block. A block of one statement
//! without a block of its own stays on the line of its head if it was written so and fits.
//!
//! Guarantees: the tokens and comments are those of the text, in order, so the tree is the same;
//! formatting twice changes nothing more.

mod expression;
mod item;
mod layout;
mod statement;

use std::ops::Range;

use crate::grammar::{Node, Rule};
use crate::scan::scan;
use crate::{Diagnostic, FileId, parse};
use layout::{Piece, lay_out};

/// Formats the text of a file; the diagnostics of a text that does not parse refer to `FileId(0)`.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let file = FileId(0);
    let scan = scan(file, text)?;
    let root = parse::root(file, &scan.text).map_err(|diagnostic| vec![diagnostic])?;
    parse::build(file, &scan, root.clone())?;
    let mut emitter = Emitter::new(text, &scan.comments);
    emitter.file(root);
    Ok(lay_out(&emitter.pieces))
}

/// Turns nodes into pieces, with the comments between their tokens.
struct Emitter<'t> {
    text: &'t str,
    /// The comments that are still to come.
    comments: &'t [Range<usize>],
    /// Where the last token or comment ended.
    end: usize,
    pieces: Vec<Piece<'t>>,
}

impl<'t> Emitter<'t> {
    fn new(text: &'t str, comments: &'t [Range<usize>]) -> Self {
        Self { text, comments, end: 0, pieces: Vec::new() }
    }

    fn push(&mut self, piece: Piece<'t>) {
        self.pieces.push(piece);
    }

    fn group(&mut self, content: impl FnOnce(&mut Self)) {
        self.push(Piece::Open);
        content(self);
        self.push(Piece::Close);
    }

    fn indented(&mut self, content: impl FnOnce(&mut Self)) {
        self.push(Piece::Indent);
        content(self);
        self.push(Piece::Dedent);
    }

    /// What a head goes on with: two steps indented, one more than its block.
    fn head_continued(&mut self, content: impl FnOnce(&mut Self)) {
        self.indented(|emitter| emitter.indented(content));
    }

    /// What may stand on the next line, one step indented.
    fn continued(&mut self, content: impl FnOnce(&mut Self)) {
        self.indented(|emitter| {
            emitter.push(Piece::SoftSpace);
            content(emitter);
        });
    }

    /// A token and a space.
    fn word(&mut self, node: &Node<'_>) {
        self.token(node);
        self.push(Piece::Space);
    }

    /// All tokens of a node, nothing between them.
    fn tokens(&mut self, node: &Node<'_>) {
        let mut children = node.clone().into_inner().peekable();
        if children.peek().is_none() {
            return self.token(node);
        }
        children.for_each(|child| self.tokens(&child));
    }

    /// A token, after the comments before it.
    fn token(&mut self, node: &Node<'_>) {
        let (start, end) = (node.as_span().start(), node.as_span().end());
        self.comments_before(start);
        self.push(Piece::Text(&self.text[start..end]));
        self.end = end;
    }

    /// The comments between the last token and that place.
    fn comments_before(&mut self, place: usize) {
        while let Some((comment, rest)) = self.comments.split_first()
            && comment.start < place
        {
            let piece = match self.newlines_before(comment.start) {
                0 if self.end > 0 => Piece::Trailing,
                _ => Piece::OwnLine,
            };
            self.push(piece(&self.text[comment.clone()]));
            self.end = comment.end;
            self.comments = rest;
        }
    }

    /// Begins a line at that place: after the comments before it, and an empty line where one was.
    /// `is_first` in a block, where no empty line is kept.
    fn line(&mut self, place: usize, is_first: bool) {
        let is_first = self.comment_lines(place, is_first);
        self.line_break(place, is_first);
    }

    /// The comments before that place, those on lines of their own between line breaks. Whether
    /// what follows is still the first in its block.
    fn comment_lines(&mut self, place: usize, mut is_first: bool) -> bool {
        while let Some(comment) = self.comments.first().cloned()
            && comment.start < place
        {
            if self.newlines_before(comment.start) > 0 || self.end == 0 {
                self.line_break(comment.start, is_first);
                is_first = false;
            }
            self.comments_before(comment.end);
        }
        is_first
    }

    fn line_break(&mut self, place: usize, is_first: bool) {
        let is_blank = self.newlines_before(place) > 1 && !is_first;
        self.push(if is_blank { Piece::Blank } else { Piece::Line });
    }

    /// How many line breaks lie between the last token or comment and that place.
    fn newlines_before(&self, place: usize) -> usize {
        let between = self.text.get(self.end..place).unwrap_or_default();
        between.bytes().filter(|byte| *byte == b'\n').count()
    }
}

/// The first child of a rule.
fn child<'i>(node: &Node<'i>, rule: Rule) -> Option<Node<'i>> {
    node.clone().into_inner().find(|child| child.as_rule() == rule)
}
