//! A text with its line numbers, and what is wrong at its lines.

use std::collections::BTreeMap;
use std::fmt::Write;

use msccl_picture::Escaped;

use crate::diagnose::{Located, Related};

/// Most lines that are listed.
const MOST_LINES: usize = 5000;

/// What is said at a line.
struct Mark<'a> {
    class: &'static str,
    says: Vec<&'a str>,
}

/// Puts `text`, whose name in `diagnostics` is `name`.
pub fn put(page: &mut String, text: &str, name: &str, diagnostics: &[Located]) {
    let marks = marks(name, diagnostics);
    page.push_str("<ol class=\"listing\">\n");
    for (number, line) in (1_u32..).zip(text.lines()).take(MOST_LINES) {
        let (class, says) = match marks.get(&number) {
            Some(Mark { class, says }) => (format!(" class=\"{class}\""), says.as_slice()),
            None => (String::new(), &[][..]),
        };
        let _ = write!(
            page,
            "<li{class} id=\"line{number}\"><span class=\"number\">{number}</span>{}",
            Escaped(line)
        );
        for sentence in says {
            let _ = write!(page, "<span class=\"says\">{}</span>", Escaped(sentence));
        }
        page.push_str("</li>\n");
    }
    page.push_str("</ol>\n");
    let lines = text.lines().count();
    if lines > MOST_LINES {
        let _ = writeln!(page, "<p class=\"note\">and {} more lines</p>", lines - MOST_LINES);
    }
}

fn marks<'a>(name: &str, diagnostics: &'a [Located]) -> BTreeMap<u32, Mark<'a>> {
    let mut marks: BTreeMap<u32, Mark<'a>> = BTreeMap::new();
    let mut mark = |line: u32, class: &'static str, says: &'a str| {
        let mark = marks.entry(line).or_insert(Mark { class, says: Vec::new() });
        if !mark.says.contains(&says) {
            mark.says.push(says);
        }
    };
    for found in diagnostics {
        if found.file == name {
            mark(found.line, "fault", &found.message);
            found.hints.iter().for_each(|hint| mark(found.line, "fault", hint));
        }
    }
    let related = diagnostics.iter().flat_map(|found| &found.related);
    for Related { file, line, column: _, message } in related {
        if file == name {
            mark(*line, "related", message);
        }
    }
    marks
}
