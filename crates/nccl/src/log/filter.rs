//! How much is said, and about what.

use msccl_environment::{Lookup, Reader, ValueError, variable};

/// What a line is about. The names are NCCL's; a subsystem without lines of ours still parses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subsystem {
    /// Communicators come and go; what serves their calls.
    Init,
    /// Every call.
    Coll,
    /// What was chosen, and why.
    Tuning,
    /// What was read from the environment.
    Env,
    /// Memory given to the caller.
    Alloc,
    /// How ranks find one another.
    Bootstrap,
    /// Buffers that the caller registered.
    Reg,
    /// Links to other hosts.
    Net,
    /// Everything else that NCCL knows.
    Other,
}

impl Subsystem {
    fn bit(self) -> u32 {
        1 << self as u32
    }

    fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "INIT" | "DESTROY" => Self::Init,
            "COLL" | "CALL" => Self::Coll,
            "TUNING" | "GRAPH" => Self::Tuning,
            "ENV" => Self::Env,
            "ALLOC" | "ALLOC_HOST" => Self::Alloc,
            "BOOTSTRAP" => Self::Bootstrap,
            "REG" => Self::Reg,
            "NET" | "PROXY" => Self::Net,
            "P2P" | "SHM" | "NVLS" | "PROFILE" | "RAS" => Self::Other,
            _ => return None,
        })
    }
}

const EVERYTHING: u32 = u32::MAX;

/// A bit of no subsystem.
const READ: u32 = 1 << 31;

/// How much is said.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Nothing,
    Version,
    Warnings,
    Information,
}

/// What is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filter {
    level: Level,
    subsystems: u32,
}

impl Filter {
    /// What the environment asks for, and what in it makes no sense.
    pub fn read(lookup: Lookup<'_>) -> (Self, Vec<ValueError>) {
        let mut reader = Reader::new(lookup);
        let level = reader.parse(&variable::DEBUG, |text| {
            Some(match text.to_ascii_uppercase().as_str() {
                "VERSION" => Level::Version,
                "WARN" => Level::Warnings,
                "INFO" | "ABORT" | "TRACE" => Level::Information,
                _ => return None,
            })
        });
        let subsystems = reader.parse(&variable::DEBUG_SUBSYS, parse_subsystems);
        let usual = [Subsystem::Init, Subsystem::Bootstrap, Subsystem::Env, Subsystem::Net];
        let usual = usual.into_iter().fold(0, |bits, subsystem| bits | subsystem.bit());
        let filter = Self {
            level: level.unwrap_or(Level::Nothing),
            subsystems: subsystems.unwrap_or(usual),
        };
        (filter, reader.value_errors())
    }

    /// Whether lines about `subsystem` are enabled.
    pub fn is_enabled(self, subsystem: Subsystem) -> bool {
        self.level >= Level::Information && self.subsystems & subsystem.bit() != 0
    }

    /// For [`Filter::bits_enable`]; never zero.
    pub fn to_bits(self) -> u32 {
        let informed = self.level >= Level::Information;
        READ | if informed { self.subsystems & !READ } else { 0 }
    }

    /// [`Filter::is_enabled`] of what has these bits.
    pub fn bits_enable(bits: u32, subsystem: Subsystem) -> bool {
        bits & subsystem.bit() != 0
    }

    /// Whether warnings are enabled.
    pub fn shows_warnings(self) -> bool {
        self.level >= Level::Warnings
    }

    /// Whether the banner is enabled.
    pub fn shows_version(self) -> bool {
        self.level >= Level::Version
    }
}

fn parse_subsystems(text: &str) -> Option<u32> {
    let (except, names) = text.strip_prefix('^').map_or((false, text), |names| (true, names));
    let mut named = 0;
    for name in names.split(',').filter(|name| !name.is_empty()) {
        named |= match name {
            "ALL" | "all" => EVERYTHING,
            name => Subsystem::parse(name)?.bit(),
        };
    }
    Some(if except { !named } else { named })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(debug: &str, subsystems: Option<&str>) -> (Filter, usize) {
        let (debug, subsystems) = (debug.to_owned(), subsystems.map(str::to_owned));
        let (filter, value_errors) = Filter::read(&|name| match name {
            "NCCL_DEBUG" => Some(debug.clone()),
            "NCCL_DEBUG_SUBSYS" => subsystems.clone(),
            _ => None,
        });
        (filter, value_errors.len())
    }

    #[track_caller]
    fn check(debug: &str, subsystems: Option<&str>, expected: [bool; 4]) {
        let (filter, value_errors) = read(debug, subsystems);
        let found = [
            filter.shows_version(),
            filter.shows_warnings(),
            filter.is_enabled(Subsystem::Init),
            filter.is_enabled(Subsystem::Coll),
        ];
        assert_eq!((found, value_errors), (expected, 0));
        let bits = filter.to_bits();
        let by_bits = [Subsystem::Init, Subsystem::Coll].map(|of| Filter::bits_enable(bits, of));
        assert_eq!(by_bits, expected[2..]);
    }

    #[test]
    fn levels_and_subsystems() {
        check("VERSION", None, [true, false, false, false]);
        check("warn", Some("ALL"), [true, true, false, false]);
        check("INFO", None, [true, true, true, false]);
        check("TRACE", Some("COLL"), [true, true, false, true]);
        check("INFO", Some("ALL"), [true, true, true, true]);
        check("INFO", Some("^INIT"), [true, true, false, true]);
        check("INFO", Some("INIT,COLL,NVLS"), [true, true, true, true]);
    }

    #[test]
    fn nonsense_is_reported_and_ignored() {
        let (filter, value_errors) = read("LOUD", Some("INIT,WEATHER"));
        assert!(!filter.shows_version());
        assert_eq!(value_errors, 2);
    }
}
