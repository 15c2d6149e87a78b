//! What is given to users: a wheel, an archive, a package of Debian, an extension for VS Code.
//!
//! ```text
//! build      cargo builds the command, the library, and what Python calls
//! contents   these and the files of the repository become a list of files with modes
//! glibc      what the programs need of the system, read in them: the wheel's tag must be true
//! wheel      a list of files as a wheel
//! archive    … as a .tar.gz
//! deb        … as a .deb
//! twice      whether two clones give the same bytes
//! vsix       the extension for VS Code, which needs no program of ours
//! ```
//!
//! Packing depends on nothing but the files: no times, no names of users, no order of a folder. So
//! the same programs give the same bytes. Release builds leave out the folders in which they are
//! made, so the same sources give the same programs wherever they lie, if the compiler and
//! `cargo-zigbuild` are the same.

mod archive;
mod build;
mod contents;
mod deb;
mod entry;
mod glibc;
mod twice;
pub mod vsix;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use build::Built;
use flate2::Compression;

use crate::root::root;

/// The version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The largest wheel, in bytes: images that jobs pull should not become much larger by it.
const WHEEL_BYTES_MAX: usize = 60_000_000;

/// Which profile programs are built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Profile {
    /// What users get.
    Release,
    /// What tests pack: it is built faster, and larger.
    Dev,
}

impl Profile {
    /// How hard files are packed.
    fn effort(self) -> Compression {
        match self {
            Profile::Release => Compression::best(),
            Profile::Dev => Compression::fast(),
        }
    }
}

/// How often packages are built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Builds {
    /// In this folder, with what stands in it.
    Once,
    /// From two clones of what is committed, which must give the same.
    Twice,
}

/// What is asked for.
struct Options {
    profile: Profile,
    builds: Builds,
    /// Where packages are written.
    folder: PathBuf,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let folder = root().join("target/dist");
        let mut options = Self { profile: Profile::Release, builds: Builds::Once, folder };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--dev" => options.profile = Profile::Dev,
                "--twice" => options.builds = Builds::Twice,
                "--output" => {
                    let folder = words.next().ok_or("expected a folder behind --output")?;
                    options.folder = PathBuf::from(folder);
                }
                other => {
                    return Err(format!(
                        "expected --dev, --twice or --output FOLDER, found {other}"
                    ));
                }
            }
        }
        match options {
            Self { profile: Profile::Dev, builds: Builds::Twice, folder: _ } => {
                Err("--twice compares what users get: leave out --dev".to_owned())
            }
            options => Ok(options),
        }
    }
}

/// Builds the wheel.
///
/// # Errors
///
/// Something cannot be built or written, or needs more of the system than a wheel may.
pub fn wheel(words: &[&str], say: &dyn Fn(&str)) -> Result<(), String> {
    let options = Options::parse(words)?;
    if options.builds == Builds::Twice {
        return Err("--twice is for `cargo xtask dist`".to_owned());
    }
    let built = build::build(options.profile, say)?;
    write_wheel(&options, &built, say)
}

/// Builds all packages.
///
/// # Errors
///
/// Something cannot be built or written, or needs more of the system than a wheel may; or two
/// builds differ.
pub fn dist(words: &[&str], say: &dyn Fn(&str)) -> Result<(), String> {
    let options = Options::parse(words)?;
    if options.builds == Builds::Twice {
        return twice::dist(&options.folder, say);
    }
    let built = build::build(options.profile, say)?;
    write_wheel(&options, &built, say)?;
    let pages = built.pages()?;
    let name = format!("msccl-{VERSION}-x86_64-linux");
    let effort = options.profile.effort();
    let files = contents::of_archive(&built, &pages)?;
    let packed = archive::pack(&files, &format!("{name}/"), effort)?;
    write(&options, &format!("{name}.tar.gz"), &packed, say)?;
    let packed = deb::pack(&contents::of_deb(&built, &pages)?, built.needs.glibc, effort)?;
    write(&options, &format!("msccl_{VERSION}_amd64.deb"), &packed, say)
}

fn write_wheel(options: &Options, built: &Built, say: &dyn Fn(&str)) -> Result<(), String> {
    let tag = built.needs.tag()?;
    let packed = wheel::pack(contents::of_wheel(built)?, &tag, options.profile.effort())?;
    if options.profile == Profile::Release && packed.len() > WHEEL_BYTES_MAX {
        return Err(format!(
            "expected a wheel of at most {WHEEL_BYTES_MAX} bytes, found {}",
            packed.len()
        ));
    }
    write(options, &wheel::file_name(&tag), &packed, say)
}

fn write(options: &Options, name: &str, bytes: &[u8], say: &dyn Fn(&str)) -> Result<(), String> {
    let path = options.folder.join(name);
    let failed = |error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(&options.folder).map_err(failed)?;
    fs::write(&path, bytes).map_err(failed)?;
    say(&format!("{}: {:.1} MB", path.display(), bytes.len() as f64 / 1e6));
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
