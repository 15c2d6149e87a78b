//! Which images are not what the manifest says, and which the manifest no longer speaks for.

use std::fmt::Write;

use super::{Line, Manifest, Read, Sources, Target, hash};
use crate::Module;
use crate::packing::unpack;

/// An image that must be built again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Which.
    pub target: Target,
    /// Why.
    pub reason: Reason,
}

/// Why an image must be built again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// The manifest has no line for it.
    New,
    /// It was made from other sources, with other options, or by another compiler.
    Stale,
    /// Its file cannot be read, or does not unpack.
    Unreadable,
    /// Its bytes are not those that were built.
    Altered,
}

impl Reason {
    const ALL: [Reason; 4] = [Reason::New, Reason::Stale, Reason::Unreadable, Reason::Altered];

    /// What is said of the images.
    fn text(self) -> &'static str {
        match self {
            Reason::New => "not in the manifest",
            Reason::Stale => "stale: built from other sources, options or compiler than today's",
            Reason::Unreadable => "unreadable: the file is missing or does not unpack",
            Reason::Altered => "altered: not the bytes that were built from these sources",
        }
    }
}

/// The images that must be built again, by what `manifest` says and `read` gives.
///
/// # Errors
///
/// A source cannot be read, or split into tokens.
pub fn faults(manifest: &Manifest, read: Read<'_>) -> Result<Vec<Fault>, String> {
    let stale = stale(manifest, read)?;
    let fault = |target| {
        let known = stale.iter().find(|fault| fault.target == target).copied();
        let damaged = || {
            let reason = damage(target, manifest.line(target)?, read)?;
            Some(Fault { target, reason })
        };
        known.or_else(damaged)
    };
    Ok(Target::all().into_iter().filter_map(fault).collect())
}

/// The images of which `manifest` does not say that they were made from the sources that `read`
/// gives.
///
/// # Errors
///
/// A source cannot be read, or split into tokens.
pub fn stale(manifest: &Manifest, read: Read<'_>) -> Result<Vec<Fault>, String> {
    let mut sources = Sources::new(read);
    let mut faults = Vec::new();
    for target in Target::all() {
        let inputs = sources.of(target.module)?.fingerprint(target.architecture);
        let reason = match manifest.line(target) {
            None => Some(Reason::New),
            Some(line) if line.inputs != inputs => Some(Reason::Stale),
            Some(_) => None,
        };
        faults.extend(reason.map(|reason| Fault { target, reason }));
    }
    Ok(faults)
}

/// Why the file of `target` is not what `line` says, if so.
pub fn damage(target: Target, line: &Line, read: Read<'_>) -> Option<Reason> {
    let unpacked = read(&target.path()).ok().and_then(|packed| unpack(&packed).ok());
    match unpacked {
        None => Some(Reason::Unreadable),
        Some(bytes) if hash(&bytes) != line.image => Some(Reason::Altered),
        Some(_) => None,
    }
}

/// What a person reads of `faults`: which images, why, and the command that builds them again.
pub fn report(faults: &[Fault]) -> String {
    let all = Target::all().len();
    let mut text = format!("{} of {all} kernel images must be built again:\n", faults.len());
    for reason in Reason::ALL {
        let names: Vec<_> = faults.iter().filter(|fault| fault.reason == reason).collect();
        if names.is_empty() {
            continue;
        }
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  {}:", reason.text());
        for names in names.chunks(4) {
            let names: Vec<_> = names.iter().map(|fault| fault.target.name()).collect();
            let _ = writeln!(text, "    {}", names.join(" "));
        }
    }
    let mut modules: Vec<_> = faults.iter().map(|fault| fault.target.module).collect();
    modules.dedup();
    let mut command = "cargo xtask kernels".to_owned();
    if modules.len() < Module::ALL.len() {
        modules.iter().for_each(|module| command += &format!(" {}", module.name()));
    }
    let _ = write!(text, "Run `{command}`, and commit kernels/images.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Architecture;

    #[test]
    fn reports_say_which_images_why_and_what_to_do() {
        let of = |module, reason| {
            Architecture::ALL
                .map(|architecture| Fault { target: Target { module, architecture }, reason })
        };
        let mut faults = of(Module::WarpSpecialised, Reason::Stale).to_vec();
        faults.push(of(Module::LlLowLatencyUnaligned, Reason::Altered)[1]);
        let expected = "5 of 64 kernel images must be built again:\n  \
             stale: built from other sources, options or compiler than today's:\n    \
             warp_specialised.sm_80 warp_specialised.sm_90 warp_specialised.compute_70 \
             warp_specialised.compute_90\n  \
             altered: not the bytes that were built from these sources:\n    \
             ll_low_latency_unaligned.sm_90\n\
             Run `cargo xtask kernels warp_specialised ll_low_latency_unaligned`, and commit \
             kernels/images.";
        assert_eq!(report(&faults), expected);
    }
}
