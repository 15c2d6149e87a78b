//! Abstract syntax. Every node knows its span; nothing is resolved, evaluated or desugared.

use crate::Span;

/// One source file.
#[derive(Clone, PartialEq, Debug)]
pub struct File {
    /// `import ring` or `import "path/to/file.msccl"`, in order.
    pub imports: Vec<Import>,
    /// Functions, collectives and algorithms, in order.
    pub items: Vec<Item>,
}

/// An import.
#[derive(Clone, PartialEq, Debug)]
pub struct Import {
    /// What is imported.
    pub what: ImportPath,
    /// The whole clause.
    pub span: Span,
}

/// What an import names.
#[derive(Clone, PartialEq, Debug)]
pub enum ImportPath {
    /// `import ring`: a module of the standard library.
    Standard(String),
    /// `import "ring.msccl"`: a file, relative to the importing one.
    File(String),
}

/// A definition.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// `fn name(…) { … }` or `fn name(…) = …`.
    Function(Function),
    /// `collective name(…) { … }`.
    Collective(CollectiveItem),
    /// `algorithm name(…) implements …(…) { … }`.
    Algorithm(AlgorithmItem),
}

/// A name at a place.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Name {
    /// The identifier.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// A parameter: `ranks N = 8`, `per_node G = 4` or `C = 1`.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Which fact about the launch it stands for.
    pub role: ParamRole,
    /// Its name.
    pub name: Name,
    /// Its value if none is given; may use earlier parameters.
    pub default: Option<Expr>,
    /// The whole parameter.
    pub span: Span,
}

/// Which fact about the launch a parameter stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamRole {
    /// `ranks N`: the number of ranks.
    Ranks,
    /// `per_node G`: ranks on one node, for the questions `node(r)`, `local(r)`, `rail(r)`.
    PerNode,
    /// A plain value.
    Plain,
}

/// `fn name(params) body`.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// Its name.
    pub name: Name,
    /// Its parameters, all of role [`ParamRole::Plain`].
    pub params: Vec<Param>,
    /// What it computes or does.
    pub body: FunctionBody,
    /// The whole definition.
    pub span: Span,
}

/// What a function is for.
#[derive(Clone, PartialEq, Debug)]
pub enum FunctionBody {
    /// `= expr`: a value.
    Value(Expr),
    /// `{ … }`: statements, called as a statement.
    Block(Block),
}

/// `collective name(params) [in place] { … }`: a custom collective, by pre- and post-condition.
#[derive(Clone, PartialEq, Debug)]
pub struct CollectiveItem {
    /// Its name.
    pub name: Name,
    /// Its parameters; the one of role [`ParamRole::Ranks`] takes the algorithm's rank count.
    pub params: Vec<Param>,
    /// `given` and `promise` statements, with `for`, `if`, `let`, `require` around them.
    pub body: Block,
    /// The whole definition.
    pub span: Span,
}

/// `algorithm name(params) implements collective(args) clauses { … }`.
#[derive(Clone, PartialEq, Debug)]
pub struct AlgorithmItem {
    /// Its name.
    pub name: Name,
    /// Its parameters; exactly one of role [`ParamRole::Ranks`].
    pub params: Vec<Param>,
    /// What it implements.
    pub implements: Implements,
    /// What follows `implements …`, in order.
    pub clauses: Vec<Clause>,
    /// The program.
    pub body: Block,
    /// The whole definition.
    pub span: Span,
}

/// `allreduce(chunks N)`: a collective with labelled arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Implements {
    /// The collective.
    pub name: Name,
    /// `label expr` pairs: `chunks N`, `root 0`, or a custom collective's parameters.
    pub args: Vec<(Name, Expr)>,
    /// From the collective's name to the closing parenthesis.
    pub span: Span,
}

/// A clause of an algorithm's head.
#[derive(Clone, PartialEq, Debug)]
pub struct Clause {
    /// Which.
    pub kind: ClauseKind,
    /// The whole clause.
    pub span: Span,
}

/// The clauses of an algorithm's head. All are optional and none changes what is computed.
#[derive(Clone, PartialEq, Debug)]
pub enum ClauseKind {
    /// `in place`: input and output are one memory.
    InPlace,
    /// `protocol LL`.
    Protocol(Name),
    /// `instances 2`: that many copies, each on its part of every chunk.
    Instances(Expr),
    /// `interleaved 2`: that many parts of every chunk, which thread blocks handle by turns.
    Interleaved(Expr),
    /// `bytes 0 .. 64KiB`: sizes served, upper end exclusive; without an upper end, all above.
    Bytes(Expr, Option<Expr>),
    /// `threads 512`: threads per thread block.
    Threads(Expr),
    /// `order flat`: the order in which the algorithm claims to add.
    Order(Name),
}

/// `{ … }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// In order.
    pub statements: Vec<Statement>,
    /// With the braces.
    pub span: Span,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// What it does.
    pub kind: StatementKind,
    /// The whole statement.
    pub span: Span,
}

/// What a statement does.
#[derive(Clone, PartialEq, Debug)]
pub enum StatementKind {
    /// `let x = e`.
    Let {
        /// The new name.
        name: Name,
        /// Its value.
        value: Expr,
    },
    /// `if c { … } else { … }`; `else if` is an `else` block of one `if` statement.
    If {
        /// The condition.
        condition: Expr,
        /// If it holds.
        then: Block,
        /// If not.
        otherwise: Option<Block>,
    },
    /// `for i in a, j in b if c on hints { … }`; later binders vary faster.
    For {
        /// Binders, at least one, and the filter.
        binders: Binders,
        /// Placement of everything inside.
        hints: Vec<Hint>,
        /// The body.
        body: Block,
    },
    /// `on hints { … }`.
    On {
        /// Placement of everything inside.
        hints: Vec<Hint>,
        /// The body.
        body: Block,
    },
    /// `scratch name[e]`: a fresh buffer of `e` chunks on every rank.
    Scratch {
        /// Its name in this block.
        name: Name,
        /// Chunks per rank.
        chunks: Expr,
    },
    /// `place = e on hints` or `place += e on hints`.
    Assign {
        /// The destination: an expression that denotes a region.
        place: Expr,
        /// `=` or `+=`.
        op: AssignOp,
        /// A region, or a sum of regions.
        value: Expr,
        /// Placement.
        hints: Vec<Hint>,
    },
    /// `name(args)`: runs the block of a function.
    Call {
        /// The function.
        name: Name,
        /// Its arguments, by position.
        args: Vec<Expr>,
        /// Placement of everything inside.
        hints: Vec<Hint>,
    },
    /// `require c, "message"`.
    Require {
        /// Must hold.
        condition: Expr,
        /// What to say if it does not.
        message: Option<String>,
    },
    /// `given region` (custom collectives): the region holds a value at the start.
    Given {
        /// Input slots.
        region: Expr,
    },
    /// `promise place = e` (custom collectives): what an output region holds at the end.
    Promise {
        /// Output slots.
        place: Expr,
        /// A region of inputs, or a sum of such.
        value: Expr,
    },
}

/// `=` or `+=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssignOp {
    /// The destination becomes the value.
    Copy,
    /// The destination becomes itself combined with the value.
    Reduce,
}

/// `i in a, [x, y] in b if c`.
#[derive(Clone, PartialEq, Debug)]
pub struct Binders {
    /// At least one; later ones may use earlier names and vary faster.
    pub list: Vec<Binder>,
    /// Keep only what satisfies this.
    pub filter: Option<Expr>,
}

/// `pattern in domain`.
#[derive(Clone, PartialEq, Debug)]
pub struct Binder {
    /// What is bound.
    pub pattern: Pattern,
    /// A range or a list.
    pub domain: Expr,
}

/// What a binder binds.
#[derive(Clone, PartialEq, Debug)]
pub enum Pattern {
    /// One name.
    Name(Name),
    /// `[a, b]`: the elements of a list of that length.
    List(Vec<Name>),
}

/// A placement hint.
#[derive(Clone, PartialEq, Debug)]
pub struct Hint {
    /// What is placed.
    pub kind: HintKind,
    /// Where to: an integer.
    pub value: Expr,
    /// The whole hint.
    pub span: Span,
}

/// What a hint places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HintKind {
    /// `channel e`.
    Channel,
    /// `tb e`: the thread block on every rank involved.
    Tb,
    /// `send tb e`: the thread block on the sending rank.
    SendTb,
    /// `receive tb e`: the thread block on the receiving rank.
    ReceiveTb,
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where.
    pub span: Span,
}

/// What an expression is.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// `42`, `1_000`, `64KiB`.
    Int(i64),
    /// `true`, `false`.
    Bool(bool),
    /// `"text"`.
    Str(String),
    /// A variable; also the buffers `input` and `output`.
    Name(String),
    /// `[a, b, c]`.
    List(Vec<Expr>),
    /// `[i in 0..4 if c: e]`.
    Comprehension {
        /// Binders and filter.
        binders: Box<Binders>,
        /// One element.
        element: Box<Expr>,
    },
    /// `sum(i in 0..4 if c: e)`: of integers, or of regions.
    Sum {
        /// Binders and filter.
        binders: Box<Binders>,
        /// One term.
        term: Box<Expr>,
    },
    /// `name(args)`: a function's value or a built-in.
    Call {
        /// The function.
        name: Name,
        /// Its arguments, by position.
        args: Vec<Expr>,
    },
    /// `e[i]`: a list element, the slot of a buffer at a rank, the slot of a region.
    Index {
        /// What is indexed.
        base: Box<Expr>,
        /// With what: an integer, or a range for a slice or sub-region.
        index: Box<Expr>,
    },
    /// `e@r`: a buffer at a rank.
    At {
        /// A buffer.
        buffer: Box<Expr>,
        /// A rank.
        rank: Box<Expr>,
    },
    /// `a..b` or `a..b by s`.
    Range {
        /// The first integer.
        from: Box<Expr>,
        /// Where it ends; not part of it.
        to: Box<Expr>,
        /// From one integer to the next; 1 if there is none.
        step: Option<Box<Expr>>,
    },
    /// `-e`, `not e`.
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`, …
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `if c then a else b`.
    If {
        /// The condition.
        condition: Box<Expr>,
        /// If it holds.
        then: Box<Expr>,
        /// If not.
        otherwise: Box<Expr>,
    },
}

/// A prefix operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// `-e`.
    Negate,
    /// `not e`.
    Not,
}

/// An infix operator. Division rounds towards minus infinity and `%` is never negative for a
/// positive divisor, so that `(r - 1) % N` is the previous rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each variant's token is listed in `docs/LANGUAGE.md`.
pub enum BinaryOp {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}
