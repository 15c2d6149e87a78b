//! Changes of a text that take a fault away.
//!
//! A change to an algorithm is offered only if the verifier proves what it gives. A change of a
//! name is one that the compiler suggests.

use msccl_ir::StepRef;
use msccl_verify::FaultKind;
use serde::Serialize;

use crate::content::Content;
use crate::diagnose::Located;
use crate::steps::{Nodes, from_xml};
use crate::study::Study;
use crate::verdict::{Verdict, judge};

/// Most steps that are tried as the one to wait for.
const MOST_TRIED: usize = 32;

/// A change that can be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Repair {
    /// What it does, in words.
    pub title: String,
    /// The text after it.
    pub text: String,
}

/// The changes that prove a refused file.
pub fn repairs(study: &Study) -> Vec<Repair> {
    let Verdict::Refused(refused) = &study.verdict else { return Vec::new() };
    let is_xml = Content::of(&study.text) == Content::Xml;
    if refused.kind != FaultKind::Race || !is_xml {
        return Vec::new();
    }
    let steps: Vec<_> = refused.at.iter().filter_map(|site| site.step.zip(site.line())).collect();
    let [one, other, ..] = steps.as_slice() else { return Vec::new() };
    let orders = [(one, other), (other, one)];
    let waits = orders.into_iter().filter_map(|((waiter, waiter_place), (awaited, place))| {
        if waiter.rank != awaited.rank || waiter.tb == awaited.tb {
            return None;
        }
        let waiting = Element::in_line(&study.text, *waiter_place)?;
        let first = Element::in_line(&study.text, *place)?;
        let candidates = std::iter::successors(Some(first), |step| step.next_step(&study.text));
        let mut texts = candidates.take(MOST_TRIED).filter_map(|awaited| {
            let repair = with_wait(&study.text, *waiter, &waiting, &awaited)?;
            is_proved(&repair.text).then_some(repair)
        });
        texts.next()
    });
    waits.collect()
}

/// The changes that diagnostics suggest: names that were misspelt.
pub fn renames(text: &str, name: &str, diagnostics: &[Located]) -> Vec<Repair> {
    let here = diagnostics.iter().filter(|found| found.file == name);
    let suggested = here.flat_map(|found| {
        let names = found.hints.iter().filter_map(|hint| suggestion(hint));
        names.filter_map(|name| replaced(text, found, name)).collect::<Vec<_>>()
    });
    suggested.collect()
}

/// The name in ``did you mean `name`?``.
fn suggestion(hint: &str) -> Option<&str> {
    hint.strip_prefix("did you mean `")?.strip_suffix("`?")
}

fn replaced(text: &str, found: &Located, name: &str) -> Option<Repair> {
    let start = offset(text, found.line, found.column)?;
    let end = offset(text, found.end_line, found.end_column)?;
    let old = text.get(start..end)?;
    let changed = format!("{}{name}{}", text.get(..start)?, text.get(end..)?);
    Some(Repair { title: format!("replace `{old}` by `{name}`"), text: changed })
}

/// Where a line and column, both from 1 and columns in characters, are among the bytes.
fn offset(text: &str, line: u32, column: u32) -> Option<usize> {
    let before = line.checked_sub(1)? as usize;
    let mut lines = text.split_inclusive('\n');
    let start: usize = lines.clone().take(before).map(str::len).sum();
    let line = lines.nth(before).unwrap_or_default();
    let column = column.checked_sub(1)? as usize;
    let within = line.char_indices().map(|(at, _)| at).nth(column).unwrap_or(line.len());
    Some(start + within)
}

/// Whether the verifier proves the XML.
fn is_proved(text: &str) -> bool {
    let read = from_xml(String::new(), text.to_owned(), None, Nodes::Supposed, &mut |_| ());
    let Ok(Ok(steps)) = read else { return false };
    matches!(judge(Ok(steps.on_nodes(None))), Verdict::Proved(_))
}

/// The XML in which `waiter` depends on a step of another thread block of its rank; `None` if it
/// has a dependency already.
fn with_wait(text: &str, waiter: StepRef, waiting: &Element, awaited: &Element) -> Option<Repair> {
    if waiting.attribute("depid").is_some_and(|tb| tb.trim() != "-1") {
        return None;
    }
    let block = text.get(..awaited.start)?.rfind("<tb")?;
    let tb = Element::at(text, block)?.attribute("id")?.to_owned();
    let step = awaited.attribute("s")?.to_owned();
    let after = waiting.with("depid", &tb).with("deps", &step);
    let before = awaited.with("hasdep", "1");
    let mut changes = [after, before];
    // From behind, so that places before stay where they are.
    changes.sort_by_key(|change| std::cmp::Reverse(change.start));
    let text = changes.iter().fold(text.to_owned(), |text, change| {
        format!("{}{}{}", &text[..change.start], change.text, &text[change.end..])
    });
    let title = format!("let {waiter} wait for step {step} of thread block {tb}");
    Some(Repair { title, text })
}

/// The start tag of an element.
#[derive(Clone)]
struct Element {
    start: usize,
    end: usize,
    text: String,
}

impl Element {
    fn at(text: &str, start: usize) -> Option<Self> {
        let rest = text.get(start..)?;
        let length = rest.find('>')? + 1;
        Some(Self { start, end: start + length, text: rest.get(..length)?.to_owned() })
    }

    /// The tag at that line and column.
    fn in_line(text: &str, (line, column): (u32, u32)) -> Option<Self> {
        Self::at(text, offset(text, line, column)?)
    }

    /// The next step of the same thread block.
    fn next_step(&self, text: &str) -> Option<Self> {
        let rest = text.get(self.end..)?;
        let next = rest.find("<step")?;
        let is_last = rest.find("</tb").is_some_and(|end| end < next);
        if is_last { None } else { Self::at(text, self.end + next) }
    }

    /// Where the value of an attribute stands in the tag.
    fn value(&self, name: &str) -> Option<std::ops::Range<usize>> {
        let head = format!("{name}=");
        let mut from = 0;
        loop {
            let at = from + self.text.get(from..)?.find(&head)?;
            from = at + head.len();
            if !self.text[..at].ends_with(char::is_whitespace) {
                continue;
            }
            let quote = self.text[from..].chars().next().filter(|it| matches!(it, '"' | '\''))?;
            let length = self.text[from + 1..].find(quote)?;
            return Some(from + 1..from + 1 + length);
        }
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.value(name).map(|range| &self.text[range])
    }

    /// The same tag with that value.
    fn with(&self, name: &str, value: &str) -> Self {
        let mut changed = self.clone();
        match self.value(name) {
            Some(range) => changed.text.replace_range(range, value),
            None => {
                let end = self.text.trim_end_matches('>').trim_end_matches('/').len();
                changed.text.insert_str(end, &format!(" {name}=\"{value}\""));
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_replaced_or_added() {
        let tag = Element::at("  <step s=\"0\" deps='-1'/>", 2).unwrap();
        assert_eq!(tag.attribute("s"), Some("0"));
        assert_eq!(tag.attribute("ep"), None);
        assert_eq!(tag.with("deps", "3").text, "<step s=\"0\" deps='3'/>");
        assert_eq!(tag.with("hasdep", "1").text, "<step s=\"0\" deps='-1' hasdep=\"1\"/>");
    }

    #[test]
    fn misspelt_names_are_replaced_where_they_stand() {
        let text = "a\n  é inpt@0\n";
        let place = Located {
            line: 2,
            column: 5,
            end_line: 2,
            end_column: 9,
            hints: vec!["did you mean `input`?".to_owned()],
            ..Located::of_file("x", String::new())
        };
        let found = renames(text, "x", std::slice::from_ref(&place));
        assert_eq!(found[0].text, "a\n  é input@0\n");
        assert_eq!(found[0].title, "replace `inpt` by `input`");
        assert!(renames(text, "y", &[place]).is_empty());
    }
}
