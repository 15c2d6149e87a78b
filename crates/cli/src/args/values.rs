//! Values of options that are names or numbers of ours.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use msccl_collective::Placement;
use msccl_interchange::xml::Dialect;
use msccl_ir::Target;
use msccl_pages::steps::RuntimeName;

/// What will run an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TargetName {
    /// MSCCL XML as the first runtime reads it.
    Msccl,
    /// MSCCL XML as the executor reads it.
    Executor,
    /// Our own runtime.
    Native,
}

impl TargetName {
    /// Its limits.
    pub fn target(self) -> Target {
        self.runtime().target()
    }

    /// The runtime.
    pub fn runtime(self) -> RuntimeName {
        match self {
            TargetName::Msccl => RuntimeName::Msccl,
            TargetName::Executor => RuntimeName::Executor,
            TargetName::Native => RuntimeName::Native,
        }
    }
}

/// Where ranks run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PlaceName {
    /// On a GPU each.
    Cuda,
    /// On host threads.
    Host,
}

/// What runs an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum RunDevice {
    /// The executor on host threads.
    Host,
    /// GPUs; ranks share them if there are more.
    Cuda,
    /// A communicator whose ranks are on the host.
    #[value(hide = true)]
    Ranks,
}

/// Which runtime's habits an XML file follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DialectName {
    /// The first runtime and the public toolkit.
    Msccl,
    /// The executor and RCCL.
    Executor,
}

impl DialectName {
    /// The dialect.
    pub fn dialect(self) -> Dialect {
        match self {
            DialectName::Msccl => Dialect::Msccl,
            DialectName::Executor => Dialect::Executor,
        }
    }

    /// The runtime that reads it.
    pub fn target(self) -> TargetName {
        match self {
            DialectName::Msccl => TargetName::Msccl,
            DialectName::Executor => TargetName::Executor,
        }
    }
}

/// Whether input and output share memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PlacementName {
    /// They do.
    In,
    /// They do not.
    Out,
}

impl PlacementName {
    /// The placement.
    pub fn placement(self) -> Placement {
        match self {
            PlacementName::In => Placement::InPlace,
            PlacementName::Out => Placement::OutOfPlace,
        }
    }
}

/// What `compile` writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Emit {
    /// MSCCL XML.
    Xml,
    /// The IR as JSON.
    Json,
    /// The IR as text.
    Text,
    /// Chakra execution traces, one for each rank, for simulators.
    Chakra,
}

/// A stage of the compiler, or what became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Stage {
    /// What moves where.
    Chunk,
    /// Who moves it.
    Instruction,
    /// Where, when, after what.
    Schedule,
    /// When every step runs on an ideal machine.
    Timeline,
}

/// A form in which `show` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Picture {
    /// Lines of text.
    Text,
    /// A drawing.
    Svg,
    /// For programs.
    Json,
    /// For Graphviz.
    Dot,
}

/// What [`Picture`] is other than text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drawing {
    /// For people.
    Svg,
    /// For programs.
    Json,
    /// For Graphviz.
    Dot,
}

impl Picture {
    /// The drawing, if it is one.
    pub fn drawing(self) -> Option<Drawing> {
        match self {
            Picture::Text => None,
            Picture::Svg => Some(Drawing::Svg),
            Picture::Json => Some(Drawing::Json),
            Picture::Dot => Some(Drawing::Dot),
        }
    }
}

/// For whom a report is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// For people.
    Human,
    /// For programs.
    Json,
}

/// When to use colors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A number of something, at least one.
pub fn count(text: &str) -> Result<u32, String> {
    whole(text, 1..=u32::MAX)
}

/// A number of ranks, as many as a program can have.
pub fn ranks(text: &str) -> Result<u32, String> {
    whole(text, 1..=1 << 16)
}

/// The number of a rank, or of a GPU.
pub fn index(text: &str) -> Result<u32, String> {
    whole(text, 0..=u32::MAX)
}

/// A number that is not negative, decimal or, behind `0x`, hexadecimal.
pub fn number(text: &str) -> Result<u32, String> {
    let hex = text.strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16).ok());
    hex.unwrap_or_else(|| text.parse().ok())
        .ok_or_else(|| format!("expected a whole number from 0 to {}", u32::MAX))
}

fn whole(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    let (least, most) = range.into_inner();
    number.ok_or_else(|| format!("expected a whole number from {least} to {most}"))
}

/// A ratio of times, more than zero.
pub fn ratio(text: &str) -> Result<f64, String> {
    let ratio = f64::from_str(text).ok().filter(|ratio| ratio.is_finite() && *ratio > 0.0);
    ratio.ok_or_else(|| format!("`{text}` is no ratio; write a number such as 1.1"))
}

/// A rate in GB/s, more than zero.
pub fn gb_per_s(text: &str) -> Result<f64, String> {
    let rate = f64::from_str(text).ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| format!("`{text}` is no rate; write GB/s as a number such as 47"))
}

/// A time span in seconds, whole or decimal, more than zero.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time span; write seconds, such as 10 or 0.5");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    let span = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if span.is_zero() { Err(wrong()) } else { Ok(span) }
}

/// A time span in seconds; 0 stands for one that does not end while anybody waits.
pub fn timeout(text: &str) -> Result<Duration, String> {
    const MONTH: Duration = Duration::from_secs(30 * 86_400);
    if f64::from_str(text) == Ok(0.0) { Ok(MONTH) } else { seconds(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_timeout_is_a_long_one() {
        assert_eq!(timeout("0.5"), Ok(Duration::from_millis(500)));
        assert!(timeout("0").is_ok_and(|long| long > Duration::from_secs(1_000_000)));
        assert!(timeout("x").is_err() && timeout("-1").is_err() && seconds("0").is_err());
    }

    #[test]
    fn numbers_are_whole_and_in_their_range() {
        assert_eq!((count("1"), ranks("65536"), index("0")), (Ok(1), Ok(65536), Ok(0)));
        for (found, most) in
            [(count("0"), "4294967295"), (ranks("65537"), "65536"), (ranks("4.5"), "65536")]
        {
            assert_eq!(found, Err(format!("expected a whole number from 1 to {most}")));
        }
        assert_eq!((number("0"), number("0x10")), (Ok(0), Ok(16)));
        assert!(number("-1").is_err() && number("0x").is_err() && number("").is_err());
        let wrong = ["-1", "", "x", "4294967296", "1e3"];
        assert!(wrong.into_iter().all(|text| index(text).is_err()));
    }
}
