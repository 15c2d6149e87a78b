//! A file of cases, taken apart.

use std::collections::BTreeMap;

/// What begins a line that expects a diagnostic.
pub const DIAGNOSTIC: &str = "//~";
/// What begins a line that the stage must make.
pub const DUMP: &str = "//>";
const SETTING: &str = "//! ";

/// A file of cases.
pub struct File {
    /// Its first paragraph.
    pub head: String,
    /// What the head sets.
    pub settings: BTreeMap<String, String>,
    /// The programs, without what is expected of them.
    pub programs: Vec<String>,
}

/// Takes the text of a file apart; errors are for whoever writes one.
pub fn file(text: &str) -> Result<File, String> {
    let mut paragraphs = text.split("\n\n").map(|paragraph| paragraph.trim_matches('\n'));
    let head = paragraphs.next().unwrap_or_default().to_owned();
    if let Some(line) = head.lines().find(|line| !line.starts_with("//")) {
        return Err(format!("the first paragraph must be comments, found `{line}`"));
    }
    let programs: Vec<_> = paragraphs.map(program).filter(|program| !program.is_empty()).collect();
    if programs.is_empty() {
        return Err("no case follows the head".to_owned());
    }
    Ok(File { settings: settings(&head)?, head, programs })
}

fn settings(head: &str) -> Result<BTreeMap<String, String>, String> {
    let lines = head.lines().filter_map(|line| line.strip_prefix(SETTING));
    let setting = |line: &str| {
        let parts = line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        parts.ok_or_else(|| format!("expected `{SETTING}name: value`, found `{SETTING}{line}`"))
    };
    lines.map(setting).collect()
}

/// A paragraph without its expectations.
fn program(paragraph: &str) -> String {
    let is_expected = |line: &&str| line.starts_with(DIAGNOSTIC) || line.starts_with(DUMP);
    let lines: Vec<_> = paragraph.lines().filter(|line| !is_expected(line)).collect();
    lines.join("\n")
}
