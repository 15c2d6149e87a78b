//! A program with its names resolved: variables are slots of a frame, functions and statements
//! are numbers. What the evaluator runs.

use std::rc::Rc;

use msccl_syntax::Span;
use msccl_syntax::ast::{AssignOp, BinaryOp, HintKind, ParamRole};

use super::builtin::Builtin;

/// All that one algorithm may use.
pub(super) struct Program {
    pub functions: Vec<Function>,
    pub collectives: Vec<Collective>,
    pub algorithm: Algorithm,
    /// Where every statement that moves data or calls a block stands; by [`Site`].
    pub sites: Vec<Span>,
}

/// Number of a statement that moves data or calls a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Site(pub u32);

/// Number of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FunctionId(pub u32);

/// A variable's place in its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Local(pub u32);

/// A function, a collective's conditions or an algorithm run in a frame of `locals` variables, of
/// which the first are the parameters.
pub(super) struct Frame {
    pub params: Vec<Param>,
    pub locals: u32,
}

pub(super) struct Param {
    pub role: ParamRole,
    pub name: String,
    pub default: Option<Expr>,
    pub span: Span,
}

pub(super) struct Function {
    pub frame: Frame,
    pub body: Body,
}

pub(super) enum Body {
    Value(Expr),
    Block(Block),
}

pub(super) struct Collective {
    pub name: String,
    pub frame: Frame,
    pub body: Block,
}

pub(super) struct Algorithm {
    pub name: String,
    pub name_span: Span,
    pub frame: Frame,
    pub implements: Implements,
    pub clauses: Vec<Clause>,
    pub body: Block,
}

pub(super) struct Implements {
    pub name: String,
    /// The file's own collective of that name, if there is one.
    pub custom: Option<u32>,
    pub args: Vec<(String, Span, Expr)>,
    pub span: Span,
}

pub(super) struct Clause {
    pub kind: ClauseKind,
    pub span: Span,
}

pub(super) enum ClauseKind {
    InPlace,
    Protocol(String),
    Instances(Expr),
    Interleaved(Expr),
    Bytes(Expr, Option<Expr>),
    Threads(Expr),
    Order(String),
}

pub(super) type Block = Vec<Statement>;

pub(super) struct Statement {
    pub kind: StatementKind,
    pub span: Span,
}

pub(super) enum StatementKind {
    Let { local: Local, value: Expr },
    If { condition: Expr, then: Block, otherwise: Block },
    For { binders: Binders, hints: Vec<Hint>, body: Block },
    On { hints: Vec<Hint>, body: Block },
    Scratch { local: Local, name: Rc<str>, chunks: Expr },
    Assign { site: Site, place: Expr, op: AssignOp, value: Expr, hints: Vec<Hint> },
    Call { site: Site, function: FunctionId, args: Vec<Expr>, hints: Vec<Hint> },
    Require { condition: Expr, message: Option<String> },
    Given { region: Expr },
    Promise { place: Expr, value: Expr },
}

pub(super) struct Hint {
    pub kind: HintKind,
    pub value: Expr,
}

pub(super) struct Binders {
    pub list: Vec<Binder>,
    pub filter: Option<Expr>,
}

pub(super) struct Binder {
    pub pattern: Pattern,
    pub domain: Expr,
    pub span: Span,
}

pub(super) enum Pattern {
    One(Local),
    List(Vec<Local>),
}

pub(super) struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

pub(super) enum ExprKind {
    Int(i64),
    Bool(bool),
    Str(Rc<str>),
    Local(Local),
    Input,
    Output,
    List(Vec<Expr>),
    Comprehension(Box<(Binders, Expr)>),
    Sum(Box<(Binders, Expr)>),
    Call(FunctionId, Vec<Expr>),
    Builtin(Builtin, Vec<Expr>),
    /// Base, index.
    Index(Box<(Expr, Expr)>),
    /// Buffer, rank.
    At(Box<(Expr, Expr)>),
    Range(Box<(Expr, Expr)>),
    /// From, to, step.
    Stepped(Box<(Expr, Expr, Expr)>),
    Negate(Box<Expr>),
    Not(Box<Expr>),
    Binary(BinaryOp, Box<(Expr, Expr)>),
    /// Condition, then, otherwise.
    If(Box<(Expr, Expr, Expr)>),
    /// It had errors, which are reported.
    Broken,
}
