//! The tree of a text that is being written.
//!
//! The parser gives a tree or mistakes, never both. Where a text does not parse, the lines with
//! mistakes are blanked, but for their braces, and the rest is parsed: every place of the tree is
//! one of the text, and only names on the broken lines are missing. If even that fails, the imports
//! are left.

use msccl_syntax::{SourceMap, ast, parse};

/// Most rounds of blanking.
const MOST_ROUNDS: usize = 8;

/// The tree of `text`, or of what of it parses; `None` if that is too little.
pub fn tree(text: &str) -> Option<ast::File> {
    let mut text = text.to_owned();
    for _ in 0..MOST_ROUNDS {
        let mut sources = SourceMap::new();
        let file = sources.add("", text.as_str());
        let found = match parse(&sources, file) {
            Ok(tree) => return Some(tree),
            Err(found) => found,
        };
        // Of a bracket without its other half, both places may be the wrong one.
        let places = |most: usize| -> Vec<usize> {
            let labels = found.iter().flat_map(|it| it.labels.iter().take(most));
            labels.map(|label| label.span.start as usize).collect()
        };
        let next = [1, usize::MAX].map(|most| blanked(&text, &places(most)));
        let next = next.into_iter().find(|next| *next != text);
        match next {
            Some(next) => text = next,
            None => break,
        }
    }
    imports(&text)
}

/// The tree of the lines with imports alone.
fn imports(text: &str) -> Option<ast::File> {
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if line.starts_with("import ") {
            kept += line;
        } else {
            kept.extend(line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        }
    }
    let mut sources = SourceMap::new();
    let file = sources.add("", kept);
    parse(&sources, file).ok()
}

/// The text with the lines of `places` blanked, but for braces. Of a line that is blank already,
/// the one before that is not.
fn blanked(text: &str, places: &[usize]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for place in places {
        let mut end = (*place).min(text.len());
        end = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
        let start = text[..end].trim_end().rfind('\n').map_or(0, |newline| newline + 1);
        for byte in &mut bytes[start..end] {
            if !b"{}\r\n".contains(byte) {
                *byte = b' ';
            }
        }
    }
    // Only whole characters were replaced, since every byte of a line was.
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let items = tree(text).map(|tree| tree.items).unwrap_or_default();
        let name = |item: &ast::Item| match item {
            ast::Item::Function(item) => item.name.text.clone(),
            ast::Item::Collective(item) => item.name.text.clone(),
            ast::Item::Algorithm(item) => item.name.text.clone(),
        };
        items.iter().map(name).collect()
    }

    #[test]
    fn what_parses_is_kept() {
        assert_eq!(
            names("fn f(a) = a\nfn g(b) {\n    let 😀 = (b\n}\nfn h(c) = c\n"),
            ["f", "g", "h"]
        );
        assert_eq!(names("fn f(a) = a\nfn g("), ["f"]);
        assert_eq!(names("fn f(a) {\n    a[0] = \n}\n"), ["f"]);
        assert_eq!(names("}}}}"), [""; 0]);
        assert_eq!(
            names("fn f(a) {\n    let x = g([1], \n    a[0] = b\n}\nfn h(c) = c\n"),
            ["f", "h"]
        );
        assert_eq!(tree("import ring\n}}}}").unwrap().imports.len(), 1);
    }
}
