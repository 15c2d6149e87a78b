//! The text for Prometheus.

use std::fmt::Write;
use std::time::UNIX_EPOCH;

use msccl_collective::CollectiveKind;

use super::rank::{Counts, Identity, LastCall};
use super::totals::Totals;

/// A rank as it is written.
pub(super) struct WrittenRank {
    /// That the program gave the communicator.
    pub name: Option<String>,
    /// Who counts.
    pub identity: Identity,
    /// What it has counted.
    pub counts: Counts,
}

/// What a family of metrics is.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// The whole text; `process` is the number of this process.
pub(super) fn text(ranks: &[WrittenRank], process: u32) -> String {
    let mut text = String::new();
    communicators(&mut text, ranks, process);
    calls(&mut text, ranks);
    bandwidths(&mut text, ranks);
    blocks(&mut text, ranks);
    last_calls(&mut text, ranks);
    text
}

fn communicators(text: &mut String, ranks: &[WrittenRank], process: u32) {
    let help = "Ranks of this process, and their communicators.";
    family(text, ("msccl_rank_info", Kind::Gauge, help), ranks, |rank, samples| {
        let Identity { ranks, nodes, host, .. } = &rank.identity;
        let name = rank.name.as_deref().unwrap_or_default();
        let labels = [
            ("name", name.to_owned()),
            ("ranks", ranks.to_string()),
            ("nodes", nodes.to_string()),
            ("host", host.clone()),
            ("process", process.to_string()),
        ];
        samples.push((labels.into(), 1.0));
    });
    let help = "Whether the communicator has not ended.";
    family(text, ("msccl_rank_open", Kind::Gauge, help), ranks, |rank, samples| {
        samples.push((Vec::new(), f64::from(u8::from(!rank.counts.has_ended))));
    });
    let help = "Calls that have failed.";
    family(text, ("msccl_failures_total", Kind::Counter, help), ranks, |rank, samples| {
        samples.push((Vec::new(), rank.counts.failures as f64));
    });
}

fn calls(text: &mut String, ranks: &[WrittenRank]) {
    let mut of_totals = |name, help, value: fn(&Totals) -> f64| {
        family(text, (name, Kind::Counter, help), ranks, |rank, samples| {
            for (collective, totals) in &rank.counts.totals {
                samples.push((vec![("collective", (*collective).to_owned())], value(totals)));
            }
        });
    };
    of_totals("msccl_calls_total", "Calls that have begun.", |of| of.calls as f64);
    let help = "Bytes of these calls, of the larger buffer each.";
    of_totals("msccl_bytes_total", help, |of| of.bytes as f64);
    let help = "Calls of which it is known how long they took.";
    of_totals("msccl_timed_calls_total", help, |of| of.timed.calls as f64);
    let help = "Bytes of the timed calls.";
    of_totals("msccl_timed_bytes_total", help, |of| of.timed.bytes as f64);
    let help = "How long the timed calls took.";
    of_totals("msccl_timed_seconds_total", help, |of| of.timed.time.as_secs_f64());
}

fn bandwidths(text: &mut String, ranks: &[WrittenRank]) {
    let mut of_recent = |name, help, factor: fn(&str, u32) -> f64| {
        family(text, (name, Kind::Gauge, help), ranks, |rank, samples| {
            for (collective, totals) in &rank.counts.totals {
                if let Some(algbw) = totals.recent.algbw() {
                    let value = algbw * factor(collective, rank.identity.ranks);
                    samples.push((vec![("collective", (*collective).to_owned())], value));
                }
            }
        });
    };
    let help = "Bytes by time of the latest timed calls.";
    of_recent("msccl_algbw_bytes_per_second", help, |_, _| 1.0);
    let help = "The same as a load of links, as nccl-tests has it.";
    of_recent("msccl_busbw_bytes_per_second", help, bus_factor);
}

/// Of sends, receives and collectives without a name a link carries what the call does.
fn bus_factor(collective: &str, ranks: u32) -> f64 {
    collective.parse::<CollectiveKind>().map_or(1.0, |kind| kind.bus_factor(ranks))
}

fn blocks(text: &mut String, ranks: &[WrittenRank]) {
    let mut of_blocks = |name, help, value: fn(&Counts) -> f64| {
        family(text, (name, Kind::Counter, help), ranks, |rank, samples| {
            samples.push((Vec::new(), value(&rank.counts)));
        });
    };
    let help = "Time in which thread blocks of recorded calls waited.";
    of_blocks("msccl_block_waiting_seconds_total", help, |of| of.waiting.as_secs_f64());
    let help = "Time in which thread blocks of recorded calls copied and reduced.";
    of_blocks("msccl_block_moving_seconds_total", help, |of| of.moving.as_secs_f64());
}

fn last_calls(text: &mut String, ranks: &[WrittenRank]) {
    let mut of_last = |name, help, value: fn(&LastCall) -> f64| {
        family(text, (name, Kind::Gauge, help), ranks, |rank, samples| {
            if let Some(last) = &rank.counts.last {
                samples.push((vec![("collective", last.collective.to_owned())], value(last)));
            }
        });
    };
    let help = "The number of the call that began last.";
    of_last("msccl_last_call_number", help, |last| last.number as f64);
    let help = "Bytes of the call that began last.";
    of_last("msccl_last_call_bytes", help, |last| last.bytes as f64);
    let help = "When the call that began last did.";
    of_last("msccl_last_call_timestamp_seconds", help, |last| {
        last.began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    });
}

/// A value with what it has of labels beside those of its rank.
type Sample = (Vec<(&'static str, String)>, f64);

/// One family: its head, and the samples of all ranks.
fn family(
    text: &mut String,
    (name, kind, help): (&str, Kind, &str),
    ranks: &[WrittenRank],
    of_rank: impl Fn(&WrittenRank, &mut Vec<Sample>),
) {
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for rank in ranks {
        let Identity { communicator, rank: number, .. } = &rank.identity;
        let own = [("communicator", format!("{communicator:016x}")), ("rank", number.to_string())];
        let mut samples = Vec::new();
        of_rank(rank, &mut samples);
        for (labels, value) in samples {
            let all = own.iter().chain(&labels);
            let all = all.map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
            let _ = writeln!(text, "{name}{{{}}} {value}", all.collect::<Vec<_>>().join(","));
        }
    }
}

/// The value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
