//! Formatting: the layout of `msccl fmt`, as few edits as needed.
//!
//! Lines are compared without what ends them, so that a text with `\r\n` keeps it.

use std::ops::Range;

use lsp_types::TextEdit;

use crate::document::Document;

/// The edits that lay out the whole text; `None` if it does not parse.
pub fn all(document: &Document) -> Option<Vec<TextEdit>> {
    edits(document, 0..usize::MAX)
}

/// Those that touch `lines`. The layout of a line may depend on others, so that these are the edits
/// of the whole text as far as they lie there.
pub fn of_lines(document: &Document, lines: Range<usize>) -> Option<Vec<TextEdit>> {
    edits(document, lines)
}

fn edits(document: &Document, within: Range<usize>) -> Option<Vec<TextEdit>> {
    let text = &*document.text;
    let formatted = msccl_syntax::format(text).ok()?;
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let old = lines(text);
    let new: Vec<&str> = formatted.split_inclusive('\n').collect();
    let old_contents: Vec<_> = old.iter().map(|line| content(&text[line.clone()])).collect();
    let new_contents: Vec<_> = new.iter().map(|line| content(line)).collect();
    let end = text.len();
    let start = |line: usize| old.get(line).map_or(end, |line| line.start);
    let mut found: Vec<_> = differences(&old_contents, &new_contents)
        .into_iter()
        .filter(|(old, _)| old.start <= within.end && within.start <= old.end)
        .map(|(old, new)| {
            let range = document.range_of(start(old.start)..start(old.end));
            let lines = new_contents[new].iter();
            let new_text = lines.map(|line| format!("{line}{ending}")).collect::<String>();
            TextEdit { range, new_text }
        })
        .collect();
    found.extend(last_line_end(document, &old_contents, &new_contents, ending, &within));
    Some(found)
}

/// A line without what ends it: one `\n`, or `\r\n`.
fn content(line: &str) -> String {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line).to_owned()
}

/// The lines of a text, with what ends them.
fn lines(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        start += line.len();
        start - line.len()..start
    });
    lines.collect()
}

/// What ends the last line, if it lacks that and is right otherwise.
fn last_line_end(
    document: &Document,
    old: &[String],
    new: &[String],
    ending: &str,
    within: &Range<usize>,
) -> Option<TextEdit> {
    let is_kept = old.last().is_some() && old.last() == new.last();
    let is_missing = is_kept && !document.text.ends_with('\n');
    let end = document.text.len();
    (is_missing && within.end >= old.len().saturating_sub(1))
        .then(|| TextEdit { range: document.range_of(end..end), new_text: ending.to_owned() })
}

/// Runs of lines that differ, old and new, by a longest common subsequence.
fn differences(old: &[String], new: &[String]) -> Vec<(Range<usize>, Range<usize>)> {
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let rest = (old.len() - head).min(new.len() - head);
    let tail =
        (0..rest).take_while(|it| old[old.len() - 1 - it] == new[new.len() - 1 - it]).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    if head == old_end && head == new_end {
        return Vec::new();
    }
    /// Beyond so many pairs of lines the middle is replaced as a whole.
    const MOST_PAIRS: usize = 4_000_000;
    if (old_end - head) * (new_end - head) > MOST_PAIRS {
        return vec![(head..old_end, head..new_end)];
    }
    common(&old[head..old_end], &new[head..new_end])
        .into_iter()
        .map(|(one, other)| {
            (one.start + head..one.end + head, other.start + head..other.end + head)
        })
        .collect()
}

/// The runs between the lines of a longest common subsequence.
fn common(old: &[String], new: &[String]) -> Vec<(Range<usize>, Range<usize>)> {
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for one in (0..old.len()).rev() {
        for other in (0..new.len()).rev() {
            lengths[one * width + other] = if old[one] == new[other] {
                lengths[(one + 1) * width + other + 1] + 1
            } else {
                lengths[(one + 1) * width + other].max(lengths[one * width + other + 1])
            };
        }
    }
    let mut runs = Vec::new();
    let (mut one, mut other) = (0, 0);
    let mut open = (0, 0);
    while one < old.len() && other < new.len() {
        if old[one] == new[other] {
            if open != (one, other) {
                runs.push((open.0..one, open.1..other));
            }
            (one, other) = (one + 1, other + 1);
            open = (one, other);
        } else if lengths[(one + 1) * width + other] >= lengths[one * width + other + 1] {
            one += 1;
        } else {
            other += 1;
        }
    }
    if open != (old.len(), new.len()) {
        runs.push((open.0..old.len(), open.1..new.len()));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text after edits, from the last on.
    fn applied(document: &Document, mut edits: Vec<TextEdit>) -> String {
        edits.sort_by_key(|edit| (edit.range.start.line, edit.range.start.character));
        let mut text = document.text.to_string();
        for edit in edits.into_iter().rev() {
            let bytes = document.offset(edit.range.start)..document.offset(edit.range.end);
            text.replace_range(bytes, &edit.new_text);
        }
        text
    }

    const WRONG: &str = "fn  f(a) = a\n\n\n\nfn g(b) {\nlet c=b // 😀\n        let d = c\n}";

    #[test]
    fn the_layout_is_that_of_the_command() {
        let document = Document::new("x", 1, WRONG.to_owned());
        let expected = msccl_syntax::format(WRONG).unwrap();
        assert_eq!(applied(&document, all(&document).unwrap()), expected);
        let right = Document::new("x", 1, expected);
        assert_eq!(all(&right), Some(Vec::new()));
    }

    #[test]
    fn line_ends_are_kept() {
        let document = Document::new("x", 1, WRONG.replace('\n', "\r\n"));
        let expected = msccl_syntax::format(WRONG).unwrap().replace('\n', "\r\n");
        assert_eq!(applied(&document, all(&document).unwrap()), expected);
    }

    #[test]
    fn a_range_is_laid_out_alone() {
        let document = Document::new("x", 1, WRONG.to_owned());
        let edits = of_lines(&document, 5..5).unwrap();
        let after = applied(&document, edits);
        assert!(after.starts_with("fn  f(a) = a\n"), "{after}");
        assert!(after.contains("\n    let c = b // 😀\n"), "{after}");
    }

    #[test]
    fn what_does_not_parse_is_left_alone() {
        assert_eq!(all(&Document::new("x", 1, "fn f(".to_owned())), None);
    }
}
