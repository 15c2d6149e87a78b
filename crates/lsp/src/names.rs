//! What the names of one file mean.
//!
//! Functions and collectives have names of their own; those that other files define are the affair
//! of [`crate::workspace`]. Parameters, `let`, `scratch` and binders are found here, by the
//! scopes of `docs/LANGUAGE.md`, section 1. Places are bytes of the file.

use std::ops::Range;

use msccl_syntax::{Span, ast};

/// A definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// The name.
    pub name: String,
    /// Where the name stands.
    pub bytes: Range<usize>,
    /// The whole of what defines it.
    pub whole: Range<usize>,
    /// What it is.
    pub kind: DefinitionKind,
}

/// What is defined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DefinitionKind {
    /// `fn`.
    Function {
        /// Its parameters.
        params: Vec<String>,
    },
    /// `collective`.
    Collective {
        /// Its parameters, but for that of the ranks.
        labels: Vec<String>,
    },
    /// `algorithm`.
    Algorithm,
    /// A parameter of a function or an algorithm.
    Parameter,
    /// A parameter of a collective, which is a label where it is implemented.
    Label {
        /// The collective.
        collective: String,
    },
    /// `let`.
    Let,
    /// A binder of `for`, `sum` or a list.
    Binder,
    /// `scratch`.
    Scratch,
}

/// A use of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Use {
    /// The name.
    pub name: String,
    /// Where.
    pub bytes: Range<usize>,
    /// What it means.
    pub meaning: Meaning,
}

/// What a used name means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// A definition of this file, by its number.
    Local(usize),
    /// A function, of this file or another, or built in.
    Function,
    /// A collective, of this file or another, or a standard one.
    Collective,
    /// A label of a collective.
    Label {
        /// The collective.
        collective: String,
    },
    /// `input` or `output`.
    Buffer,
    /// Nothing that is known.
    Unknown,
}

/// The names of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    /// Definitions, in no special order.
    pub definitions: Vec<Definition>,
    /// Uses, in no special order.
    pub uses: Vec<Use>,
}

impl Names {
    /// The names of `file`.
    pub fn of(file: &ast::File) -> Self {
        let mut walk = Walk { names: Names::default(), scope: Vec::new() };
        file.items.iter().for_each(|item| walk.item(item));
        walk.names
    }

    /// The definition at a byte.
    pub fn definition_at(&self, at: usize) -> Option<usize> {
        self.definitions.iter().position(|it| touches(&it.bytes, at))
    }

    /// The use at a byte.
    pub fn use_at(&self, at: usize) -> Option<&Use> {
        self.uses.iter().find(|it| touches(&it.bytes, at))
    }

    /// The function or collective of that name.
    pub fn item(&self, name: &str, is_match: impl Fn(&DefinitionKind) -> bool) -> Option<usize> {
        self.definitions.iter().position(|it| it.name == name && is_match(&it.kind))
    }
}

impl DefinitionKind {
    /// Whether it is a function.
    pub fn is_function(&self) -> bool {
        matches!(self, Self::Function { .. })
    }

    /// Whether it is a collective.
    pub fn is_collective(&self) -> bool {
        matches!(self, Self::Collective { .. })
    }
}

/// Whether a cursor at a byte is on a name.
fn touches(bytes: &Range<usize>, at: usize) -> bool {
    bytes.start <= at && at <= bytes.end
}

fn bytes(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}

/// A walk through a tree, with the names in sight.
struct Walk {
    names: Names,
    /// Numbers of definitions, the innermost last.
    scope: Vec<usize>,
}

impl Walk {
    fn item(&mut self, item: &ast::Item) {
        self.scope.clear();
        match item {
            ast::Item::Function(ast::Function { name, params, body, span }) => {
                let names = params.iter().map(|param| param.name.text.clone()).collect();
                self.add(name, *span, DefinitionKind::Function { params: names });
                self.params(params, |_| DefinitionKind::Parameter);
                match body {
                    ast::FunctionBody::Value(value) => self.expr(value),
                    ast::FunctionBody::Block(block) => self.block(block),
                }
            }
            ast::Item::Collective(ast::CollectiveItem { name, params, body, span }) => {
                let plain = params.iter().filter(|it| it.role == ast::ParamRole::Plain);
                let labels = plain.map(|param| param.name.text.clone()).collect();
                self.add(name, *span, DefinitionKind::Collective { labels });
                let collective = &name.text;
                self.params(params, |role| match role {
                    ast::ParamRole::Plain => {
                        DefinitionKind::Label { collective: collective.clone() }
                    }
                    ast::ParamRole::Ranks | ast::ParamRole::PerNode => DefinitionKind::Parameter,
                });
                self.block(body);
            }
            ast::Item::Algorithm(item) => self.algorithm(item),
        }
    }

    fn algorithm(&mut self, item: &ast::AlgorithmItem) {
        let ast::AlgorithmItem { name, params, implements, clauses, body, span } = item;
        self.add(name, *span, DefinitionKind::Algorithm);
        self.params(params, |_| DefinitionKind::Parameter);
        let ast::Implements { name: collective, args, span: _ } = implements;
        self.use_of(collective, Meaning::Collective);
        for (label, value) in args {
            self.use_of(label, Meaning::Label { collective: collective.text.clone() });
            self.expr(value);
        }
        for clause in clauses {
            match &clause.kind {
                ast::ClauseKind::InPlace
                | ast::ClauseKind::Protocol(_)
                | ast::ClauseKind::Order(_) => {}
                ast::ClauseKind::Instances(value)
                | ast::ClauseKind::Interleaved(value)
                | ast::ClauseKind::Threads(value) => self.expr(value),
                ast::ClauseKind::Bytes(from, to) => {
                    self.expr(from);
                    to.iter().for_each(|to| self.expr(to));
                }
            }
        }
        self.block(body);
    }

    fn params(&mut self, params: &[ast::Param], kind: impl Fn(ast::ParamRole) -> DefinitionKind) {
        for ast::Param { role, name, default, span } in params {
            default.iter().for_each(|default| self.expr(default));
            self.bind(name, *span, kind(*role));
        }
    }

    fn add(&mut self, name: &ast::Name, whole: Span, kind: DefinitionKind) -> usize {
        let (whole, text) = (bytes(whole), name.text.clone());
        self.names.definitions.push(Definition {
            name: text,
            bytes: bytes(name.span),
            whole,
            kind,
        });
        self.names.definitions.len() - 1
    }

    /// A definition that is in sight from here on.
    fn bind(&mut self, name: &ast::Name, whole: Span, kind: DefinitionKind) {
        let number = self.add(name, whole, kind);
        self.scope.push(number);
    }

    fn use_of(&mut self, name: &ast::Name, meaning: Meaning) {
        let text = name.text.clone();
        self.names.uses.push(Use { name: text, bytes: bytes(name.span), meaning });
    }

    /// What binds names until its end.
    fn scoped(&mut self, content: impl FnOnce(&mut Self)) {
        let known = self.scope.len();
        content(self);
        self.scope.truncate(known);
    }

    fn block(&mut self, block: &ast::Block) {
        self.scoped(|walk| block.statements.iter().for_each(|statement| walk.statement(statement)));
    }

    fn statement(&mut self, statement: &ast::Statement) {
        let whole = statement.span;
        match &statement.kind {
            ast::StatementKind::Let { name, value } => {
                self.expr(value);
                self.bind(name, whole, DefinitionKind::Let);
            }
            ast::StatementKind::If { condition, then, otherwise } => {
                self.expr(condition);
                self.block(then);
                otherwise.iter().for_each(|block| self.block(block));
            }
            ast::StatementKind::For { binders, hints, body } => self.scoped(|walk| {
                walk.binders(binders);
                walk.hints(hints);
                walk.block(body);
            }),
            ast::StatementKind::On { hints, body } => {
                self.hints(hints);
                self.block(body);
            }
            ast::StatementKind::Scratch { name, chunks } => {
                self.expr(chunks);
                self.bind(name, whole, DefinitionKind::Scratch);
            }
            ast::StatementKind::Assign { place, op: _, value, hints } => {
                self.expr(place);
                self.expr(value);
                self.hints(hints);
            }
            ast::StatementKind::Call { name, args, hints } => {
                self.use_of(name, Meaning::Function);
                args.iter().for_each(|arg| self.expr(arg));
                self.hints(hints);
            }
            ast::StatementKind::Require { condition, message: _ } => self.expr(condition),
            ast::StatementKind::Given { region } => self.expr(region),
            ast::StatementKind::Promise { place, value } => {
                self.expr(place);
                self.expr(value);
            }
        }
    }

    fn hints(&mut self, hints: &[ast::Hint]) {
        hints.iter().for_each(|hint| self.expr(&hint.value));
    }

    fn binders(&mut self, binders: &ast::Binders) {
        for ast::Binder { pattern, domain } in &binders.list {
            self.expr(domain);
            let names = match pattern {
                ast::Pattern::Name(name) => std::slice::from_ref(name),
                ast::Pattern::List(names) => names,
            };
            let bind = |name: &ast::Name| self.bind(name, name.span, DefinitionKind::Binder);
            names.iter().for_each(bind);
        }
        binders.filter.iter().for_each(|filter| self.expr(filter));
    }

    fn expr(&mut self, expr: &ast::Expr) {
        match &expr.kind {
            ast::ExprKind::Int(_) | ast::ExprKind::Bool(_) | ast::ExprKind::Str(_) => {}
            ast::ExprKind::Name(text) => self.name(text, expr.span),
            ast::ExprKind::List(list) => list.iter().for_each(|one| self.expr(one)),
            ast::ExprKind::Comprehension { binders, element: value }
            | ast::ExprKind::Sum { binders, term: value } => self.scoped(|walk| {
                walk.binders(binders);
                walk.expr(value);
            }),
            ast::ExprKind::Call { name, args } => {
                self.use_of(name, Meaning::Function);
                args.iter().for_each(|arg| self.expr(arg));
            }
            ast::ExprKind::Index { base: one, index: other }
            | ast::ExprKind::At { buffer: one, rank: other }
            | ast::ExprKind::Binary(_, one, other) => {
                self.expr(one);
                self.expr(other);
            }
            ast::ExprKind::Range { from, to, step } => {
                self.expr(from);
                self.expr(to);
                step.iter().for_each(|step| self.expr(step));
            }
            ast::ExprKind::Unary(_, one) => self.expr(one),
            ast::ExprKind::If { condition, then, otherwise } => {
                [condition, then, otherwise].into_iter().for_each(|one| self.expr(one));
            }
        }
    }

    fn name(&mut self, text: &str, span: Span) {
        let in_sight = |number: &&usize| self.names.definitions[**number].name == text;
        let meaning = match (text, self.scope.iter().rev().find(in_sight)) {
            ("input" | "output", _) => Meaning::Buffer,
            (_, Some(&number)) => Meaning::Local(number),
            (_, None) => Meaning::Unknown,
        };
        let name = ast::Name { text: text.to_owned(), span };
        self.use_of(&name, meaning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_syntax::{SourceMap, parse};

    /// Each use of `name` with the byte at which its definition stands.
    fn meanings(text: &str, name: &str) -> Vec<Option<usize>> {
        let mut sources = SourceMap::new();
        let file = sources.add("x", text);
        let names = Names::of(&parse(&sources, file).unwrap());
        let uses = names.uses.iter().filter(|it| it.name == name);
        let place = |it: &Use| match it.meaning {
            Meaning::Local(number) => Some(names.definitions[number].bytes.start),
            _ => None,
        };
        uses.map(place).collect()
    }

    #[test]
    fn scopes_end_with_their_blocks() {
        let text = "fn f(r) { let x = r for x in 0..x { let y = x } let z = x + y }";
        assert_eq!(meanings(text, "x"), [Some(14), Some(24), Some(14)]);
        assert_eq!(meanings(text, "y"), [None]);
        assert_eq!(meanings(text, "r"), [Some(5)]);
    }

    #[test]
    fn a_value_does_not_see_its_own_name() {
        let text = "fn f(x) { let x = x + sum(x in 0..x: x) let y = x }";
        assert_eq!(meanings(text, "x"), [Some(5), Some(5), Some(26), Some(14)]);
    }

    #[test]
    fn labels_belong_to_their_collective() {
        let text = "algorithm a(ranks N = 2) implements shift(chunks N) { }";
        let mut sources = SourceMap::new();
        let file = sources.add("x", text);
        let names = Names::of(&parse(&sources, file).unwrap());
        let label = names.uses.iter().find(|it| it.name == "chunks").unwrap();
        assert_eq!(label.meaning, Meaning::Label { collective: "shift".to_owned() });
    }
}
