//! From a text to a cluster.

use std::collections::{HashMap, HashSet};

use super::super::group::{Direction, Group, LinkFacts, Pairing};
use super::super::nodes::prefix;
use super::super::pattern::{MOST_NAME_BYTES, Pattern};
use super::super::{Cluster, MOST_LINKS, MOST_VERTICES, Medium, VertexIndex, VertexKind};
use super::declare::{Numbering, is_keyword};
use super::error::{ParseError, Position};
use super::quantity;
use super::tokens::{Token, TokenKind, tokens};

/// The cluster that `text` describes.
pub fn parse(text: &str) -> Result<Cluster, ParseError> {
    let tokens = tokens(text)?;
    let mut reader = TextReader {
        tokens: &tokens,
        next: 0,
        cluster: Cluster::new(""),
        known: HashMap::new(),
        numbering: Numbering::default(),
        next_node: 0,
        compared: 0,
    };
    reader.title()?;
    while reader.peek().kind != TokenKind::End {
        reader.item()?;
    }
    Ok(reader.cluster)
}

/// Most comparisons of a name with a pattern, which bounds the time that a text takes.
const MOST_COMPARED: usize = 1 << 25;

struct TextReader<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    cluster: Cluster,
    known: HashMap<String, VertexIndex>,
    numbering: Numbering,
    next_node: u32,
    compared: usize,
}

/// Where a statement stands.
struct Scope {
    /// What names of the node begin with; empty where names are those of the cluster.
    prefix: String,
    node: Option<u32>,
    /// How many vertices there were before it.
    start: usize,
}

impl<'a> TextReader<'a> {
    /// The last token is the end, which is never passed.
    fn peek(&self) -> Token<'a> {
        let end = Token { kind: TokenKind::End, text: "", at: Position { line: 1, column: 1 } };
        self.tokens.get(self.next).or(self.tokens.last()).copied().unwrap_or(end)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next = (self.next + 1).min(self.tokens.len().saturating_sub(1));
        token
    }

    fn take_if(&mut self, kind: TokenKind, text: &str) -> Option<Token<'a>> {
        self.peek().is(kind, text).then(|| self.take())
    }

    fn take_kind(&mut self, kind: TokenKind, expected: &str) -> Result<Token<'a>, ParseError> {
        let token = self.peek();
        if token.kind == kind { Ok(self.take()) } else { Err(unlike(token, expected)) }
    }

    /// The end of a statement: that of the line, or what closes the block.
    fn end(&mut self, also: &str) -> Result<(), ParseError> {
        let token = self.peek();
        match token.kind {
            TokenKind::End => Ok(()),
            TokenKind::LineEnd => {
                self.take();
                Ok(())
            }
            TokenKind::Sign if token.text == "}" => Ok(()),
            TokenKind::Sign | TokenKind::Word | TokenKind::Number | TokenKind::Text => {
                Err(unlike(token, &format!("{also}the end of the line")))
            }
        }
    }

    fn title(&mut self) -> Result<(), ParseError> {
        while self.peek().kind == TokenKind::LineEnd {
            self.take();
        }
        if self.take_if(TokenKind::Word, "cluster").is_some() {
            let title = self.take_kind(TokenKind::Text, "a title in quotes")?;
            self.cluster.name = title.text.to_owned();
            self.end("")?;
        }
        Ok(())
    }

    /// A statement outside of nodes.
    fn item(&mut self) -> Result<(), ParseError> {
        if self.take_if(TokenKind::Word, "node").is_some() {
            return self.node();
        }
        let token = self.peek();
        if token.is(TokenKind::Sign, "}") {
            let expected = "a statement or the end of the text";
            return Err(unlike(token, expected).advise("no block is open here"));
        }
        self.statement(&Scope { prefix: String::new(), node: None, start: 0 })
    }

    fn node(&mut self) -> Result<(), ParseError> {
        let token = self.peek();
        let (first, count) = if self.take_if(TokenKind::Sign, "*").is_some() {
            (self.next_node, Some(self.count("nodes")?))
        } else if token.kind == TokenKind::Number {
            (self.whole("the number of a node", 0, MOST_VERTICES as u32 - 1)?, None)
        } else {
            (self.next_node, None)
        };
        self.open(token)?;
        let (body, last) = (self.next, first.saturating_add(count.unwrap_or(1)));
        for node in first..last {
            self.next = body;
            let start = self.cluster.vertices.len();
            let prefix = if count.is_some() { prefix(node) } else { String::new() };
            self.block(&Scope { prefix, node: Some(node), start })?;
        }
        self.next_node = self.next_node.max(last);
        self.end("")
    }

    fn open(&mut self, after: Token<'_>) -> Result<(), ParseError> {
        let expected = match after.kind {
            TokenKind::Sign | TokenKind::Number => "`{`",
            _ => "`*` and how many nodes, the number of a node, or `{`",
        };
        if self.take_if(TokenKind::Sign, "{").is_none() {
            let advice =
                "a node is written `node { … }` or `node * 2 { … }`, with spaces around `*`";
            return Err(unlike(self.peek(), expected).advise(advice));
        }
        Ok(())
    }

    /// The statements of a node and what closes it.
    fn block(&mut self, scope: &Scope) -> Result<(), ParseError> {
        loop {
            let token = self.peek();
            match token.kind {
                TokenKind::LineEnd => {
                    self.take();
                }
                TokenKind::Sign if token.text == "}" => {
                    self.take();
                    return Ok(());
                }
                TokenKind::End => return Err(unlike(token, "`}` after the statements of a node")),
                TokenKind::Word if token.text == "node" => {
                    let expected = "a statement of the node, or `}`";
                    return Err(unlike(token, expected).advise("nodes do not stand in nodes"));
                }
                TokenKind::Word | TokenKind::Sign | TokenKind::Number | TokenKind::Text => {
                    self.statement(scope)?;
                }
            }
        }
    }

    fn statement(&mut self, scope: &Scope) -> Result<(), ParseError> {
        let token = self.peek();
        let kind = VertexKind::ALL.into_iter().find(|kind| token.is(TokenKind::Word, kind.name()));
        match (token.kind, kind) {
            (TokenKind::Word, Some(kind)) => self.declaration(kind, scope),
            (TokenKind::Word, None) if !is_keyword(token.text) => self.links(scope),
            (TokenKind::LineEnd, _) => self.end(""),
            _ => {
                let expected = "`gpu`, `switch`, `nic`, `network`, `node`, or the names of a link";
                Err(unlike(token, expected))
            }
        }
    }

    /// `gpu * 4`, `switch pci0 pci1`, `network rail * 8`.
    fn declaration(&mut self, kind: VertexKind, scope: &Scope) -> Result<(), ParseError> {
        let keyword = self.take();
        let mut names = 0;
        while self.peek().kind == TokenKind::Word || names == 0 {
            let counted = names == 0 && self.peek().is(TokenKind::Sign, "*");
            let word = if counted { keyword } else { self.new_name()? };
            names += 1;
            if self.take_if(TokenKind::Sign, "*").is_none() {
                if is_keyword(word.text) {
                    return Err(no_name(word));
                }
                self.add(format!("{}{}", scope.prefix, word.text), kind, scope, word)?;
                continue;
            }
            let base = format!("{}{}", scope.prefix, word.text);
            for _ in 0..self.count("vertices")? {
                let name = format!("{base}{}", self.numbering.next(&base));
                self.add(name, kind, scope, word)?;
            }
        }
        self.end("a name or ")
    }

    fn new_name(&mut self) -> Result<Token<'a>, ParseError> {
        let token = self.take_kind(TokenKind::Word, "a name, or `*` and how many")?;
        let plain = Pattern::parse(token.text).is_some_and(|pattern| pattern.is_name());
        if plain { Ok(token) } else { Err(no_name(token)) }
    }

    fn add(
        &mut self,
        name: String,
        kind: VertexKind,
        scope: &Scope,
        word: Token<'_>,
    ) -> Result<(), ParseError> {
        if self.cluster.vertices.len() >= MOST_VERTICES {
            return Err(unlike(word, &format!("at most {MOST_VERTICES} vertices")));
        }
        if self.known.contains_key(&name) {
            let found = format!("`{name}` again");
            return Err(ParseError::new(word.at, "a name that is new", &found));
        }
        self.numbering.add(&name);
        let at = self.cluster.add(name.clone(), kind, scope.node);
        self.known.insert(name, at);
        self.next_node = self.next_node.max(scope.node.map_or(0, |node| node + 1));
        Ok(())
    }

    /// `gpu0 gpu1 - nic0 pci 25 GB/s 1 us`.
    fn links(&mut self, scope: &Scope) -> Result<(), ParseError> {
        let start = self.peek();
        let left = self.list(scope)?;
        let sign = self.peek();
        let direction = match (sign.kind, sign.text) {
            (TokenKind::Sign, "-") => Direction::Both,
            (TokenKind::Sign, ">") => Direction::There,
            _ => {
                let expected = "a name, `-` (both ways) or `>` (one way)";
                return Err(unlike(sign, expected).advise("kinds of vertices are keywords"));
            }
        };
        self.take();
        let right = self.list(scope)?;
        let pairing = match self.take_if(TokenKind::Word, "pairwise") {
            Some(word) if left.len() != right.len() => {
                let found = format!("{} and {}", left.len(), right.len());
                return Err(ParseError::new(word.at, "as many names left as right", &found));
            }
            Some(_) => Pairing::Pairwise,
            None => Pairing::Each,
        };
        let facts = self.facts()?;
        self.join(Group { left, right, pairing, direction, facts }, start)
    }

    fn join(&mut self, group: Group, start: Token<'_>) -> Result<(), ParseError> {
        let most = match group.pairing {
            Pairing::Each => group.left.len().saturating_mul(group.right.len()),
            Pairing::Pairwise => group.left.len(),
        };
        if self.cluster.links.len().saturating_add(most) > MOST_LINKS {
            return Err(unlike(start, &format!("at most {MOST_LINKS} links")));
        }
        let links: Vec<_> = group.links().collect();
        if links.is_empty() || links.iter().any(|link| link.from == link.to) {
            let expected = "two different ends of a link";
            return Err(ParseError::new(start.at, expected, "a vertex and itself"));
        }
        self.cluster.links.extend(links);
        Ok(())
    }

    /// Names and patterns, at least one, and what they stand for.
    fn list(&mut self, scope: &Scope) -> Result<Vec<VertexIndex>, ParseError> {
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        while self.peek().kind == TokenKind::Word && !is_keyword(self.peek().text) {
            let word = self.take();
            for at in self.resolve(word, scope)? {
                if !seen.insert(at) {
                    let name = self.cluster.vertices.get(at.index()).map_or("", |it| &it.name);
                    let found = format!("`{name}` twice");
                    return Err(ParseError::new(word.at, "each vertex once in a list", &found));
                }
                all.push(at);
            }
        }
        if all.is_empty() { Err(unlike(self.peek(), "the name of a vertex")) } else { Ok(all) }
    }

    /// What a name or pattern stands for: vertices of the node, or else of the cluster.
    fn resolve(&mut self, word: Token<'_>, scope: &Scope) -> Result<Vec<VertexIndex>, ParseError> {
        let Some(pattern) = Pattern::parse(word.text) else {
            let advice = "`gpu*` is any number, `gpu[0-3]` one from 0 to 3";
            return Err(unlike(word, "a name").advise(advice));
        };
        for (prefix, start) in [(scope.prefix.as_str(), scope.start), ("", 0)] {
            let found = if pattern.is_name() {
                let known = self.known.get(&format!("{prefix}{}", word.text));
                known.copied().into_iter().collect()
            } else {
                let start = if prefix.is_empty() { 0 } else { start };
                self.compared += self.cluster.vertices.len() - start;
                pattern.find(&self.cluster.vertices, start, prefix)
            };
            if self.compared > MOST_COMPARED {
                return Err(unlike(word, "fewer lists in a text of so many vertices"));
            }
            match pattern.count() {
                Some(count) if !found.is_empty() && count != found.len() as u64 => {
                    let found = format!("{} in `{}`", found.len(), word.text);
                    return Err(ParseError::new(word.at, format!("{count} vertices"), &found));
                }
                _ if found.is_empty() => {}
                Some(_) | None => return Ok(found),
            }
        }
        let advice = match word.text.split_once('*') {
            Some((keyword, _)) if is_keyword(keyword) => "a count has spaces: `node * 2 { … }`",
            Some(_) | None => "add vertices above the lines that name them: `gpu * 4`, `nic nic0`",
        };
        Err(unlike(word, "the name of a vertex that the lines above add").advise(advice))
    }

    /// The medium, the rate and perhaps the latency, to the end of the statement.
    fn facts(&mut self) -> Result<LinkFacts, ParseError> {
        let token = self.peek();
        let of_name = |medium: &Medium| token.is(TokenKind::Word, medium.name());
        let Some(medium) = Medium::ALL.into_iter().find(of_name) else {
            let expected = "`nvlink`, `xgmi`, `pci`, `socket` or `cable`";
            return Err(unlike(token, expected));
        };
        self.take();
        let number = self.take_kind(TokenKind::Number, "a rate, such as `25 GB/s`")?;
        let (count, number) = if self.take_if(TokenKind::Sign, "*").is_some() {
            (Some(number), self.take_kind(TokenKind::Number, "the rate of one link")?)
        } else {
            (None, number)
        };
        let rate = quantity::rate(count, number, self.take())?;
        let latency_ns = if self.peek().kind == TokenKind::Number {
            let number = self.take();
            quantity::latency_ns(number, self.take())?
        } else {
            0
        };
        let also = if latency_ns == 0 { "a latency, such as `0.5 us`, or " } else { "" };
        self.end(also)?;
        Ok(LinkFacts { medium, rate, latency_ns })
    }

    fn count(&mut self, what: &str) -> Result<u32, ParseError> {
        self.whole(&format!("how many {what}"), 1, MOST_VERTICES as u32)
    }

    fn whole(&mut self, what: &str, least: u32, most: u32) -> Result<u32, ParseError> {
        let expected = format!("{what}, a number from {least} to {most}");
        let token = self.take_kind(TokenKind::Number, &expected)?;
        let number = token.text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| unlike(token, &expected))
    }
}

fn unlike(token: Token<'_>, expected: &str) -> ParseError {
    ParseError::new(token.at, expected, &token.describe())
}

fn no_name(word: Token<'_>) -> ParseError {
    let advice = "a name begins with a letter, has letters, digits, `_` and `.`, and is no \
                  keyword; several are `NAME * COUNT`, with spaces around `*`";
    unlike(word, &format!("a name of at most {MOST_NAME_BYTES} characters")).advise(advice)
}
