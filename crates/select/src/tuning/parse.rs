//! The text of a tuning table.
//!
//! Line by line: what follows `#` at the beginning of a line is a remark, empty lines count for
//! nothing. The first other line is `msccl-tuning 3`, the second `machine` and a description for
//! people. Every further line is a row of nine columns, separated by blanks, best rows first:
//!
//! | column | values |
//! |---|---|
//! | collective | `allreduce`, `allgather`, `reducescatter`, `alltoall`, `broadcast`, `reduce`, `gather`, `scatter` |
//! | placement | `in`, `out` or `any`; `any` for collectives with a root, of which only the root knows it |
//! | ranks | `4`, `2..8`, `..8`, `2..` or `any`; upper ends are included; of one node, unless `/` and as much about the number of nodes follow: `16/2`, `any/2..`; a `?` at the end says that nobody measured the row, as nobody did for `any` number |
//! | bytes | likewise, of the larger buffer; `KiB`, `MiB` and `GiB` may follow a number |
//! | protocol | `Simple`, `LL` or `LL128` |
//! | links | `staged` or `direct`; those that cannot deliver directly are staged all the same |
//! | instances | 1 to [`INSTANCES_MAX`] |
//! | threads | of a block: a multiple of 32 up to [`THREADS_MAX`] |
//! | algorithm | the rest of the line: a built-in algorithm or a loaded file |
//!
//! Lines that begin with `slower` are no rows: they say that a loaded file was measured at a size,
//! and lost. The file then serves calls of that collective on as many ranks only where a row names
//! it, or if it is pinned. After `slower` follow the columns collective, placement, ranks, one size
//! in bytes, the µs of the best, the own µs, and the file.
//!
//! Tables that begin with `msccl-tuning 2` have no such lines. Those of `msccl-tuning 1` were made
//! before links could be chosen. They are read, too: their rows have no column `links`, which are
//! staged.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use msccl_collective::{CollectiveKind, Placement, Protocol, Rank};

use super::{Choice, Links, Row, Slower, Tuning, Variant};

/// Longer texts are refused: no table is that long.
const LONGEST_BYTES: usize = 1 << 20;
/// What stands behind the ranks of a row that nobody measured.
pub(super) const GUESSED: &str = "?";
/// The version of the format that is written.
pub(super) const VERSION: &str = "3";
/// The version before, which had no lines of what is slower.
pub(super) const WITHOUT_SLOWER: &str = "2";
/// What such lines begin with.
pub(super) const SLOWER: &str = "slower";
/// The first version, which knew of no links but staged ones.
const WITHOUT_LINKS: &str = "1";
/// More instances than any machine has wires for.
const INSTANCES_MAX: u32 = 4096;
/// More threads than any kernel takes; kernels take what they can.
const THREADS_MAX: u32 = 1024;

/// Why a text is no tuning table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TuningError {
    /// What the table is called.
    name: String,
    /// Where, counted from 1; `None` where it is the whole.
    line: Option<usize>,
    reason: String,
}

impl fmt::Display for TuningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, line, reason } = self;
        f.write_str(name)?;
        line.iter().try_for_each(|line| write!(f, " line {line}"))?;
        write!(f, ": {reason}")
    }
}

impl std::error::Error for TuningError {}

impl Tuning {
    /// Reads the table that messages call `name`. Whether the algorithms exist is not asked: a
    /// table may know more of them than a communicator has.
    ///
    /// # Errors
    ///
    /// The first line that is not as it should be, or what is wrong with the whole.
    pub fn parse(name: &str, text: &[u8]) -> Result<Self, TuningError> {
        let fail = |line, reason| TuningError { name: name.to_owned(), line, reason };
        let text = readable(text).map_err(|reason| fail(None, reason))?;
        let mut lines = (1..)
            .zip(text.lines().map(str::trim))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut head = |read: fn(&str) -> Result<&str, String>, expected: &str| {
            let missing = || fail(None, format!("expected {expected}, found the end"));
            let (number, line) = lines.next().ok_or_else(missing)?;
            read(line).map_err(|reason| fail(Some(number), reason))
        };
        let version = head(version, "`msccl-tuning 3`")?;
        let machine = head(machine, "`machine` and what the table is for")?.into();
        let (mut rows, mut losses) = (Vec::new(), Vec::new());
        for (number, line) in lines {
            let read = match line.strip_prefix(SLOWER) {
                Some(rest) => slower(rest.trim_start()).map(|of| losses.push(of)),
                None => row(number, line, version).map(|row| rows.push(row)),
            };
            read.map_err(|reason| fail(Some(number), reason))?;
        }
        Ok(Self { name: name.into(), machine, rows: rows.into(), slower: losses.into() })
    }
}

fn readable(text: &[u8]) -> Result<&str, String> {
    if text.len() > LONGEST_BYTES {
        return Err(format!("expected at most {} KiB, found more", LONGEST_BYTES >> 10));
    }
    std::str::from_utf8(text).map_err(|error| {
        let at = error.valid_up_to();
        format!(
            "expected UTF-8 text, found 0x{:02x} at byte {at}; save the file as UTF-8",
            text[at]
        )
    })
}

fn version(line: &str) -> Result<&str, String> {
    match line.split_once(char::is_whitespace) {
        Some(("msccl-tuning", version)) => {
            let all = [VERSION, WITHOUT_SLOWER, WITHOUT_LINKS];
            let known = all.into_iter().find(|known| *known == version.trim());
            known.ok_or_else(|| {
                let found = version.trim();
                format!(
                    "expected version {WITHOUT_LINKS} to {VERSION} of the format, found `{found}`"
                )
            })
        }
        _ => Err(format!("expected `msccl-tuning {VERSION}`, found `{line}`")),
    }
}

fn machine(line: &str) -> Result<&str, String> {
    match line.split_once(char::is_whitespace) {
        Some(("machine", machine)) => Ok(machine.trim()),
        _ => Err(format!("expected `machine` and what the table is for, found `{line}`")),
    }
}

fn row(number: usize, line: &str, version: &str) -> Result<Row, String> {
    let mut rest = line;
    let collective = collective(column(&mut rest, "a collective")?)?;
    let placement = placement(column(&mut rest, "a placement")?, collective)?;
    let text = column(&mut rest, "ranks")?;
    let guess = text.strip_suffix(GUESSED);
    let (guessed, (ranks, nodes)) = (guess.is_some(), ranks(guess.unwrap_or(text))?);
    let bytes = range("bytes", column(&mut rest, "bytes")?, size)?;
    let has_links = version != WITHOUT_LINKS;
    let (choice, collective) = (choice(rest, has_links)?, collective.name());
    Ok(Row { line: number, collective, placement, ranks, guessed, nodes, bytes, choice })
}

/// The rest of a line of what is slower.
fn slower(line: &str) -> Result<Slower, String> {
    let mut rest = line;
    let collective = collective(column(&mut rest, "a collective")?)?;
    let placement = placement(column(&mut rest, "a placement")?, collective)?;
    let (ranks, nodes) = ranks(column(&mut rest, "ranks")?)?;
    let text = column(&mut rest, "a size")?;
    let bytes = size(text).ok_or_else(|| format!("expected a size in bytes, found `{text}`"))?;
    let least_ns = time_ns(column(&mut rest, "the time of the best in us")?)?;
    let ns = time_ns(column(&mut rest, "a time in us")?)?;
    if rest.is_empty() {
        return Err("expected a loaded file, found the end of the line".to_owned());
    }
    let (collective, algorithm) = (collective.name(), rest.to_owned());
    Ok(Slower { collective, placement, ranks, nodes, bytes, least_ns, ns, algorithm })
}

/// A time in µs with up to three decimals, in ns.
fn time_ns(text: &str) -> Result<u64, String> {
    let misread = || format!("expected a time in us such as 30.2, found `{text}`");
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if part.len() > 3 || part.is_empty() || !digits(part) || !digits(whole) {
        return Err(misread());
    }
    let whole: u64 = whole.parse().map_err(|_| misread())?;
    let part: u64 = format!("{part:0<3}").parse().map_err(|_| misread())?;
    whole.checked_mul(1000).and_then(|ns| ns.checked_add(part)).ok_or_else(misread)
}

impl FromStr for Choice {
    type Err = String;

    /// Reads the last five columns of a row.
    fn from_str(text: &str) -> Result<Self, String> {
        choice(text, true)
    }
}

/// The last columns of a row.
fn choice(text: &str, has_links: bool) -> Result<Choice, String> {
    let mut rest = text;
    let protocol = Protocol::from_str(column(&mut rest, "a protocol")?)?;
    let links = match has_links {
        true => column(&mut rest, "links")?.parse()?,
        false => Links::default(),
    };
    let instances = number_within("instances", column(&mut rest, "instances")?, INSTANCES_MAX)?;
    let threads = number_within("threads", column(&mut rest, "threads")?, THREADS_MAX)?;
    if threads % 32 != 0 {
        return Err(format!("expected a multiple of 32 threads, found {threads}"));
    }
    if rest.is_empty() {
        return Err("expected an algorithm, found the end of the line".to_owned());
    }
    Ok(Choice {
        algorithm: rest.to_owned(),
        variant: Variant { protocol, links, instances, threads },
    })
}

/// Takes the next column off `rest`.
fn column<'a>(rest: &mut &'a str, expected: &str) -> Result<&'a str, String> {
    if rest.is_empty() {
        return Err(format!("expected {expected}, found the end of the line"));
    }
    let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((*rest, ""));
    *rest = after.trim_start();
    Ok(word)
}

/// The collectives that calls are of; the root does not matter.
pub(super) fn collectives() -> [CollectiveKind; 8] {
    CollectiveKind::all(Rank(0))
}

fn collective(text: &str) -> Result<CollectiveKind, String> {
    let found = collectives().into_iter().find(|of| of.name() == text);
    found.ok_or_else(|| {
        let names = collectives().map(CollectiveKind::name).join(", ");
        format!("expected a collective ({names}), found `{text}`")
    })
}

fn placement(text: &str, collective: CollectiveKind) -> Result<Placement, String> {
    match (text, collective.root()) {
        ("any", _) => Ok(Placement::Both),
        ("in", None) => Ok(Placement::InPlace),
        ("out", None) => Ok(Placement::OutOfPlace),
        ("in" | "out", Some(_)) => Err(format!(
            "expected placement `any`, found `{text}`: of a {} only the root knows whether it is \
             in place",
            collective.name()
        )),
        _ => Err(format!("expected a placement (in, out, any), found `{text}`")),
    }
}

/// The numbers of ranks and of nodes. A table that does not speak of nodes was measured on one.
fn ranks(text: &str) -> Result<(RangeInclusive<u64>, RangeInclusive<u64>), String> {
    match text.split_once('/') {
        Some((ranks, nodes)) => Ok((range("ranks", ranks, plain)?, range("nodes", nodes, plain)?)),
        None => Ok((range("ranks", text, plain)?, 1..=1)),
    }
}

/// `any`, one value, or two ends of which either may be missing; upper ends are included.
fn range(
    what: &str,
    text: &str,
    value: fn(&str) -> Option<u64>,
) -> Result<RangeInclusive<u64>, String> {
    let misread = || format!("expected {what} such as 4, 2..8, ..8, 2.. or any, found `{text}`");
    let end = |text: &str, missing| match text {
        "" => Some(missing),
        text => value(text),
    };
    let (low, high) = match (text, text.split_once("..")) {
        ("any", _) => ("", ""),
        ("" | "..", _) => return Err(misread()),
        (_, Some(ends)) => ends,
        (one, None) => (one, one),
    };
    let (low, high) = end(low, 0).zip(end(high, u64::MAX)).ok_or_else(misread)?;
    if low > high {
        return Err(format!("expected {what} from low to high, found `{text}`"));
    }
    Ok(low..=high)
}

fn plain(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn size(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    plain(number)?.checked_mul(1 << shift)
}

fn number_within(what: &str, text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("expected {what} from 1 to {most}, found `{text}`"))
}
