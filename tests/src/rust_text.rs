//! Rust texts as tests of the project's own sources read them: code without comments and literals,
//! and its tokens.

use std::collections::BTreeSet;

/// A name, a number, `::`, or any other single character, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The text itself.
    pub text: &'a str,
    /// Its line, from 1 on.
    pub line: usize,
}

impl Token<'_> {
    /// Whether this is a name or a keyword.
    pub fn is_name(&self) -> bool {
        self.text.starts_with(|it: char| it.is_alphabetic() || it == '_')
    }
}

/// The tokens of `code`, which has neither comments nor literals ([`Source::code`]).
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while !rest.is_empty() {
            let (text, after) = rest.split_at(token_length(rest));
            tokens.push(Token { text, line: number + 1 });
            rest = after.trim_start();
        }
    }
    tokens
}

/// The length in bytes of the token that `rest` begins with.
fn token_length(rest: &str) -> usize {
    let is_part = |it: char| it.is_alphanumeric() || it == '_';
    let first = rest.chars().next().map_or(0, char::len_utf8);
    match rest.find(|it| !is_part(it)) {
        Some(0) if rest.starts_with("::") => 2,
        Some(0) => first,
        Some(length) => length,
        None => rest.len(),
    }
}

/// The place behind the bracket that closes the one at `open`, or behind the last token.
pub fn behind_bracket(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_u32;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// A function that has a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1 on.
    pub line: usize,
    /// How many lines it has from there to the brace that closes it.
    pub lines: usize,
}

/// The functions of a text, those inside of others and in macros among them.
pub fn functions(text: &str) -> Vec<Function> {
    let code = Source::new(text).code;
    let tokens = tokens(&code);
    let named = tokens.windows(2).enumerate();
    let named = named.filter(|(_, pair)| pair[0].text == "fn" && pair[1].is_name());
    let with_body = named.filter_map(|(at, pair)| {
        let end = tokens.get(behind_bracket(&tokens, body(&tokens, at)?) - 1)?;
        let (name, line) = (pair[1].text.to_owned(), pair[0].line);
        Some(Function { name, line, lines: end.line + 1 - line })
    });
    with_body.collect()
}

/// Where the body of the function at `at` opens, if it has one.
fn body(tokens: &[Token], at: usize) -> Option<usize> {
    let mut at = at;
    loop {
        match tokens.get(at)?.text {
            "{" => return Some(at),
            ";" => return None,
            "(" | "[" => at = behind_bracket(tokens, at),
            _ => at += 1,
        }
    }
}

/// A Rust text as far as tests look at it.
pub struct Source {
    /// The text with blanks in place of comments and literals.
    pub code: String,
    /// The lines, from 0 on, that have a part of a raw literal.
    pub raw_lines: BTreeSet<usize>,
    /// Comments and literals, in their order. Comments that nothing parts are one.
    pub prose: Vec<Prose>,
}

/// A comment or a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prose {
    /// Which of the two.
    pub kind: ProseKind,
    /// Where it begins: a line, from 1 on.
    pub line: usize,
    /// All of it, with the marks around it.
    pub text: String,
}

/// What people read of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProseKind {
    /// A comment, of whatever form.
    Comment,
    /// A literal of characters.
    Literal,
}

impl Source {
    /// Reads a text; it need not be whole.
    pub fn new(text: &str) -> Self {
        let all: Vec<char> = text.chars().collect();
        let (code, raw_lines) = (String::with_capacity(text.len()), BTreeSet::new());
        let mut source = Self { code, raw_lines, prose: Vec::new() };
        let (mut at, mut line, mut prose_end) = (0, 0, 0);
        while at < all.len() {
            let (length, kind) = token(&all[at..], source.code.chars().next_back());
            if let Some(kind) = kind.prose() {
                source.add_prose(kind, line + 1, &all[prose_end..at], &all[at..at + length]);
                prose_end = at + length;
            }
            for &character in &all[at..at + length] {
                let is_kept = kind == Kind::Code || character == '\n';
                source.code.push(if is_kept { character } else { ' ' });
                if kind == Kind::Raw {
                    source.raw_lines.insert(line);
                }
                line += usize::from(character == '\n');
            }
            at += length;
        }
        source
    }

    /// Adds what begins in `line` and stands `between` characters behind the last prose.
    fn add_prose(&mut self, kind: ProseKind, line: usize, between: &[char], text: &[char]) {
        let follows = kind == ProseKind::Comment && between.iter().all(|it| it.is_whitespace());
        match self.prose.last_mut() {
            Some(last) if follows && last.kind == kind => {
                last.text.extend(between);
                last.text.extend(text);
            }
            _ => self.prose.push(Prose { kind, line, text: text.iter().collect() }),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
    /// A raw literal.
    Raw,
}

impl Kind {
    /// What it is to people, unless code.
    fn prose(self) -> Option<ProseKind> {
        match self {
            Kind::Code => None,
            Kind::Comment => Some(ProseKind::Comment),
            Kind::Literal | Kind::Raw => Some(ProseKind::Literal),
        }
    }
}

/// The length of what `rest`, which follows `before`, begins with, and what it is.
fn token(rest: &[char], before: Option<char>) -> (usize, Kind) {
    let begins = |text: &str| text.chars().eq(rest.iter().copied().take(text.chars().count()));
    if begins("//") {
        return (rest.iter().position(|it| *it == '\n').unwrap_or(rest.len()), Kind::Comment);
    }
    if begins("/*") {
        return (comment_length(rest), Kind::Comment);
    }
    let is_inside_a_name = before.is_some_and(|it| it.is_alphanumeric() || it == '_');
    let hashes = rest.iter().skip(1).take_while(|it| **it == '#').count();
    if rest[0] == 'r' && !is_inside_a_name && rest.get(1 + hashes) == Some(&'"') {
        let is_end = |window: &[char]| window[0] == '"' && window[1..].iter().all(|it| *it == '#');
        let body = &rest[2 + hashes..];
        let end = body.windows(1 + hashes).position(is_end).unwrap_or(body.len() - hashes - 1);
        return (2 + hashes + end + 1 + hashes, Kind::Raw);
    }
    match (rest[0], rest.get(1), rest.get(2)) {
        ('"', _, _) => (literal_length(rest, '"'), Kind::Literal),
        ('\'', Some('\\'), _) => (literal_length(rest, '\''), Kind::Literal),
        ('\'', Some(_), Some('\'')) => (3, Kind::Literal),
        _ => (1, Kind::Code),
    }
}

/// The length of a comment that may hold others.
fn comment_length(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while at + 1 < rest.len() {
        match (rest[at], rest[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') if depth == 1 => return at + 2,
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a literal between two `quote`s.
fn literal_length(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}
