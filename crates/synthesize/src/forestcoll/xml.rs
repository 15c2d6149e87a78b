//! Elements and attributes of a file, within bounds; what they mean is left to `trees`.

use std::collections::BTreeMap;

use msccl_topology::xml::{Piece, Pieces, clip};
use quick_xml::events::BytesStart;

use super::ForestCollError;

/// Largest file.
const BYTES_MAX: usize = 64 << 20;

/// `<Algo nchunkspernode="…">`
pub(super) struct RawForest {
    pub offset: usize,
    pub chunks: String,
    pub trees: Vec<RawTree>,
}

/// `<tree root="…" index="…" nchunks="…" height="…">`
pub(super) struct RawTree {
    pub offset: usize,
    pub root: String,
    pub chunks: String,
    pub sends: Vec<RawSend>,
}

/// `<send src="…" dst="…" path="…"/>`
pub(super) struct RawSend {
    pub offset: usize,
    pub from: String,
    pub to: String,
    pub path: Option<String>,
}

/// The elements of `text`.
pub(super) fn parse(text: &str) -> Result<RawForest, ForestCollError> {
    if text.len() > BYTES_MAX {
        let found = format!("{} bytes", text.len());
        return Err(ForestCollError::new(text, 0, format!("at most {BYTES_MAX} bytes"), found));
    }
    let mut parser = Parser { pieces: Pieces::new(text), forest: None, open: Vec::new() };
    while parser.step()? {}
    let missing = |expected: String| ForestCollError::new(text, text.len(), expected, "the end");
    match (parser.open.pop(), parser.forest) {
        (Some(open), _) => Err(missing(format!("</{}>", open.name()))),
        (None, None) => Err(missing("<Algo>".to_owned())),
        (None, Some(forest)) => Ok(forest),
    }
}

/// An element that may stand in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Element {
    Algo,
    Tree,
    Send,
}

impl Element {
    fn name(self) -> &'static str {
        match self {
            Element::Algo => "Algo",
            Element::Tree => "tree",
            Element::Send => "send",
        }
    }

    /// What it may have, those that it must have first.
    fn attributes(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Element::Algo => (&["nchunkspernode"], &[]),
            Element::Tree => (&["root", "nchunks"], &["index", "height"]),
            Element::Send => (&["src", "dst"], &["path"]),
        }
    }
}

struct Parser<'t> {
    pieces: Pieces<'t>,
    forest: Option<RawForest>,
    /// From the root inwards.
    open: Vec<Element>,
}

impl Parser<'_> {
    fn error(
        &self,
        at: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> ForestCollError {
        self.pieces.error(at, expected, found)
    }

    /// Reads one piece; false at the end of the file.
    fn step(&mut self) -> Result<bool, ForestCollError> {
        match self.pieces.next_piece()? {
            None => return Ok(false),
            Some((at, Piece::Start(tag))) => self.start(&tag, at)?,
            Some((at, Piece::Empty(tag))) => {
                self.start(&tag, at)?;
                self.open.pop();
            }
            Some((_, Piece::End)) => {
                self.open.pop();
            }
        }
        Ok(true)
    }

    fn start(&mut self, tag: &BytesStart<'_>, offset: usize) -> Result<(), ForestCollError> {
        let name = String::from_utf8_lossy(tag.name().into_inner()).into_owned();
        let expected = match (self.open.last(), &self.forest) {
            (None, None) => Some(Element::Algo),
            (Some(Element::Algo), _) => Some(Element::Tree),
            (Some(Element::Tree), _) => Some(Element::Send),
            (None, Some(_)) | (Some(Element::Send), _) => None,
        };
        let found = format!("<{}>", clip(&name));
        let Some(element) = expected else {
            return Err(self.error(offset, "no element here", found));
        };
        if name != element.name() {
            return Err(self.error(offset, format!("<{}>", element.name()), found));
        }
        let values = self.attributes(tag, element, offset)?;
        self.add(element, values, offset);
        self.open.push(element);
        Ok(())
    }

    /// Adds an element to the one that is open.
    fn add(&mut self, element: Element, mut values: BTreeMap<String, String>, offset: usize) {
        let mut take = |name: &str| values.remove(name).unwrap_or_default();
        if element == Element::Algo {
            let chunks = take("nchunkspernode");
            self.forest = Some(RawForest { offset, chunks, trees: Vec::new() });
            return;
        }
        let Some(forest) = &mut self.forest else { return };
        if element == Element::Tree {
            let (root, chunks) = (take("root"), take("nchunks"));
            forest.trees.push(RawTree { offset, root, chunks, sends: Vec::new() });
        } else if let Some(tree) = forest.trees.last_mut() {
            let (from, to) = (take("src"), take("dst"));
            tree.sends.push(RawSend { offset, from, to, path: values.remove("path") });
        }
    }

    /// The values by name; none is missing, none is unknown.
    fn attributes(
        &self,
        tag: &BytesStart<'_>,
        element: Element,
        at: usize,
    ) -> Result<BTreeMap<String, String>, ForestCollError> {
        let (required, optional) = element.attributes();
        let mut values = BTreeMap::new();
        for attribute in self.pieces.attributes(tag, at) {
            let (name, value) = attribute?;
            if !required.contains(&name.as_str()) && !optional.contains(&name.as_str()) {
                let all = [required, optional].concat().join(", ");
                let expected = format!("the attributes {all} of <{}>", element.name());
                return Err(self.error(at, expected, format!("`{}`", clip(&name))));
            }
            values.insert(name, value);
        }
        match required.iter().find(|name| !values.contains_key(**name)) {
            Some(missing) => {
                let expected = format!("an attribute `{missing}` of <{}>", element.name());
                Err(self.error(at, expected, "none"))
            }
            None => Ok(values),
        }
    }
}
