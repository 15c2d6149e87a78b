//! What developers run beside cargo.
//!
//! ```text
//! cargo xtask kernels [MODULE…]  compile kernels/device and write kernels/images: all, or those of some modules, where what
//!                                others are made from has not changed
//! cargo xtask kernels --check    compile, and compare with what is committed
//! cargo xtask specialise FOLDER [CASE…]
//!                                compile special kernels, to measure the interpreters against them
//! ```

use std::process::ExitCode;

mod compiler;
mod kernels;
mod specialise;

const USAGE: &str =
    "usage: cargo xtask kernels [--check | MODULE…], or cargo xtask specialise FOLDER [CASE…]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["kernels", "--check"] => kernels::check(),
        ["kernels", modules @ ..] => kernels::write(modules),
        ["specialise", folder, cases @ ..] => specialise::write(folder.as_ref(), cases),
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
