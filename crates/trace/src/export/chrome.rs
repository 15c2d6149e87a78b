//! Timelines as JSON for `chrome://tracing`, as PyTorch's profiler (Kineto) writes it.
//!
//! Times are µs since `baseTimeNanoseconds`, which is UNIX time. Profiles of one base can be put
//! into one file: [`merge_with_profile`] does it.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use serde_json::Value;

use super::slices::{
    Annotation, RateChange, Slice, Slices, TrackName, process_name, rates, track_of, tracks,
};
use crate::predict::PlacedPrediction;
use crate::timeline::Timeline;

/// Numbers of processes begin here, so that they differ from those of a profile.
const FIRST_PROCESS: usize = 1_000_000_000;

/// Why two profiles cannot be merged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChromeError {
    /// The other one is no JSON.
    Json(String),
    /// It has no list of events.
    NoEvents,
}

impl fmt::Display for ChromeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "expected a profile as JSON: {error}"),
            Self::NoEvents => f.write_str(
                "expected a profile of PyTorch, found JSON without `traceEvents`; \
                 `export_chrome_trace` writes one",
            ),
        }
    }
}

impl std::error::Error for ChromeError {}

/// The base that Kineto uses for profiles of that time: the last whole multiple of 90 days.
pub fn kineto_base_ns(unix_ns: u64) -> u64 {
    const PERIOD_NS: u64 = 90 * 24 * 3600 * 1_000_000_000;
    unix_ns / PERIOD_NS * PERIOD_NS
}

/// `timeline` as a profile, with times since `base_ns`.
pub fn chrome(timeline: &Timeline, predicted: &[PlacedPrediction<'_>], base_ns: u64) -> String {
    let mut json = Vec::new();
    // Memory takes all that is written.
    let _ = write_chrome(timeline, predicted, base_ns, &mut json);
    String::from_utf8_lossy(&json).into_owned()
}

/// Writes `timeline` as a profile, with times since `base_ns`.
///
/// # Errors
///
/// Of `out`.
pub fn write_chrome(
    timeline: &Timeline,
    predicted: &[PlacedPrediction<'_>],
    base_ns: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut list = EventList { out, separator: "" };
    write!(list.out, "{{\"baseTimeNanoseconds\":{base_ns},\"displayTimeUnit\":\"ns\",")?;
    list.out.write_all(b"\"traceEvents\":[\n")?;
    put_events(timeline, predicted, base_ns, &mut list)?;
    list.out.write_all(b"\n]}\n")
}

/// A profile of PyTorch with the events of `timeline`, on the base of the profile.
///
/// # Errors
///
/// The profile is none.
pub fn merge_with_profile(
    timeline: &Timeline,
    predicted: &[PlacedPrediction<'_>],
    profile: &str,
) -> Result<String, ChromeError> {
    let profile: Value =
        serde_json::from_str(profile).map_err(|error| ChromeError::Json(error.to_string()))?;
    let base_ns = profile.get("baseTimeNanoseconds").and_then(Value::as_u64).unwrap_or(0);
    let fields = profile.as_object().ok_or(ChromeError::NoEvents)?;
    let known =
        profile.get("traceEvents").and_then(Value::as_array).ok_or(ChromeError::NoEvents)?;
    let mut json = "{".to_owned();
    for (name, value) in fields.iter().filter(|(name, _)| *name != "traceEvents") {
        let _ = write!(json, "{}:{value},", Value::from(name.as_str()));
    }
    json.push_str("\"traceEvents\":[\n");
    let mut json = json.into_bytes();
    let mut list = EventList { out: &mut json, separator: "" };
    // Memory takes all that is written.
    let _ = known.iter().try_for_each(|event| list.put(&event.to_string()));
    let _ = put_events(timeline, predicted, base_ns, &mut list);
    json.extend_from_slice(b"\n]}\n");
    Ok(String::from_utf8_lossy(&json).into_owned())
}

/// A list of events, of which each is written as soon as it is made.
struct EventList<'a> {
    out: &'a mut dyn Write,
    /// What comes before the next event.
    separator: &'static str,
}

impl EventList<'_> {
    fn put(&mut self, event: &str) -> io::Result<()> {
        self.out.write_all(self.separator.as_bytes())?;
        self.separator = ",\n";
        self.out.write_all(event.as_bytes())
    }
}

fn put_events(
    timeline: &Timeline,
    predicted: &[PlacedPrediction<'_>],
    base_ns: u64,
    list: &mut EventList<'_>,
) -> io::Result<()> {
    let time =
        TimeBase { since_base_ns: i128::from(timeline.origin_unix_ns) - i128::from(base_ns) };
    put_names(timeline, predicted, list)?;
    let slices = Slices::new(timeline, predicted);
    for number in 0..slices.count() {
        list.put(&time.slice(&slices.slice(number)))?;
    }
    for rate in rates(timeline) {
        list.put(&time.rate(&rate))?;
    }
    for (flow, message) in (1..).zip(&timeline.messages) {
        let ends = [("s", "", message.send), ("f", r#","bp":"e""#, message.receive)];
        for (phase, binding, at) in ends {
            let (span, pid) = (timeline.span(at), FIRST_PROCESS + at.rank as usize);
            let (tid, ts) = (track_of(timeline, at), time.us(span.begin_ns));
            list.put(&format!(
                r#"{{"ph":"{phase}"{binding},"id":{flow},"cat":"message","name":"message","pid":{pid},"tid":{tid},"ts":{ts}}}"#
            ))?;
        }
    }
    Ok(())
}

/// The names of processes and tracks.
fn put_names(
    timeline: &Timeline,
    predicted: &[PlacedPrediction<'_>],
    list: &mut EventList<'_>,
) -> io::Result<()> {
    for (rank, of_rank) in timeline.ranks.iter().enumerate() {
        let (pid, name) = (FIRST_PROCESS + rank, Value::from(process_name(of_rank)));
        list.put(&format!(
            r#"{{"ph":"M","name":"process_name","pid":{pid},"tid":0,"args":{{"name":{name}}}}}"#
        ))?;
    }
    for TrackName { rank, track, name } in tracks(timeline, predicted) {
        let (pid, name) = (FIRST_PROCESS + rank, Value::from(name));
        list.put(&format!(
            r#"{{"ph":"M","name":"thread_name","pid":{pid},"tid":{track},"args":{{"name":{name}}}}}"#
        ))?;
    }
    Ok(())
}

/// How times are written.
struct TimeBase {
    since_base_ns: i128,
}

impl TimeBase {
    /// µs with three digits: a float would have fewer.
    fn us(&self, time_ns: f64) -> String {
        let ns = self.since_base_ns + time_ns.round() as i128;
        let sign = if ns < 0 { "-" } else { "" };
        format!("{sign}{}.{:03}", ns.abs() / 1000, ns.abs() % 1000)
    }

    fn slice(&self, slice: &Slice) -> String {
        let Slice { rank, track, name, category, begin_ns, end_ns, annotations, span: _ } = slice;
        let (pid, name, ts) =
            (FIRST_PROCESS + rank, Value::from(name.as_str()), self.us(*begin_ns));
        let duration_ns = (end_ns.round() - begin_ns.round()).max(0.0) as u64;
        let (us, ns) = (duration_ns / 1000, duration_ns % 1000);
        let mut args = String::new();
        for (name, value) in annotations {
            let value = match value {
                Annotation::Number(value) => Value::from(*value),
                Annotation::Text(text) => Value::from(text.as_str()),
            };
            let comma = if args.is_empty() { "" } else { "," };
            let _ = write!(args, "{comma}{}:{value}", Value::from(*name));
        }
        format!(
            r#"{{"ph":"X","name":{name},"cat":"{category}","pid":{pid},"tid":{track},"ts":{ts},"dur":{us}.{ns:03},"args":{{{args}}}}}"#
        )
    }

    fn rate(&self, rate: &RateChange) -> String {
        let RateChange { rank, to, time_ns, gb_per_s } = rate;
        let (pid, ts) = (FIRST_PROCESS + rank, self.us(*time_ns));
        format!(
            r#"{{"ph":"C","name":"GB/s to rank {to}","pid":{pid},"ts":{ts},"args":{{"GB/s":{gb_per_s:.3}}}}}"#
        )
    }
}
