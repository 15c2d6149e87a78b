//! A tree as text without spans: prefix notation, one definition or statement per line.

use msccl_syntax::ast::{
    AssignOp, BinaryOp, Binders, Block, ClauseKind, Expr, ExprKind, File, FunctionBody, Hint,
    HintKind, ImportPath, Item, Name, Param, ParamRole, Pattern, Statement, StatementKind, UnaryOp,
};
use msccl_syntax::{Diagnostic, FileId, SourceMap, parse};

/// The tree of a text.
pub fn tree(text: &str) -> Result<String, Vec<Diagnostic>> {
    let mut sources = SourceMap::new();
    let file = sources.add("test.msccl", text);
    assert_eq!(file, FileId(0));
    parse(&sources, file).map(|file| show(&file))
}

/// What must parse.
pub fn parsed(text: &str) -> String {
    tree(text).unwrap_or_else(|found| panic!("{text}\ndoes not parse: {found:#?}"))
}

/// The tree of a file.
pub fn show(file: &File) -> String {
    let File { imports, items } = file;
    let mut out = String::new();
    for import in imports {
        out += &match &import.what {
            ImportPath::Standard(name) => format!("import {name}\n"),
            ImportPath::File(path) => format!("import {path:?}\n"),
        };
    }
    items.iter().for_each(|definition| out += &item(definition));
    out
}

fn item(item: &Item) -> String {
    match item {
        Item::Function(function) => {
            let head = format!("fn {} {}", function.name.text, params(&function.params));
            match &function.body {
                FunctionBody::Value(value) => format!("{head} = {}\n", expr(value)),
                FunctionBody::Block(body) => format!("{head}\n{}", block(body, 1)),
            }
        }
        Item::Collective(item) => {
            let body = block(&item.body, 1);
            format!("collective {} {}\n{body}", item.name.text, params(&item.params))
        }
        Item::Algorithm(item) => {
            let implements = &item.implements;
            let args = implements.args.iter().map(|(l, e)| format!("{} {}", l.text, expr(e)));
            let clauses = item.clauses.iter().map(|it| format!(" {}", clause(&it.kind)));
            format!(
                "algorithm {} {} {}({}){}\n{}",
                item.name.text,
                params(&item.params),
                implements.name.text,
                args.collect::<Vec<_>>().join(", "),
                clauses.collect::<String>(),
                block(&item.body, 1),
            )
        }
    }
}

fn params(params: &[Param]) -> String {
    let param = |Param { role, name, default, span: _ }: &Param| {
        let role = match role {
            ParamRole::Ranks => "ranks ",
            ParamRole::PerNode => "per_node ",
            ParamRole::Plain => "",
        };
        let default = default.as_ref().map(|value| format!(" = {}", expr(value)));
        format!("{role}{}{}", name.text, default.unwrap_or_default())
    };
    format!("({})", params.iter().map(param).collect::<Vec<_>>().join(", "))
}

fn clause(kind: &ClauseKind) -> String {
    match kind {
        ClauseKind::InPlace => "in place".to_string(),
        ClauseKind::Protocol(name) => format!("protocol {}", name.text),
        ClauseKind::Instances(count) => format!("instances {}", expr(count)),
        ClauseKind::Interleaved(count) => format!("interleaved {}", expr(count)),
        ClauseKind::Bytes(from, Some(to)) => format!("bytes {} .. {}", expr(from), expr(to)),
        ClauseKind::Bytes(from, None) => format!("bytes {} ..", expr(from)),
        ClauseKind::Threads(count) => format!("threads {}", expr(count)),
        ClauseKind::Order(name) => format!("order {}", name.text),
    }
}

fn block(block: &Block, level: usize) -> String {
    block.statements.iter().map(|inner| statement(inner, level)).collect()
}

fn statement(statement: &Statement, level: usize) -> String {
    let indent = "  ".repeat(level);
    let inner = |body: &Block| block(body, level + 1);
    let line = match &statement.kind {
        StatementKind::Let { name, value } => format!("let {} {}", name.text, expr(value)),
        StatementKind::If { condition, then, otherwise } => {
            let otherwise = otherwise.as_ref().map(|body| format!("{indent}else\n{}", inner(body)));
            let then = inner(then);
            return format!(
                "{indent}if {}\n{then}{}",
                expr(condition),
                otherwise.unwrap_or_default()
            );
        }
        StatementKind::For { binders, hints, body } => {
            let head = format!("for {}{}", show_binders(binders), show_hints(hints));
            return format!("{indent}{head}\n{}", inner(body));
        }
        StatementKind::On { hints, body } => {
            return format!("{indent}place{}\n{}", show_hints(hints), inner(body));
        }
        StatementKind::Scratch { name, chunks } => {
            format!("scratch {} {}", name.text, expr(chunks))
        }
        StatementKind::Assign { place, op, value, hints } => {
            let op = match op {
                AssignOp::Copy => "=",
                AssignOp::Reduce => "+=",
            };
            format!("{op} {} {}{}", expr(place), expr(value), show_hints(hints))
        }
        StatementKind::Call { name, args, hints } => {
            format!("call {}{}", show_call(name, args), show_hints(hints))
        }
        StatementKind::Require { condition, message } => {
            let message = message.as_ref().map(|text| format!(" {text:?}")).unwrap_or_default();
            format!("require {}{message}", expr(condition))
        }
        StatementKind::Given { region } => format!("given {}", expr(region)),
        StatementKind::Promise { place, value } => {
            format!("promise {} {}", expr(place), expr(value))
        }
    };
    format!("{indent}{line}\n")
}

fn show_hints(hints: &[Hint]) -> String {
    let hint = |Hint { kind, value, span: _ }: &Hint| {
        let kind = match kind {
            HintKind::Channel => "channel",
            HintKind::Tb => "tb",
            HintKind::SendTb => "send tb",
            HintKind::ReceiveTb => "receive tb",
        };
        format!(" on {kind} {}", expr(value))
    };
    hints.iter().map(hint).collect()
}

fn show_binders(Binders { list, filter }: &Binders) -> String {
    let names =
        |names: &[Name]| names.iter().map(|n| n.text.as_str()).collect::<Vec<_>>().join(" ");
    let binder = |pattern: &Pattern| match pattern {
        Pattern::Name(name) => name.text.clone(),
        Pattern::List(list) => format!("[{}]", names(list)),
    };
    let list = list.iter().map(|it| format!("{} in {}", binder(&it.pattern), expr(&it.domain)));
    let filter = filter.as_ref().map(|filter| format!(" if {}", expr(filter)));
    list.collect::<Vec<_>>().join(", ") + &filter.unwrap_or_default()
}

fn show_call(name: &Name, args: &[Expr]) -> String {
    format!("{}({})", name.text, exprs(args))
}

fn exprs(list: &[Expr]) -> String {
    list.iter().map(expr).collect::<Vec<_>>().join(" ")
}

fn expr(it: &Expr) -> String {
    match &it.kind {
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Str(text) => format!("{text:?}"),
        ExprKind::Name(name) => name.clone(),
        ExprKind::List(list) => format!("[{}]", exprs(list)),
        ExprKind::Comprehension { binders, element } => {
            format!("[{}: {}]", show_binders(binders), expr(element))
        }
        ExprKind::Sum { binders, term } => {
            format!("sum({}: {})", show_binders(binders), expr(term))
        }
        ExprKind::Call { name, args } => show_call(name, args),
        ExprKind::Index { base, index } => format!("(index {} {})", expr(base), expr(index)),
        ExprKind::At { buffer, rank } => format!("(@ {} {})", expr(buffer), expr(rank)),
        ExprKind::Range { from, to, step } => {
            let step = step.as_ref().map(|step| format!(" {}", expr(step))).unwrap_or_default();
            format!("(.. {} {}{step})", expr(from), expr(to))
        }
        ExprKind::Unary(UnaryOp::Negate, operand) => format!("(neg {})", expr(operand)),
        ExprKind::Unary(UnaryOp::Not, operand) => format!("(not {})", expr(operand)),
        ExprKind::Binary(op, left, right) => {
            format!("({} {} {})", sign(*op), expr(left), expr(right))
        }
        ExprKind::If { condition, then, otherwise } => {
            format!("(if {} {} {})", expr(condition), expr(then), expr(otherwise))
        }
    }
}

fn sign(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Or => "or",
        BinaryOp::And => "and",
        BinaryOp::Equal => "==",
        BinaryOp::NotEqual => "!=",
        BinaryOp::Less => "<",
        BinaryOp::LessEqual => "<=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterEqual => ">=",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
        BinaryOp::BitAnd => "&",
        BinaryOp::ShiftLeft => "<<",
        BinaryOp::ShiftRight => ">>",
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Remainder => "%",
        BinaryOp::Power => "**",
    }
}
