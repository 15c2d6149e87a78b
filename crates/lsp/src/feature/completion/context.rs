//! What may be written at the end of a text, by its tokens.

use crate::token::{Token, TokenKind, tokens};

/// What fits, and which local names are in sight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Context {
    /// What fits.
    pub expected: Expected,
    /// Parameters, `let`, `scratch` and binders in sight; the innermost last.
    pub locals: Vec<String>,
}

/// What fits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// A new name, or a comment: nothing that is known.
    Nothing,
    /// A name in a comment that asks for launches.
    Launch,
    /// `fn`, `algorithm`, …
    Item,
    /// A module, after `import`.
    Module,
    /// `ranks` or `per_node`.
    Parameter,
    /// `implements`.
    Implements,
    /// A collective, after `implements`.
    Collective,
    /// A label of a collective.
    Label {
        /// The collective.
        collective: String,
    },
    /// A clause of an algorithm's head.
    Clause,
    /// After `protocol`.
    Protocol,
    /// After `order`.
    Order,
    /// `place`, after `in`.
    Place,
    /// After `on`.
    Hint,
    /// A statement or an expression.
    Code,
}

impl Context {
    /// What fits at the end of `text`.
    pub fn of(text: &str) -> Self {
        let mut all = tokens(text);
        let at_end = |token: &Token| token.bytes.end == text.len();
        let last = all.last().filter(|token| at_end(token));
        match last.map(|token| token.kind) {
            Some(TokenKind::Comment) => {
                let comment = last.map(|token| token.of(text)).unwrap_or_default();
                let comment = comment.trim_start_matches('/').trim_start();
                let is_launch = comment.starts_with("msccl:");
                return Self::only(if is_launch { Expected::Launch } else { Expected::Nothing });
            }
            Some(TokenKind::Text | TokenKind::Number) => return Self::only(Expected::Nothing),
            // The word that is being written.
            Some(TokenKind::Word) => drop(all.pop()),
            Some(TokenKind::Symbol) | None => {}
        }
        all.retain(|token| token.kind != TokenKind::Comment);
        let words: Vec<&str> = all.iter().map(|token| token.of(text)).collect();
        let start = item_start(&words);
        let item = &words[start..];
        Self { expected: expected(item), locals: locals(item) }
    }

    fn only(expected: Expected) -> Self {
        Self { expected, locals: Vec::new() }
    }
}

/// Words that begin a definition with a head.
const HEADS: [&str; 3] = ["fn", "collective", "algorithm"];

/// Where the last definition begins; the end, if that is complete.
fn item_start(words: &[&str]) -> usize {
    let (mut depth, mut start) = (0_i32, 0);
    for (at, word) in words.iter().enumerate() {
        match *word {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    start = at + 1;
                }
            }
            word if HEADS.contains(&word) || word == "import" => {
                // A definition in a block is a mistake: the block has no end yet.
                (start, depth) = (at, 0);
            }
            _ => {}
        }
    }
    start
}

fn expected(item: &[&str]) -> Expected {
    let last = item.last().copied().unwrap_or_default();
    match item.first().copied() {
        None => return Expected::Item,
        Some("import") if item.len() == 1 => return Expected::Module,
        Some("import") => return Expected::Item,
        Some(first) if !HEADS.contains(&first) => return Expected::Item,
        Some(_) if item.len() == 1 => return Expected::Nothing,
        Some("algorithm") if !item.contains(&"{") => return in_head(item),
        Some(_) if !item.contains(&"{") && !item.contains(&"=") => return Expected::Parameter,
        Some(_) => {}
    }
    match last {
        "let" | "scratch" | "for" => Expected::Nothing,
        "on" => Expected::Hint,
        "," if is_in_hints(item) => Expected::Hint,
        _ => Expected::Code,
    }
}

/// In the head of an algorithm.
fn in_head(item: &[&str]) -> Expected {
    let last = item.last().copied().unwrap_or_default();
    let is_open = depth(item) > 0;
    let implements = item.iter().position(|word| *word == "implements");
    match (implements, last) {
        (None, "(" | ",") if is_open => Expected::Parameter,
        (None, _) if is_open => Expected::Code,
        (None, ")") => Expected::Implements,
        (None, _) => Expected::Nothing,
        (Some(_), "implements") => Expected::Collective,
        (Some(at), "(" | ",") if is_open => {
            let collective = item.get(at + 1).copied().unwrap_or_default().to_owned();
            Expected::Label { collective }
        }
        (Some(_), _) if is_open => Expected::Code,
        (Some(_), "protocol") => Expected::Protocol,
        (Some(_), "order") => Expected::Order,
        (Some(_), "in") => Expected::Place,
        (Some(_), "instances" | "interleaved" | "bytes" | "threads" | "..") => Expected::Code,
        (Some(_), _) => Expected::Clause,
    }
}

/// How many parentheses are open.
fn depth(words: &[&str]) -> i32 {
    words.iter().fold(0, |depth, word| match *word {
        "(" => depth + 1,
        ")" => depth - 1,
        _ => depth,
    })
}

/// Whether a `,` at the end stands between hints.
fn is_in_hints(item: &[&str]) -> bool {
    let mut depth = 0;
    for word in item.iter().rev() {
        match *word {
            ")" | "]" => depth += 1,
            "(" | "[" if depth == 0 => return false,
            "(" | "[" => depth -= 1,
            "on" if depth == 0 => return true,
            "{" | "}" | "=" | "+=" | "for" | "let" => return false,
            _ => {}
        }
    }
    false
}

/// A name, and the brackets around it.
struct Local {
    name: String,
    /// Open braces where it is in sight; it ends when there are fewer.
    braces: i32,
    /// Open parentheses and brackets likewise.
    brackets: i32,
}

/// The local names in sight at the end of a definition that has begun.
fn locals(item: &[&str]) -> Vec<String> {
    let mut found: Vec<Local> = Vec::new();
    let (mut braces, mut brackets) = (0, 0);
    let mut has_params = false;
    for (at, word) in item.iter().enumerate() {
        let before = if at > 0 { item[at - 1] } else { "" };
        let next = item.get(at + 1).copied().unwrap_or_default();
        match *word {
            "{" => braces += 1,
            "}" => {
                braces -= 1;
                found.retain(|local| local.braces <= braces);
            }
            "(" | "[" => brackets += 1,
            ")" | "]" => {
                brackets -= 1;
                has_params |= braces == 0 && brackets == 0;
                found.retain(|local| local.brackets <= brackets);
            }
            name if is_word(name) => {
                let is_role = ["ranks", "per_node"].contains(&name) && is_word(next);
                let is_param = braces == 0
                    && brackets == 1
                    && !has_params
                    && !is_role
                    && ["(", ",", "ranks", "per_node"].contains(&before);
                let is_named = ["let", "scratch"].contains(&before);
                let is_binder = next == "in" || is_in_pattern(&item[at..]);
                if is_param {
                    found.push(Local { name: name.to_owned(), braces: 0, brackets: 0 });
                } else if is_named {
                    found.push(Local { name: name.to_owned(), braces, brackets: 0 });
                } else if is_binder {
                    // A binder of a loop is in sight in the block that follows.
                    let in_loop = brackets == 0;
                    let braces = if in_loop { braces + 1 } else { braces };
                    let pattern = i32::from(next != "in");
                    let brackets = (brackets - pattern).max(0);
                    found.push(Local { name: name.to_owned(), braces, brackets });
                }
            }
            _ => {}
        }
    }
    found.into_iter().map(|local| local.name).collect()
}

/// Whether a list of names goes on as `…] in`.
fn is_in_pattern(rest: &[&str]) -> bool {
    let Some(end) = rest.iter().position(|word| *word == "]") else { return false };
    let inside = rest[..end].iter().all(|word| is_word(word) || *word == ",");
    inside && rest.get(end + 1) == Some(&"in")
}

fn is_word(word: &str) -> bool {
    crate::token::is_name(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Expected, locals: &[&str]) {
        let found = Context::of(text);
        assert_eq!(
            (found.expected, found.locals),
            (expected, locals.iter().map(|it| (*it).to_owned()).collect()),
            "{text}"
        );
    }

    #[test]
    fn heads_want_their_parts() {
        check("", Expected::Item, &[]);
        check("fn f(a) = a\nalg", Expected::Code, &["a"]);
        check("fn f(a) { }\nalg", Expected::Item, &[]);
        check("import ri", Expected::Module, &[]);
        check("algorithm a(", Expected::Parameter, &[]);
        check("algorithm a(ranks N = 4) imp", Expected::Implements, &["N"]);
        check("algorithm a(ranks N) implements all", Expected::Collective, &["N"]);
        let label = Expected::Label { collective: "shift".to_owned() };
        check("algorithm a(ranks N) implements shift(", label, &["N"]);
        check("algorithm a(ranks N) implements shift(chunks N", Expected::Code, &["N"]);
        check("algorithm a(ranks N) implements x() in ", Expected::Place, &["N"]);
        check("algorithm a(ranks N) implements x() protocol L", Expected::Protocol, &["N"]);
        check("algorithm a(ranks N) implements x() pro", Expected::Clause, &["N"]);
    }

    #[test]
    fn locals_end_with_their_brackets() {
        let head = "algorithm a(ranks N = 4, C = 1) implements allreduce() {\n";
        let body = |code: &str| format!("{head}{code}");
        check(&body("for r in 0..N { let x = r } in"), Expected::Code, &["N", "C"]);
        check(&body("for r in 0..N { let x = r\n in"), Expected::Code, &["N", "C", "r", "x"]);
        check(&body("input@0 = sum(q in 0..N: inp"), Expected::Code, &["N", "C", "q"]);
        check(&body("let y = sum(q in 0..N: q) + "), Expected::Code, &["N", "C", "y"]);
        check(&body("for [a, b] in [[1, 2]] { "), Expected::Code, &["N", "C", "a", "b"]);
        check(&body("scratch box[1]\n input@0 = input@1 on "), Expected::Hint, &["N", "C", "box"]);
        check(&body("input@0 = input@1 on channel 1, "), Expected::Hint, &["N", "C"]);
        check(&body("let "), Expected::Nothing, &["N", "C"]);
        check(&body("// ranks"), Expected::Nothing, &[]);
        check("// msccl: ra", Expected::Launch, &[]);
    }
}
