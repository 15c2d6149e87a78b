//! Blocks and statements.

use super::layout::Piece;
use super::{Emitter, child};
use crate::grammar::{Node, Rule};

impl Emitter<'_> {
    /// A head and its block. A head that does not fit into a line goes on two steps indented, one
    /// more than the block.
    pub(super) fn with_block(
        &mut self,
        block: &Node<'_>,
        may_be_short: bool,
        head: impl FnOnce(&mut Self),
    ) {
        let is_short = may_be_short && self.is_short(block);
        if is_short {
            self.push(Piece::Open);
        }
        self.group(|emitter| {
            head(emitter);
            emitter.push(Piece::Space);
            emitter.open_brace(block);
        });
        self.statements(block, is_short);
        if is_short {
            self.push(Piece::Close);
        }
    }

    /// Whether a block may stay on the line of its head: it was written so, and holds one statement
    /// without a block and no comment.
    fn is_short(&self, block: &Node<'_>) -> bool {
        let span = block.as_span();
        let mut comments = self.comments.iter().take_while(|comment| comment.start < span.end());
        if span.as_str().trim_end().contains('\n') || comments.any(|c| c.start > span.start()) {
            return false;
        }
        let mut statements = statements(block);
        let is_simple = |statement: Node<'_>| {
            !matches!(statement.as_rule(), Rule::conditional | Rule::loop_statement | Rule::placed)
        };
        statements.next().is_some_and(is_simple) && statements.next().is_none()
    }

    fn open_brace(&mut self, block: &Node<'_>) {
        if let Some(brace) = child(block, Rule::open_brace) {
            self.token(&brace);
        }
    }

    /// The statements of a block, and its `}`.
    fn statements(&mut self, block: &Node<'_>, is_short: bool) {
        let Some(brace) = child(block, Rule::close_brace) else { return };
        let before = self.pieces.len();
        self.indented(|emitter| {
            for (index, statement) in statements(block).enumerate() {
                if is_short {
                    emitter.push(Piece::SoftSpace);
                } else {
                    emitter.line(statement.as_span().start(), index == 0);
                }
                emitter.statement(statement);
            }
            let is_empty = statements(block).next().is_none();
            emitter.comment_lines(brace.as_span().start(), is_empty);
        });
        let is_empty = self.pieces.len() == before + 2;
        if !is_empty {
            self.push(if is_short { Piece::SoftSpace } else { Piece::Line });
        }
        self.token(&brace);
    }

    fn statement(&mut self, node: Node<'_>) {
        match node.as_rule() {
            Rule::conditional => self.conditional(node),
            Rule::loop_statement | Rule::placed => {
                if let Some(block) = child(&node, Rule::block) {
                    self.with_block(&block, true, |emitter| emitter.head_of_statement(node));
                }
            }
            _ => self.group(|emitter| emitter.simple(node)),
        }
    }

    /// `if … { … } else if … { … } else { … }`; only one without `else` may stay on its line.
    fn conditional(&mut self, node: Node<'_>) {
        let has_else = child(&node, Rule::kw_else).is_some();
        for part in node.into_inner() {
            match (part.as_rule(), child(&part, Rule::block)) {
                (Rule::branch, Some(block)) => {
                    self.with_block(&block, !has_else, |emitter| emitter.head_of_statement(part));
                }
                (Rule::block, _) => {
                    self.open_brace(&part);
                    self.statements(&part, false);
                }
                _ => {
                    self.push(Piece::Space);
                    self.word(&part);
                }
            }
        }
    }

    fn head_of_statement(&mut self, node: Node<'_>) {
        for (index, part) in node.into_inner().enumerate() {
            match part.as_rule() {
                Rule::block => {}
                Rule::hints if index == 0 => self.hints(part),
                Rule::hints => self.head_continued(|emitter| {
                    emitter.push(Piece::SoftSpace);
                    emitter.hints(part);
                }),
                Rule::binders => self.head_continued(|emitter| emitter.binders(part)),
                Rule::expr => self.indented(|emitter| emitter.expr(part)),
                _ => self.word(&part),
            }
        }
    }

    /// A statement without a block. What moves data may break after `=`.
    fn simple(&mut self, node: Node<'_>) {
        let moves = matches!(node.as_rule(), Rule::assignment | Rule::promise);
        let is_scratch = node.as_rule() == Rule::scratch;
        for (index, part) in node.into_inner().enumerate() {
            match part.as_rule() {
                Rule::comma => self.token(&part),
                Rule::string => self.continued(|emitter| emitter.token(&part)),
                Rule::hints => self.continued(|emitter| emitter.hints(part)),
                Rule::expr if moves => self.value(part),
                rule => {
                    let hugs = is_scratch && !matches!(rule, Rule::kw_scratch | Rule::name);
                    if index > 0 && !hugs {
                        self.push(Piece::Space);
                    }
                    self.part(part);
                }
            }
        }
    }

    /// A part of a statement or an expression.
    pub(super) fn part(&mut self, part: Node<'_>) {
        match part.as_rule() {
            Rule::expr => self.expr(part),
            Rule::place => self.place(part),
            Rule::call => self.primary(part),
            _ => self.tokens(&part),
        }
    }

    /// `i in a, [x, y] in b if c`.
    pub(super) fn binders(&mut self, node: Node<'_>) {
        for part in node.into_inner() {
            match part.as_rule() {
                Rule::binder => self.binder(part),
                Rule::comma => {
                    self.token(&part);
                    self.push(Piece::Fill);
                }
                Rule::kw_if => {
                    self.push(Piece::SoftSpace);
                    self.word(&part);
                }
                _ => self.part(part),
            }
        }
    }

    fn binder(&mut self, node: Node<'_>) {
        for part in node.into_inner() {
            match part.as_rule() {
                Rule::pattern => part.into_inner().for_each(|token| self.listed(&token)),
                Rule::kw_in => {
                    self.push(Piece::Space);
                    self.word(&part);
                }
                _ => self.part(part),
            }
        }
    }

    /// `on channel c, send tb 0`.
    fn hints(&mut self, node: Node<'_>) {
        for part in node.into_inner() {
            match part.as_rule() {
                Rule::hint => self.hint(part),
                Rule::kw_on => self.word(&part),
                _ => self.listed(&part),
            }
        }
    }

    fn hint(&mut self, node: Node<'_>) {
        for part in node.into_inner() {
            match part.as_rule() {
                Rule::expr => self.expr(part),
                _ => part.into_inner().for_each(|word| self.word(&word)),
            }
        }
    }

    /// A token of a list; a space after `,`.
    fn listed(&mut self, token: &Node<'_>) {
        match token.as_rule() {
            Rule::comma => self.word(token),
            _ => self.token(token),
        }
    }
}

fn statements<'i>(block: &Node<'i>) -> impl Iterator<Item = Node<'i>> {
    let is_brace = |part: &Node<'i>| matches!(part.as_rule(), Rule::open_brace | Rule::close_brace);
    block.clone().into_inner().filter(move |part| !is_brace(part))
}
