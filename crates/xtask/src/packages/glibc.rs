//! What programs need of the system: libraries, and versions of glibc's functions.

use std::collections::BTreeSet;

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn, ElfFile64, FileHeader};

/// Libraries that every system has which takes `manylinux` wheels.
const ALLOWED: [&str; 7] = [
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
];
/// The glibc of the systems that PyTorch's wheels support; a wheel says no less.
const LEAST: (u32, u32) = (2, 28);

/// What programs need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs {
    /// The newest version of glibc of which a function is used.
    pub glibc: (u32, u32),
    /// Libraries that the loader must find.
    pub libraries: BTreeSet<String>,
}

/// What all of `files` need, named for messages.
pub fn needs(files: &[(&str, &[u8])]) -> Result<Needs, String> {
    let mut all = Needs { glibc: (0, 0), libraries: BTreeSet::new() };
    for (name, bytes) in files {
        let failed = |error| format!("{name} is no ELF file: {error}");
        let found = needs_of(bytes).map_err(failed)?;
        all.glibc = all.glibc.max(found.glibc);
        all.libraries.extend(found.libraries);
    }
    Ok(all)
}

fn needs_of(bytes: &[u8]) -> object::Result<Needs> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let endian = file.endian();
    let header: &FileHeader64<Endianness> = file.elf_header();
    let sections = header.sections(endian, bytes)?;
    let mut libraries = BTreeSet::new();
    if let Some((dynamic, link)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, link)?;
        for entry in
            dynamic.iter().filter(|entry| entry.tag32(endian).map(i64::from) == Some(DT_NEEDED))
        {
            libraries.insert(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned());
        }
    }
    let mut glibc = (0, 0);
    if let Some((mut needed, link)) = sections.gnu_verneed(endian, bytes)? {
        let strings = sections.strings(endian, bytes, link)?;
        while let Some((_, mut versions)) = needed.next()? {
            while let Some(version) = versions.next()? {
                let name = String::from_utf8_lossy(version.name(endian, strings)?);
                glibc = glibc.max(version_of(&name).unwrap_or_default());
            }
        }
    }
    Ok(Needs { glibc, libraries })
}

/// The version of glibc in the name of a version, such as `GLIBC_2.28`.
fn version_of(name: &str) -> Option<(u32, u32)> {
    let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl Needs {
    /// The tag of a wheel for which it is true.
    pub fn tag(&self) -> Result<String, String> {
        let Needs { glibc, libraries } = self;
        let other = libraries.iter().find(|library| !ALLOWED.contains(&library.as_str()));
        if let Some(other) = other {
            let expected = ALLOWED.join(", ");
            return Err(format!("expected no libraries but {expected}, found {other}"));
        }
        let (major, minor) = LEAST.max(*glibc);
        Ok(format!("manylinux_{major}_{minor}_x86_64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_says_what_it_needs() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = needs(&[("this test", &own)]).unwrap();
        assert!(needs.libraries.contains("libc.so.6"), "{needs:?}");
        assert!(needs.glibc >= (2, 17) && needs.glibc < (3, 0), "{needs:?}");
    }

    #[test]
    fn tags_are_true() {
        let tag = |glibc, library: &str| {
            Needs { glibc, libraries: BTreeSet::from([library.to_owned()]) }.tag()
        };
        assert_eq!(tag((2, 17), "libc.so.6").as_deref(), Ok("manylinux_2_28_x86_64"));
        assert_eq!(tag((2, 34), "libm.so.6").as_deref(), Ok("manylinux_2_34_x86_64"));
        assert!(tag((2, 17), "libcuda.so.1").unwrap_err().ends_with("found libcuda.so.1"));
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version_of("GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(version_of("GLIBC_2.34"), Some((2, 34)));
        assert_eq!(version_of("GLIBC_PRIVATE"), None);
        assert_eq!(version_of("GCC_3.0"), None);
    }
}
