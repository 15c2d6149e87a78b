//! The page of the playground: its module, compiled, and everything in one file.
//!
//! The module is compiled by the compiler at hand where that has the target
//! `wasm32-unknown-unknown`. Otherwise Debian's compiler for the web is fetched into
//! `target/wasm-toolchain`, with the sources of the standard library, which is compiled as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::root::root;

/// What the module is compiled for.
const TARGET: &str = "wasm32-unknown-unknown";

/// Where Debian's packages are unpacked.
const TOOLCHAIN: &str = "target/wasm-toolchain";

/// Debian's packages: compiler, its libraries, sources of the standard library, linker.
const PACKAGES: [&str; 5] =
    ["rustc-web", "libstd-rust-web-dev", "rust-web-src", "libllvm22", "lld-22"];

/// The library of the compiler has its version in its name.
const LIBRARY_OF_COMPILER: &str = "libstd-rust-web-";

/// Programs that recurse into expressions need more than the usual megabyte.
const STACK_BYTES: u32 = 8 << 20;

/// The page's parts, in the order in which they are joined.
const SCRIPTS: [&str; 7] =
    ["lzma.js", "engine.js", "editor.js", "settings.js", "replay.js", "results.js", "main.js"];

/// Builds the page at `path`, and says how large it is.
pub fn build(path: &Path, say: &dyn Fn(&str)) -> Result<(), String> {
    let module = compile(say)?;
    let packed = lzma(&read(&module)?)?;
    let page = joined(&base64(&packed))?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::write(path, &page).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let sent = gzip(page.as_bytes())?.len();
    say(&format!(
        "{}: {} KiB, {} KiB as it is sent; the module has {} KiB",
        path.display(),
        page.len() >> 10,
        sent >> 10,
        packed.len() >> 10
    ));
    Ok(())
}

/// The page without a module, joined from its parts.
fn joined(module: &str) -> Result<String, String> {
    let folder = root().join("crates/playground/page");
    let part = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let scripts: Result<Vec<_>, _> = SCRIPTS.into_iter().map(part).collect();
    let (worker, script) = (part("worker.js")?, scripts?.join("\n"));
    if [&worker, &script].iter().any(|text| text.contains("</script")) {
        return Err("a script of the page would end itself: it has `</script`".to_owned());
    }
    let page = part("page.html")?
        .replace("/*style*/", &part("page.css")?)
        .replace("/*worker*/", &worker)
        .replace("/*script*/", &script);
    Ok(page.replace("/*wasm*/", module))
}

/// Compiles the module; where it is.
fn compile(say: &dyn Fn(&str)) -> Result<PathBuf, String> {
    let folder = root().join("target/playground");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).args(["build", "--quiet", "--package", "msccl-playground", "--lib"]);
    cargo.args(["--profile", "playground", "--target", TARGET, "--target-dir"]).arg(&folder);
    cargo.env("CARGO_INCREMENTAL", "0");
    let mut flags = format!("-C link-arg=-zstack-size={STACK_BYTES}");
    if !has_target() {
        use_debians(&mut cargo, say)?;
        // What says where a panic came from is a fifth of the module, and reaches nobody.
        flags.push_str(" -Zunstable-options -Cpanic=immediate-abort");
    }
    cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", flags);
    run(&mut cargo, "cannot compile the module")?;
    Ok(folder.join(TARGET).join("playground/msccl_playground.wasm"))
}

/// Whether the compiler at hand has a standard library for the target.
fn has_target() -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", TARGET]).stderr(Stdio::null());
    let asked = rustc.output();
    let folder = asked.ok().map(|asked| String::from_utf8_lossy(&asked.stdout).trim().to_owned());
    folder.is_some_and(|folder| !folder.is_empty() && Path::new(&folder).is_dir())
}

/// Lets `cargo` compile with Debian's compiler, which is fetched first if it is not there.
fn use_debians(cargo: &mut Command, say: &dyn Fn(&str)) -> Result<(), String> {
    let folder = root().join(TOOLCHAIN);
    let compiler = folder.join("usr/bin/rustc");
    if !compiler.is_file() {
        say(&format!("fetching Debian's compiler for the web into {TOOLCHAIN}"));
        fetch(&folder)?;
    }
    let libraries = ["usr/lib/x86_64-linux-gnu", "usr/lib/llvm-22/lib"];
    let libraries = libraries.map(|name| folder.join(name).display().to_string()).join(":");
    cargo.env("LD_LIBRARY_PATH", libraries).env("RUSTC", compiler);
    // It is a stable compiler, and building its own standard library is not a stable option.
    cargo.env("RUSTC_BOOTSTRAP", "1").arg("-Zbuild-std=std,panic_abort");
    let linker = folder.join("usr/bin/wasm-ld-22");
    cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
    Ok(())
}

fn fetch(folder: &Path) -> Result<(), String> {
    let packages = folder.join("packages");
    fs::create_dir_all(&packages).map_err(|error| format!("{}: {error}", packages.display()))?;
    let missing = "this machine has no compiler for WebAssembly, and Debian's cannot be fetched";
    let mut download = Command::new("apt-get");
    download.current_dir(&packages).args(["download", "-q"]).args(PACKAGES);
    run(download.arg(library_of_compiler()?).stdout(Stdio::null()), missing)?;
    let entries = fs::read_dir(&packages).map_err(|error| error.to_string())?;
    for package in entries.flatten() {
        let mut unpack = Command::new("dpkg");
        run(unpack.arg("-x").arg(package.path()).arg(folder), missing)?;
    }
    fs::remove_dir_all(&packages).map_err(|error| format!("{}: {error}", packages.display()))
}

/// The name of the package with the compiler's own library: it is one of what the compiler's
/// development files need.
fn library_of_compiler() -> Result<String, String> {
    let asked = Command::new("apt-cache").args(["depends", "libstd-rust-web-dev"]).output();
    let asked = asked.map_err(|error| format!("cannot run apt-cache: {error}"))?;
    let text = String::from_utf8_lossy(&asked.stdout);
    let mut words = text.split_whitespace();
    let is_library = |word: &&str| {
        let version = word.strip_prefix(LIBRARY_OF_COMPILER);
        version.is_some_and(|version| version.starts_with(|it: char| it.is_ascii_digit()))
    };
    let found = words.find(is_library).map(str::to_owned);
    found.ok_or_else(|| "Debian has no compiler for the web here; run `apt-get update`".to_owned())
}

fn run(command: &mut Command, failed: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{failed}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{failed}: {status}")) }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// `bytes`, packed as the page unpacks them.
fn lzma(bytes: &[u8]) -> Result<Vec<u8>, String> {
    /// Where the length stands in the head, and where it ends. The program leaves it open.
    const LENGTH: std::ops::Range<usize> = 5..13;
    let mut packed = packed_by("xz", &["--format=lzma", "-9e", "-c"], bytes)?;
    let length = packed.get_mut(LENGTH).ok_or("xz gave nothing")?;
    length.copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    Ok(packed)
}

/// `bytes`, packed as servers send them.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    packed_by("gzip", &["-9", "-n"], bytes)
}

/// What a program makes of `bytes`.
fn packed_by(name: &str, arguments: &[&str], bytes: &[u8]) -> Result<Vec<u8>, String> {
    use std::io::Write;
    let failed = |error: std::io::Error| format!("cannot run {name}: {error}");
    let mut program = Command::new(name);
    let program = program.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = program.spawn().map_err(failed)?;
    let input = child.stdin.take();
    std::thread::scope(|scope| {
        let fed = scope.spawn(move || input.map_or(Ok(()), |mut input| input.write_all(bytes)));
        let output = child.wait_with_output().map_err(failed)?;
        match fed.join() {
            Ok(fed) => fed.map_err(failed)?,
            Err(_) => return Err(format!("cannot feed {name}")),
        }
        Ok(output.stdout)
    })
}

/// `bytes` in letters, digits, `+` and `/`.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= group.len() { letter as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_letters() {
        let texts = ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
        assert_eq!(base64(&[0xff, 0xfe]), "//4=");
    }

    #[test]
    fn the_page_joins_from_its_parts() {
        let page = joined("AAAA").unwrap();
        assert!(page.contains(">AAAA</script>"));
        for left in ["/*style*/", "/*worker*/", "/*script*/", "/*wasm*/"] {
            assert!(!page.contains(left), "{left}");
        }
        // Nothing is loaded from elsewhere.
        for address in page
            .match_indices("://")
            .map(|(at, _)| page[..at].rfind('h').map_or("", |from| &page[from..]))
        {
            assert!(address.starts_with("http://www.w3.org/2000/svg"), "{:.60}", address);
        }
    }
}
