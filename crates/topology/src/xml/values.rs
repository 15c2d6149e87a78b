//! Values of attributes, from text and to text.

use super::error::ReadError;
use super::markup::Element;
use crate::system::{Arch, CpuSet, CpuVendor, PciGeneration};

/// Architectures as files spell them.
pub(super) const ARCHS: [(Arch, &str); 3] =
    [(Arch::X86_64, "x86_64"), (Arch::Arm64, "arm64"), (Arch::Ppc64, "ppc64")];

/// Makers of processors as files spell them.
pub(super) const VENDORS: [(CpuVendor, &str); 4] = [
    (CpuVendor::Intel, "GenuineIntel"),
    (CpuVendor::Amd, "AuthenticAMD"),
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

/// The generation whose lanes have the speed `text`; `None` for any other text.
pub(crate) fn generation(text: &str) -> Option<PciGeneration> {
    let bare = |text: &str| text.trim().trim_end_matches("PCIe").trim_end().replace(".0 ", " ");
    let text = bare(text);
    SPEEDS.iter().find(|(_, spelled)| bare(spelled) == text).map(|(generation, _)| *generation)
}

/// How files spell `value`, according to a table that has every value.
pub(super) fn spelled<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    table.iter().find(|(known, _)| known == value).map_or("", |(_, text)| *text)
}

/// How files spell the speed of a lane.
pub(super) fn speed(generation: PciGeneration) -> &'static str {
    spelled(&SPEEDS, &generation)
}

/// A set of processors; words of up to eight hexadecimal digits between commas.
pub(crate) fn cpu_set(text: &str) -> Option<CpuSet> {
    if text.is_empty() {
        return Some(CpuSet::default());
    }
    let words = text.split(',').map(|word| u32::from_str_radix(word, 16).ok());
    let words = words.collect::<Option<Vec<_>>>()?;
    (words.len() <= CpuSet::MOST_WORDS).then_some(CpuSet { words })
}

/// Hexadecimal digits, with or without `0x`.
pub(crate) fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// As [`hex`], if the number fits.
pub(crate) fn hex_as<T: TryFrom<u64>>(text: &str) -> Option<T> {
    hex(text).and_then(|number| T::try_from(number).ok())
}

/// `0` or `1`.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// A time in microseconds, rounded to nanoseconds.
pub(super) fn microseconds(text: &str) -> Option<u32> {
    let ns = text.parse::<f64>().ok()? * 1000.0;
    let fits = (0.0..=f64::from(u32::MAX)).contains(&ns);
    fits.then_some(ns.round() as u32)
}

/// Reads the attributes of one element; complaints name the place.
pub(super) struct Attributes<'a> {
    pub(super) text: &'a str,
    pub(super) element: &'a Element,
}

impl<'a> Attributes<'a> {
    /// A complaint about the element.
    pub(super) fn error(&self, expected: String, found: impl Into<String>) -> ReadError {
        ReadError::new(self.text, self.element.offset, expected, found)
    }

    /// The text of an attribute.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let attributes = &self.element.attributes;
        attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// An attribute that may be missing; `kind` says what it must be otherwise.
    pub(super) fn optional<T>(
        &self,
        name: &str,
        kind: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong = || self.error(format!("`{name}` to be {kind}"), format!("{text:?}"));
        read(text).map(Some).ok_or_else(wrong)
    }

    /// An attribute that must be there.
    pub(super) fn required<T>(
        &self,
        name: &str,
        kind: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ReadError> {
        let missing = || {
            let element = &self.element.name;
            self.error(format!("<{element}> with `{name}`, {kind}"), "no such attribute")
        };
        self.optional(name, kind, read)?.ok_or_else(missing)
    }

    /// A number that may be missing.
    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, ReadError> {
        self.optional(name, NUMBER, |text| text.parse().ok())
    }

    /// A number that NCCL dumps as negative if it is unknown.
    pub(super) fn known_number(&self, name: &str) -> Result<Option<u32>, ReadError> {
        let read = |text: &str| text.parse::<i64>().ok().and_then(number_or_unknown);
        Ok(self.optional(name, NUMBER, read)?.flatten())
    }

    /// A word of `table` that may be missing.
    pub(super) fn word<T: Copy>(
        &self,
        name: &str,
        table: &[(T, &str)],
    ) -> Result<Option<T>, ReadError> {
        let words: Vec<_> = table.iter().map(|(_, text)| *text).collect();
        let kind = format!("one of {}", words.join(", "));
        let find =
            |text: &str| table.iter().find(|(_, word)| *word == text).map(|(value, _)| *value);
        self.optional(name, &kind, find)
    }
}

/// What most attributes are.
pub(super) const NUMBER: &str = "a whole number that is not negative";

/// `Some(None)` for negative numbers, `None` for those that are too large.
fn number_or_unknown(number: i64) -> Option<Option<u32>> {
    if number < 0 { Some(None) } else { u32::try_from(number).ok().map(Some) }
}
