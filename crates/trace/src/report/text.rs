//! A report for terminals: what holds calls up in the first five lines.

use std::fmt::Write;

use super::findings::{FINDINGS, gb_per_s, headlines, us};
use super::group::{GroupReport, RankArrival};
use super::shares::PathShares;
use super::{PredictionReport, Report, Times};

/// Findings behind them.
const OTHERS: usize = 4;
/// Lines of a table.
const ROWS: usize = 8;
/// Pieces of a critical path.
const PIECES: usize = 16;

/// The report, for terminals.
pub fn text(report: &Report) -> String {
    let mut text = format!("{}\n", report.summary);
    for sentence in &report.notes {
        let _ = writeln!(text, "note: {sentence}");
    }
    findings(&mut text, report);
    let _ = writeln!(text, "clocks agree to {}", us(report.clock.error_us));
    for sentence in report.clock.contradictions.iter().chain(&report.losses) {
        let _ = writeln!(text, "note: {sentence}");
    }
    for group in &report.groups {
        text.push('\n');
        text.push_str(&of_group(group));
    }
    text
}

fn findings(text: &mut String, report: &Report) {
    let all = &report.findings;
    if report.nothing_stands_out() {
        let _ = writeln!(text, "nothing stands out: no rank is late, no link and no block is slow");
    }
    let named = headlines(all);
    for (number, finding) in named.iter().enumerate().take(FINDINGS + OTHERS) {
        let also = if number < FINDINGS { "" } else { "also: " };
        let _ = writeln!(text, "{also}{}", finding.text);
    }
    let left = all.len() - named.len().min(FINDINGS + OTHERS);
    if left > 0 {
        let _ = writeln!(text, "also: {left} more, in calls of other shapes or cheaper ones");
    }
}

fn of_group(group: &GroupReport) -> String {
    let mut text = format!("{} of {}\n", group.calls, group.name);
    if !group.kernel.is_empty() {
        let _ = writeln!(text, "  kernel        {}", group.kernel);
    }
    if !group.reason.is_empty() {
        let _ = writeln!(text, "  chosen        {}", group.reason.lines().next().unwrap_or(""));
    }
    let duration = group.duration_us;
    let _ = writeln!(
        text,
        "  duration      median {}, least {}, 99 % below {}",
        us(duration.median),
        us(duration.least),
        us(duration.p99)
    );
    let _ = write!(
        text,
        "  arrival skew  median {}, most {}",
        us(group.skew_us.median),
        us(group.skew_us.most)
    );
    if let Some(RankArrival { rank, times, late_us }) = group.last.first() {
        let _ = write!(text, "; rank {rank} is last {times} times, by {}", us(*late_us));
    }
    text.push('\n');
    if let Some(link) = &group.busiest_link {
        let can = link.can_carry_gb_per_s.map(|can| format!(" of {can:.0} possible"));
        let can = can.unwrap_or_default();
        let _ = writeln!(
            text,
            "  busiest link  {}→{}: {} GB/s{can}",
            link.from,
            link.to,
            gb_per_s(link.gb_per_s)
        );
    }
    path(&mut text, group);
    times(&mut text, group);
    if let Some(prediction) = &group.prediction {
        predicted(&mut text, prediction);
    }
    text
}

fn path(text: &mut String, group: &GroupReport) {
    let PathShares { arrival_us, moves_us, transit_us, credit_us, signal_us, turn_us, other_us } =
        group.path_shares;
    let _ = writeln!(
        text,
        "  critical path moves {}, messages on their way {}, late arrival {}, room {}, signals {}, \
         turns {}, other {}",
        us(moves_us),
        us(transit_us),
        us(arrival_us),
        us(credit_us),
        us(signal_us),
        us(turn_us),
        us(other_us)
    );
    let mut longest: Vec<_> = group.path.iter().collect();
    longest.sort_by(|one, other| {
        (other.end_us - other.begin_us).total_cmp(&(one.end_us - one.begin_us))
    });
    longest.truncate(PIECES);
    longest.sort_by(|one, other| one.begin_us.total_cmp(&other.begin_us));
    let _ = writeln!(
        text,
        "  call {} by its critical path, {} of {} pieces:",
        group.shown_call,
        longest.len(),
        group.path.len()
    );
    for step in longest {
        let block = step.thread_block.map(|block| format!(" tb{block}")).unwrap_or_default();
        let line = step.line.map(|line| format!(", line {line}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "    {:>9.1} to {:>9.1} µs  r{}{block}  {}{line}",
            step.begin_us, step.end_us, step.rank, step.what
        );
    }
}

fn times(text: &mut String, group: &GroupReport) {
    let _ = writeln!(
        text,
        "  time of thread blocks, %     data   room  block   copy    add    end          µs"
    );
    row(text, "all", &group.times);
    for of in group.by_rank.iter().take(ROWS) {
        row(text, &format!("rank {}", of.rank), &of.times);
    }
    let all = |times: &Times| times.all_us();
    let mut blocks: Vec<_> = group.by_block.iter().collect();
    blocks.sort_by(|one, other| {
        let busy = |times: &Times| times.copy_us + times.reduce_us;
        busy(&other.times).total_cmp(&busy(&one.times))
    });
    for of in blocks.iter().take(ROWS) {
        row(text, &format!("rank {} block {}", of.rank, of.thread_block), &of.times);
    }
    let mut links: Vec<_> = group.by_link.iter().collect();
    links.sort_by(|one, other| all(&other.times).total_cmp(&all(&one.times)));
    for of in links.iter().take(ROWS) {
        row(text, &format!("link {}→{}", of.from, of.to), &of.times);
    }
    let mut lines: Vec<_> = group.by_line.iter().collect();
    lines.sort_by(|one, other| all(&other.times).total_cmp(&all(&one.times)));
    for of in lines.iter().take(ROWS) {
        row(text, &format!("line {}", of.line.line), &of.times);
    }
}

fn row(text: &mut String, name: &str, times: &Times) {
    let all_us = times.all_us();
    let part = |us: f64| 100.0 * us / all_us.max(f64::MIN_POSITIVE);
    let Times { wait_data_us, wait_room_us, wait_block_us, copy_us, reduce_us, finish_us } = *times;
    let _ = write!(text, "    {name:<25}");
    for us in [wait_data_us, wait_room_us, wait_block_us, copy_us, reduce_us, finish_us] {
        let _ = write!(text, "{:>7.1}", part(us));
    }
    let _ = writeln!(text, "{all_us:>12.1}");
}

fn predicted(text: &mut String, prediction: &PredictionReport) {
    let PredictionReport {
        assumptions,
        predicted_us,
        measured_us,
        mean_move_error_us,
        mean_end_error_us,
        first_deviation,
        steps,
    } = prediction;
    let _ = writeln!(
        text,
        "  prediction    {} measured, {} predicted",
        us(*measured_us),
        us(*predicted_us)
    );
    let _ = writeln!(text, "    assumes {assumptions}");
    let _ = writeln!(
        text,
        "    {} steps; moves differ by {mean_move_error_us:.2} µs, ends by \
         {mean_end_error_us:.2} µs on average",
        steps.len()
    );
    match first_deviation {
        Some(deviation) => {
            let _ = writeln!(text, "    {}", deviation.text);
        }
        None => text.push_str("    no step ends later than predicted by a twentieth of the call\n"),
    }
    for step in prediction.worst_moves().into_iter().take(ROWS) {
        let line = step.line.map(|line| format!(", line {line}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "    r{} tb{} s{} round {}{line}: {:.2} µs, predicted {:.2}",
            step.rank,
            step.thread_block,
            step.step,
            step.round,
            step.measured_move_us(),
            step.predicted_move_us()
        );
    }
}
