//! Elements and attributes of a file, within bounds; what they mean is left to `trees`.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::error::{ForestCollError, clip};

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
    let reader = Reader::from_str(text);
    let mut parser = Parser { text, reader, forest: None, open: Vec::new() };
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
    text: &'t str,
    reader: Reader<&'t [u8]>,
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
        ForestCollError::new(self.text, at, expected, found)
    }

    fn offset(position: u64) -> usize {
        usize::try_from(position).unwrap_or(usize::MAX)
    }

    /// Reads one piece; false at the end of the file.
    fn step(&mut self) -> Result<bool, ForestCollError> {
        let at = Self::offset(self.reader.buffer_position());
        match self.reader.read_event() {
            Ok(Event::Eof) => return Ok(false),
            Ok(Event::Start(tag)) => self.start(&tag, at)?,
            Ok(Event::Empty(tag)) => {
                self.start(&tag, at)?;
                self.open.pop();
            }
            Ok(Event::End(_)) => {
                self.open.pop();
            }
            Ok(Event::Comment(_) | Event::PI(_) | Event::Decl(_)) => {}
            Ok(Event::Text(text)) if text.iter().all(u8::is_ascii_whitespace) => {}
            Ok(Event::Text(_) | Event::CData(_) | Event::GeneralRef(_)) => {
                return Err(self.error(at, "elements only", "text"));
            }
            Ok(Event::DocType(_)) => return Err(self.error(at, "elements only", "<!DOCTYPE")),
            Err(error) => {
                let at = Self::offset(self.reader.error_position());
                return Err(self.error(at, "well-formed XML", error.to_string()));
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
        for attribute in tag.attributes() {
            let attribute = attribute
                .map_err(|error| self.error(at, "attributes name=\"value\"", error.to_string()))?;
            let name = String::from_utf8_lossy(attribute.key.into_inner()).into_owned();
            if !required.contains(&name.as_str()) && !optional.contains(&name.as_str()) {
                let all = [required, optional].concat().join(", ");
                let expected = format!("the attributes {all} of <{}>", element.name());
                return Err(self.error(at, expected, format!("`{}`", clip(&name))));
            }
            let value = String::from_utf8_lossy(&attribute.value).into_owned();
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
