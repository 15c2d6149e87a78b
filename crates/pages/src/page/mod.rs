//! Everything known of one algorithm, as one page that needs nothing else: no network, no script,
//! no other file.
//!
//! Names and texts of a file stand for themselves, whatever characters they have: all of them pass
//! [`Escaped`], and no other text of a user reaches the page.

mod listing;
mod pictures;

use std::fmt::Write;

use msccl_ir::{Algorithm, text};
use msccl_picture::Escaped;
use msccl_verify::Facts;

use crate::bound::words::share;
use crate::diagnose::Warning;
use crate::figures::{Estimate, Figures, Traffic, figures};
use crate::size::{ByteSize, range_in_words};
use crate::study::Study;
use crate::timeline::EstimateMachine;
use crate::verdict::{Counts, Proved, Refused, Verdict, words};

pub use pictures::{Partial, PictureLimits, chunks as chunk_picture, schedule as schedule_picture};

const STYLE: &str = include_str!("page.css");

/// Events of a counterexample that are listed.
const MOST_EVENTS: usize = 200;

/// Further faults that are listed.
const MOST_OTHERS: usize = 15;

/// What a page is about, beside the file.
#[derive(Clone, Default)]
pub struct PageRequest {
    /// The machine of estimates; a supposed one, if none is given.
    pub machine: EstimateMachine,
    /// The sizes of estimates.
    pub sizes: Vec<ByteSize>,
    /// The size of the timeline.
    pub timeline: ByteSize,
    /// How large pictures may be.
    pub limits: PictureLimits,
}

/// The page. `warnings` are those that reading the file gave.
pub fn html(study: &Study, warnings: &[Warning], request: &PageRequest) -> String {
    let title = title(study);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n",
        title = Escaped(&title)
    );
    match &study.verdict {
        Verdict::Proved(proved) => put_proof(&mut page, proved),
        Verdict::Refused(refused) => put_refusal(&mut page, refused),
    }
    put_warnings(&mut page, warnings.iter().chain(study.verdict.warnings()));
    if let Verdict::Refused(refused) = &study.verdict {
        put_counterexample(&mut page, study, refused);
    }
    if study.algorithm.is_some() {
        put_facts(&mut page, study);
    }
    if let Verdict::Proved(proved) = &study.verdict {
        put_times(&mut page, proved, request);
        put_listing(&mut page, "Source", study, &[]);
    }
    pictures::put(&mut page, study, request);
    if let Some(algorithm) = &study.algorithm {
        put_schedule(&mut page, algorithm);
    }
    page.push_str(
        "<footer><p>Made by <code>msccl report</code>. Times are estimates by a cost model; they \
         are for comparing algorithms.</p></footer>\n</body>\n</html>\n",
    );
    page
}

fn title(study: &Study) -> String {
    match &study.algorithm {
        Some(algorithm) => words::subject(algorithm),
        None => study.file().to_owned(),
    }
}

fn put_proof(page: &mut String, proved: &Proved) {
    let Proved { file, verified, one_instance: _, per_node: _, warnings: _ } = proved;
    let (algorithm, target) = (verified.algorithm(), verified.target());
    let facts = verified.facts();
    let _ = writeln!(page, "<p class=\"verdict proved\">✓ proved</p>\n<ul class=\"lines\">");
    let sentences = [
        words::depth(algorithm, target, facts),
        words::scope(algorithm, target, facts),
        words::order(facts).unwrap_or_default(),
    ];
    for sentence in sentences.iter().filter(|sentence| !sentence.is_empty()) {
        let _ = writeln!(page, "<li>{}</li>", Escaped(sentence));
    }
    let _ = writeln!(page, "</ul>\n<p class=\"note\">{}</p>", Escaped(file));
}

fn put_refusal(page: &mut String, refused: &Refused) {
    let Refused { file, target, kind, message, sound_up_to_bytes, .. } = refused;
    let _ = writeln!(
        page,
        "<p class=\"verdict refused\">✗ refused: {}</p>\n<p>{}</p>",
        Escaped(kind.name()),
        Escaped(message)
    );
    if let Some(bytes) = sound_up_to_bytes {
        let _ = writeln!(page, "<p>Calls of up to {} go well.</p>", ByteSize(*bytes));
    }
    let target = target.to_string();
    let _ = writeln!(
        page,
        "<p class=\"note\">{}, for the target {}</p>",
        Escaped(file),
        Escaped(&target)
    );
}

fn put_warnings<'a>(page: &mut String, warnings: impl Iterator<Item = &'a Warning>) {
    let mut warnings = warnings.peekable();
    if warnings.peek().is_none() {
        return;
    }
    page.push_str("<h2>Notes</h2>\n<ul class=\"lines\">\n");
    for warning in warnings {
        let _ = writeln!(page, "<li>{}</li>", Escaped(&warning.to_string()));
    }
    page.push_str("</ul>\n");
}

/// How the fault comes about, and the lines at fault.
fn put_counterexample(page: &mut String, study: &Study, refused: &Refused) {
    let Refused { events, excerpt, diagnostics, others, .. } = refused;
    page.push_str("<h2>Counterexample</h2>\n");
    if !excerpt.is_empty() {
        let _ = writeln!(page, "<pre>{}</pre>", Escaped(excerpt));
    }
    if !events.is_empty() {
        page.push_str("<ol>\n");
        for event in words::shortened(events, MOST_EVENTS) {
            let _ = writeln!(page, "<li>{}</li>", Escaped(&event));
        }
        page.push_str("</ol>\n");
    }
    if !others.is_empty() {
        page.push_str("<p>Further faults:</p>\n<ul class=\"lines\">\n");
        for other in words::shortened(others, MOST_OTHERS) {
            let _ = writeln!(page, "<li>{}</li>", Escaped(&other));
        }
        page.push_str("</ul>\n");
    }
    put_listing(page, "Source, with the lines at fault", study, diagnostics);
}

fn put_listing(
    page: &mut String,
    heading: &str,
    study: &Study,
    diagnostics: &[crate::diagnose::Located],
) {
    let _ = writeln!(page, "<h2>{heading}</h2>");
    listing::put(page, &study.text, &study.source_name, diagnostics);
}

/// What is known of the algorithm of `study`, by name: what needs no proof, and some of what the
/// proof found.
pub fn facts(study: &Study) -> Vec<(&'static str, String)> {
    let Some(algorithm) = &study.algorithm else { return Vec::new() };
    let Algorithm { name: _, collective, placement, protocol, sizes, threads: _, ranks: _ } =
        algorithm;
    let Counts { steps, thread_blocks, links, channels } = Counts::of(algorithm);
    let Traffic { most, all } = Traffic::of(algorithm);
    let calls = study.target.rules.call_sizes(collective, *sizes);
    let mut rows = vec![
        ("collective", collective.name().to_owned()),
        ("ranks", collective.ranks.to_string()),
        ("chunks of a block", collective.chunks.to_string()),
        ("placement", placement.to_string()),
        ("protocol", protocol.to_string()),
        ("serves", range_in_words(calls)),
        ("steps", steps.to_string()),
        ("thread blocks", format!("{thread_blocks} of all ranks")),
        ("links", format!("{links} on {}", words::counted(u64::from(channels), "channel"))),
        ("sends", format!("{} at most from a rank, {} in all", share(most), share(all))),
    ];
    if let Verdict::Proved(proved) = &study.verdict {
        rows.extend(proof_rows(proved.verified.facts()));
    }
    rows
}

fn put_facts(page: &mut String, study: &Study) {
    page.push_str("<h2>Facts</h2>\n<dl>\n");
    for (name, value) in facts(study) {
        let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", Escaped(&value));
    }
    page.push_str(
        "</dl>\n<p class=\"note\">S stands for the bytes of the largest buffer of a call.</p>\n",
    );
}

fn proof_rows(facts: &Facts) -> Vec<(&'static str, String)> {
    let yes_or_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let mut rows = vec![
        ("messages of a round", facts.messages.to_string()),
        ("least link depth", facts.least_link_depth.to_string()),
        ("same bits on every rank", yes_or_no(facts.same_on_every_rank)),
        ("any number of elements", yes_or_no(facts.serves_any_count)),
        ("overwrites its input", yes_or_no(facts.overwrites_input)),
    ];
    rows.extend(words::order(facts).map(|order| ("order of additions", order)));
    rows
}

fn put_times(page: &mut String, proved: &Proved, request: &PageRequest) {
    page.push_str("<h2>Estimates</h2>\n");
    let found = match figures(proved, &request.sizes, request.machine.clone()) {
        Ok(found) => found,
        Err(failure) => {
            let _ = writeln!(page, "<p>{}</p>", Escaped(&failure.to_string()));
            return;
        }
    };
    let Figures { assumptions, estimates, chain, loads, bound } = found;
    let _ = writeln!(page, "<p>On {}.", Escaped(&assumptions));
    if let Some(chain) = chain {
        let messages = words::counted(chain as u64, "message");
        let _ = writeln!(page, "The longest chain of a small call has {messages}.");
    }
    page.push_str("</p>\n");
    put_estimates(page, &estimates);
    page.push_str("<h2>Beside the bound</h2>\n<ul class=\"lines\">\n");
    for sentence in loads.iter().chain(&bound) {
        let _ = writeln!(page, "<li>{}</li>", Escaped(sentence));
    }
    page.push_str("</ul>\n");
}

fn put_estimates(page: &mut String, estimates: &[Estimate]) {
    page.push_str(
        "<div class=\"scroll\"><table>\n<tr><th>size</th><th>µs</th><th>at least, µs</th>\
         <th>times the bound</th><th class=\"words\">how it runs</th></tr>\n",
    );
    for Estimate { bytes: _, size, us, how, least_us, by } in estimates {
        let number = |us: &Option<f64>| us.map_or_else(|| "–".to_owned(), |us| format!("{us:.1}"));
        let times = us.zip(*least_us).filter(|(_, least)| *least > 0.0);
        let times = times.map_or_else(String::new, |(us, least)| format!("{:.2}", us / least));
        let by = by.map_or_else(String::new, |by| format!(" ({by})"));
        let _ = writeln!(
            page,
            "<tr><td>{size}</td><td>{}</td><td>{}{by}</td><td>{times}</td>\
             <td class=\"words\">{}</td></tr>",
            number(us),
            number(least_us),
            Escaped(how)
        );
    }
    page.push_str("</table></div>\n");
}

/// Most lines of a schedule that are written out.
const MOST_LINES: usize = 4000;

fn put_schedule(page: &mut String, algorithm: &Algorithm) {
    let text = text::print(algorithm);
    let lines = text.lines().count();
    let mut shown: String = text.lines().take(MOST_LINES).flat_map(|line| [line, "\n"]).collect();
    if lines > MOST_LINES {
        let _ = writeln!(shown, "… and {} more lines", lines - MOST_LINES);
    }
    let _ = writeln!(
        page,
        "<h2>Schedule</h2>\n<details><summary>What each thread block does, {lines} lines\
         </summary>\n<pre>{}</pre></details>",
        Escaped(&shown)
    );
}
