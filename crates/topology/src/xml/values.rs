//! Values of attributes, from text and to text.

use std::borrow::Cow;

use super::error::{Notes, ReadError, clip};
use super::markup::Element;
use crate::address::BusId;
use crate::system::{Arch, CpuSet, CpuVendor, Name, PciGeneration};

/// Architectures as files spell them: first NCCL's words, then those of `uname`.
pub(super) const ARCHS: [(Arch, &str); 7] = [
    (Arch::X86_64, "x86_64"),
    (Arch::Arm64, "arm64"),
    (Arch::Ppc64, "ppc64"),
    (Arch::X86_64, "amd64"),
    (Arch::Arm64, "aarch64"),
    (Arch::Arm64, "aarch64_be"),
    (Arch::Ppc64, "ppc64le"),
];

/// Makers of processors as files spell them.
pub(super) const VENDORS: [(CpuVendor, &str); 5] = [
    (CpuVendor::Intel, "GenuineIntel"),
    (CpuVendor::Amd, "AuthenticAMD"),
    (CpuVendor::Hygon, "HygonGenuine"),
    (CpuVendor::Zhaoxin, "CentaurHauls"),
    (CpuVendor::Shanghai, "  Shanghai  "),
];

/// Speeds of PCI lanes as files spell them; `sysfs` leaves `PCIe` out in old kernels.
const SPEEDS: [(PciGeneration, &str); 6] = [
    (PciGeneration::Gen1, "2.5 GT/s PCIe"),
    (PciGeneration::Gen2, "5.0 GT/s PCIe"),
    (PciGeneration::Gen3, "8.0 GT/s PCIe"),
    (PciGeneration::Gen4, "16.0 GT/s PCIe"),
    (PciGeneration::Gen5, "32.0 GT/s PCIe"),
    (PciGeneration::Gen6, "64.0 GT/s PCIe"),
];

/// The generation whose lanes have the speed `text`, a number of GT/s; `None` for any other text.
pub(crate) fn generation(text: &str) -> Option<PciGeneration> {
    let (speed, _) = text.trim().split_once("GT/s")?;
    let speed: f64 = speed.trim().parse().ok()?;
    let of = |spelled: &str| spelled.split(' ').next().and_then(|text| text.parse::<f64>().ok());
    let found = SPEEDS.iter().find(|(_, spelled)| of(spelled) == Some(speed));
    found.map(|(generation, _)| *generation)
}

/// How files spell `value`, according to a table that has every value.
pub(super) fn spelled<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    table.iter().find(|(known, _)| known == value).map_or("", |(_, text)| *text)
}

/// How files spell the speed of a lane.
pub(super) fn speed(generation: PciGeneration) -> &'static str {
    spelled(&SPEEDS, &generation)
}

/// A set of processors: hexadecimal words between commas, the most significant first, or a list of
/// numbers and ranges, which a range states.
pub(crate) fn cpu_set(text: &str) -> Option<CpuSet> {
    let text = text.trim().trim_end_matches(',');
    if text.is_empty() {
        return Some(CpuSet::default());
    }
    if text.contains('-') { cpu_list(text) } else { cpu_mask(text) }
}

/// Words of up to eight digits between commas. A word that is longer holds several.
fn cpu_mask(text: &str) -> Option<CpuSet> {
    let mut words = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let part = part.strip_prefix("0x").or(part.strip_prefix("0X")).unwrap_or(part);
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let first = part.len() % 8;
        let starts = std::iter::once(0).filter(|_| first > 0).chain((first..part.len()).step_by(8));
        for start in starts {
            let end = if start < first { first } else { start + 8 };
            words.push(u32::from_str_radix(part.get(start..end)?, 16).ok()?);
        }
    }
    (words.len() <= CpuSet::MOST_WORDS).then_some(CpuSet { words })
}

/// Numbers and ranges, both ends included, between commas.
fn cpu_list(text: &str) -> Option<CpuSet> {
    let mut words = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || last / 32 >= CpuSet::MOST_WORDS {
            return None;
        }
        words.resize(words.len().max(last / 32 + 1), 0);
        (first..=last).for_each(|number| words[number / 32] |= 1 << (number % 32));
    }
    words.reverse();
    Some(CpuSet { words })
}

/// Hexadecimal digits, with or without `0x`; identities have colons between them.
pub(crate) fn hex(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
    let digits =
        if digits.contains(':') { Cow::from(digits.replace(':', "")) } else { digits.into() };
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u64::from_str_radix(&digits, 16).ok() } else { None }
}

/// As [`hex`], if the number fits.
pub(crate) fn hex_as<T: TryFrom<u64>>(text: &str) -> Option<T> {
    hex(text).and_then(|number| T::try_from(number).ok())
}

/// An address, with or without domain and function: `0000:1b:00.0`, `1b:00.0`, `0000:1B:00`.
pub(super) fn bus_id(text: &str) -> Option<BusId> {
    let text = text.trim();
    let with_function = if text.contains('.') { text.to_owned() } else { format!("{text}.0") };
    let whole = if with_function.matches(':').count() == 1 {
        format!("0000:{with_function}")
    } else {
        with_function
    };
    whole.parse().ok()
}

/// 0 or another number, which means yes.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text.trim() {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        text => text.parse::<i64>().ok().map(|number| number != 0),
    }
}

/// A time in microseconds, rounded to nanoseconds.
pub(super) fn microseconds(text: &str) -> Option<u32> {
    let ns = text.trim().parse::<f64>().ok()? * 1000.0;
    let fits = (0.0..=f64::from(u32::MAX)).contains(&ns);
    fits.then_some(ns.round() as u32)
}

/// `Some(None)` for negative numbers, with which NCCL says that it does not know; `None` for what
/// is no number or too large.
fn number(text: &str) -> Option<Option<u32>> {
    let text = text.trim();
    let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => match text.parse::<i64>() {
            Ok(number) => number,
            Err(_) => whole(text.parse().ok()?)?,
        },
    };
    if number < 0 { Some(None) } else { u32::try_from(number).ok().map(Some) }
}

/// A number that is whole and fits 32 bits.
fn whole(number: f64) -> Option<i64> {
    let fits = number.fract() == 0.0 && number.abs() <= f64::from(u32::MAX);
    fits.then_some(number as i64)
}

/// Reads the attributes of one element; notes and complaints name the place.
pub(super) struct Attributes<'a> {
    pub(super) text: &'a str,
    pub(super) notes: &'a Notes<'a>,
    pub(super) element: &'a Element,
}

impl<'a> Attributes<'a> {
    /// A complaint about the element.
    pub(super) fn error(&self, expected: String, found: impl Into<String>) -> ReadError {
        ReadError::new(self.text, self.element.offset, expected, found)
    }

    /// Notes what is not used of the element, or not as it stands there.
    pub(super) fn note(&self, message: String) {
        self.notes.add(self.element.offset, message);
    }

    /// The text of an attribute.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let attributes = &self.element.attributes;
        attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// An attribute, if it is there and says something; `kind` says what it must be, `instead` what
    /// becomes of one that is something else.
    pub(super) fn optional<T>(
        &self,
        name: &str,
        kind: &str,
        instead: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(name)?;
        if says_nothing(text) { None } else { self.understood(name, text, kind, instead, read) }
    }

    /// A name, if it is there.
    pub(super) fn name(&self, attribute: &str, instead: &str) -> Option<Name> {
        let text = self.text(attribute)?;
        self.understood(attribute, text, NAME, instead, Name::new)
    }

    fn understood<T>(
        &self,
        name: &str,
        text: &str,
        kind: &str,
        instead: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = read(text);
        if value.is_none() {
            let (element, text) = (&self.element.name, clip(text));
            self.note(format!(
                "expected `{name}` of <{element}> to be {kind}, found {text:?}; {instead}"
            ));
        }
        value
    }

    /// A number, if it is there and known.
    pub(super) fn number(&self, name: &str, instead: &str) -> Option<u32> {
        self.optional(name, NUMBER, instead, number).flatten()
    }

    /// A word of `table`, if it is there.
    pub(super) fn word<T: Copy>(
        &self,
        name: &str,
        table: &[(T, &str)],
        instead: &str,
    ) -> Option<T> {
        let words: Vec<_> = table.iter().map(|(_, text)| text.trim()).collect();
        let kind = format!("one of {}", words.join(", "));
        let find = |text: &str| {
            let same = |word: &str| word.trim().eq_ignore_ascii_case(text.trim());
            table.iter().find(|(_, word)| same(word)).map(|(value, _)| *value)
        };
        self.optional(name, &kind, instead, find)
    }

    /// Notes the attributes that are not among those that `known` names.
    pub(super) fn note_unknown(&self, known: &[&str]) {
        for (name, _) in &self.element.attributes {
            if !known.contains(&name.as_str()) {
                let (element, name) = (&self.element.name, clip(name));
                self.note(format!(
                    "<{element}> has an attribute `{name}`, which is not known; it is not used"
                ));
            }
        }
    }
}

/// How files write that a value is not known.
fn says_nothing(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || ["unknown", "n/a", "none"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// What names are.
const NAME: &str = "printable ASCII without quotes, `<`, `>` and `&`";

/// What most attributes are.
pub(super) const NUMBER: &str = "a whole number below 2^32";
