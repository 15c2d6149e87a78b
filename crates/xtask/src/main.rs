//! What developers run beside cargo.
//!
//! ```text
//! cargo xtask kernels [MODULE…]  build the kernel images of all or some modules that are not what
//!                                their sources give
//! cargo xtask kernels --check [MODULE…]
//!                                compile all or some again, and compare with what is committed
//! cargo xtask kernels --check --rotate SECONDS
//!                                the same for a few, others every day
//! cargo xtask kernels --recording [MODULE…]
//!                                compile recording kernels, one of all or some modules
//! cargo xtask specialise FOLDER [CASE…]
//!                                compile special kernels, to measure the interpreters against them
//! cargo xtask playground PAGE    build the page of the playground, with its module in it
//! cargo xtask book FOLDER [PAGE]  build the documents as a site; PAGE is that of the playground
//! cargo xtask audit [CLONE]      compare the packages that are locked with the advisories in a clone of RustSec's database,
//!                                or with the table of them in supply
//! cargo xtask advisories CLONE   rewrite that table from a clone
//! cargo xtask wheel [--dev] [--output FOLDER]
//!                                build the wheel of the Python package, into target/dist
//! cargo xtask dist [--dev] [--output FOLDER]
//!                                the same, an archive, and a package of Debian
//! cargo xtask dist --twice [--output FOLDER]
//!                                the same from two clones of what is committed, and compare them
//! cargo xtask sbom FOLDER        write bills of materials, as CycloneDX, of what is given to users
//! cargo xtask vsix [FILE]        write the extension for VS Code; msccl.vsix if no file is named
//! ```

#![deny(unsafe_code)]

use std::process::ExitCode;

mod book;
mod compiler;
mod kernels;
mod packages;
mod playground;
mod root;
mod specialise;
mod supply;

const USAGE: &str = "usage: cargo xtask kernels [--check] [MODULE…], \
     cargo xtask kernels --check --rotate SECONDS, cargo xtask kernels --recording [MODULE…], \
     cargo xtask specialise FOLDER [CASE…], \
     cargo xtask playground PAGE, cargo xtask book FOLDER [PAGE], \
     cargo xtask audit [CLONE], cargo xtask advisories CLONE, \
     cargo xtask wheel [--dev] [--output FOLDER], cargo xtask dist [--dev] [--output FOLDER], \
     cargo xtask dist --twice [--output FOLDER], \
     cargo xtask sbom FOLDER, or cargo xtask vsix [FILE]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["kernels", "--check", "--rotate", seconds] => kernels::check_some(seconds),
        ["kernels", "--check", modules @ ..] => kernels::check(modules),
        ["kernels", "--recording", modules @ ..] => kernels::compile_recording(modules),
        ["kernels", modules @ ..] => kernels::build(modules),
        ["specialise", folder, cases @ ..] => specialise::write(folder.as_ref(), cases),
        ["book", folder] => book::build(folder.as_ref(), None, &say),
        ["book", folder, page] => book::build(folder.as_ref(), Some(page.as_ref()), &say),
        ["playground", page] => playground::build(page.as_ref(), &say),
        ["audit"] => supply::audit(None, &say),
        ["audit", clone] => supply::audit(Some(clone.as_ref()), &say),
        ["advisories", clone] => supply::write_table(clone.as_ref()),
        ["wheel", options @ ..] => packages::wheel(options, &say),
        ["dist", options @ ..] => packages::dist(options, &say),
        ["sbom", folder] => supply::write_sboms(folder.as_ref(), &say),
        ["vsix"] => packages::vsix::write("msccl.vsix".as_ref()),
        ["vsix", file] => packages::vsix::write(file.as_ref()),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            say(&message);
            ExitCode::FAILURE
        }
    }
}

/// Tells the person at the terminal.
#[allow(clippy::print_stderr)] // The only place that prints.
fn say(message: &str) {
    eprintln!("{message}");
}
