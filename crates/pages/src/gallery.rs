//! A gallery: what each of many programs does, in a few lines and a picture.

use std::fmt::Write;

use crate::bound::words::share;
use crate::draw::svg;
use crate::figures::{Figures, Traffic, figures};
use crate::order;
use crate::page::chunk_picture;
use crate::size::ByteSize;
use crate::study::Study;
use crate::timeline::EstimateMachine;
use crate::verdict::{Proved, Verdict, words};

/// Most boxes of a picture.
const MOST_BOXES: usize = 160;

/// Sizes for which times are given.
const SIZES: [ByteSize; 3] = [ByteSize(1 << 10), ByteSize(1 << 20), ByteSize(1 << 28)];

/// A program in the gallery.
pub struct GalleryEntry {
    /// Its name.
    pub name: String,
    /// The first sentence of its comment.
    pub title: String,
    /// Lines of Markdown: facts, one an item.
    pub facts: Vec<String>,
    /// The picture of its chunks, as SVG.
    pub picture: Option<String>,
}

/// What the gallery says of a proved program, whose text is `text`.
///
/// # Errors
///
/// It is not proved, or has no estimates.
pub fn entry(name: &str, study: &Study) -> Result<GalleryEntry, String> {
    let proved = match &study.verdict {
        Verdict::Proved(proved) => proved,
        Verdict::Refused(refused) => {
            return Err(format!("{name} is refused: {}", refused.message));
        }
    };
    let found = figures(proved, &SIZES, EstimateMachine::default());
    let found = found.map_err(|failure| format!("{name}: {failure}"))?;
    let comment = Comment::of(&study.text);
    let picture = chunk_picture(study, MOST_BOXES).map(|(layers, _)| svg::layers(&layers));
    Ok(GalleryEntry {
        name: name.to_owned(),
        title: comment.title,
        facts: facts(proved, &found, comment.uses),
        picture,
    })
}

fn facts(proved: &Proved, found: &Figures, uses: Option<String>) -> Vec<String> {
    let algorithm = proved.verified.algorithm();
    let Figures { assumptions: _, estimates, chain, loads, bound: _ } = found;
    let mut facts = vec![format!("**Shown:** {}", words::subject(algorithm))];
    facts.extend(uses.map(|uses| format!("**Where it serves:** {uses}")));
    if let Some(chain) = chain {
        facts.push(format!(
            "**Steps:** {} in the longest chain",
            words::counted(*chain as u64, "message")
        ));
    }
    let Traffic { most, all: _ } = Traffic::of(algorithm);
    facts.push(format!("**Bytes:** a rank sends at most {}", share(most)));
    let orders = &proved.verified.facts().addition_orders;
    facts.push(format!("**Order of additions:** {}", order::cell(orders)));
    facts.push(format!("**Beside the bound:** {}", loads.join("; ")));
    let times = estimates
        .iter()
        .filter_map(|estimate| Some(format!("{} µs for {}", rounded(estimate.us?), estimate.size)));
    let times: Vec<_> = times.collect();
    if !times.is_empty() {
        facts.push(format!("**Estimates, one copy:** {}", times.join(", ")));
    }
    facts
}

fn rounded(us: f64) -> String {
    if us < 100.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

/// The comment at the head of a program.
struct Comment {
    /// Its first sentence.
    title: String,
    /// What stands behind `Use:`.
    uses: Option<String>,
}

impl Comment {
    fn of(text: &str) -> Self {
        let lines = text.lines().map_while(|line| line.strip_prefix("//"));
        let mut title = String::new();
        let mut uses: Option<String> = None;
        let mut in_uses = false;
        for line in lines {
            let is_continued = line.starts_with("    ");
            let line = line.trim();
            if title.is_empty() {
                line.trim_end_matches('.').clone_into(&mut title);
            } else if let Some(rest) = line.strip_prefix("Use:") {
                uses = Some(rest.trim().to_owned());
                in_uses = true;
            } else if in_uses && is_continued && !line.is_empty() {
                uses.iter_mut().for_each(|uses| uses.extend([" ", line]));
            } else {
                in_uses = false;
            }
        }
        Self { title, uses }
    }
}

/// The entries of a collective as Markdown; pictures are `pictures/NAME.svg`, where slashes of
/// names are dashes.
pub fn markdown(heading: &str, entries: &[GalleryEntry]) -> String {
    let mut text = format!("## {heading}\n");
    for GalleryEntry { name, title, facts, picture } in entries {
        let _ = writeln!(text, "\n### {title}\n\n[`{name}`](../dsl-examples/{name}.msccl)\n");
        for fact in facts {
            let _ = writeln!(text, "* {}", fact.replace('<', "&lt;"));
        }
        if picture.is_some() {
            let file = picture_file(name);
            let _ = writeln!(text, "\n![What moves where in {name}](pictures/gallery/{file})");
        }
    }
    text
}

/// The name of the file with the picture of `name`.
pub fn picture_file(name: &str) -> String {
    format!("{}.svg", name.replace('/', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_say_where_programs_serve() {
        let text =
            "// Ring.\n//\n// Use:    large buffers,\n//         many ranks.\n// Source: x.\n";
        let Comment { title, uses } = Comment::of(text);
        assert_eq!((&*title, uses.as_deref()), ("Ring", Some("large buffers, many ranks.")));
    }
}
