//! A set-user-ID program that uses the library, with the variables of whoever calls it.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are loud")]

mod programs;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use programs::{folder, text};

/// A user that owns nothing here.
const OTHER_USER: u32 = 65_534;

/// The program, which finds the library without variables, in a folder that every user can reach.
fn build() -> Option<PathBuf> {
    let name = format!("msccl-privileged-{}", std::process::id());
    let own = std::env::temp_dir().join(name);
    fs::create_dir_all(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(folder().join("libnccl.so.2"), own.join("libnccl.so.2")).unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(tests.join("include"))
        .arg(tests.join("tests/c/privileged.c"))
        .arg("-o")
        .arg(own.join("privileged"))
        .arg("-L")
        .arg(&own)
        .arg(format!("-Wl,-rpath,{}", own.display()))
        .args(["-l:libnccl.so.2", "-ldl", "-lm"])
        .status();
    match compiled {
        Ok(status) => {
            assert!(status.success());
            Some(own)
        }
        Err(error) => {
            eprintln!("SKIPPED privileged.c: there is no C compiler: {error}");
            None
        }
    }
}

struct Said {
    output: String,
    log: Option<String>,
}

/// What the program says, and writes to a log, when its caller asks for a GPU, a log and a time
/// that makes no sense.
fn call(own: &Path) -> Said {
    let log = own.join("logs/log");
    let _ = fs::remove_file(&log);
    let Output { stdout, stderr, .. } = Command::new(own.join("privileged"))
        .env("NCCL_DEBUG", "INFO")
        .env("NCCL_DEBUG_FILE", &log)
        .env("NCCL_SOCKET_IFNAME", "lo")
        .env("MSCCL_DEVICE", "host")
        .env("MSCCL_TIMEOUT_S", "soon")
        .env("MSCCL_ALGOS", "a name that is none")
        .output()
        .unwrap();
    Said { output: text(&stdout) + &text(&stderr), log: fs::read_to_string(log).ok() }
}

#[test]
fn a_program_with_rights_of_its_own_has_no_variables() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can make a program of another user");
    }
    let Some(own) = build() else { return };
    // Where the program could write a log, whoever it is.
    fs::create_dir_all(own.join("logs")).unwrap();
    fs::set_permissions(own.join("logs"), fs::Permissions::from_mode(0o777)).unwrap();
    let program = own.join("privileged");

    let usual = call(&own);
    assert!(usual.output.starts_with("privileged: no\n"), "{}", usual.output);
    assert!(
        usual.output.contains("refused: CommInitRank : MSCCL_TIMEOUT_S is `soon`, "),
        "{}",
        usual.output
    );
    assert!(usual.log.is_some_and(|log| log.contains("NCCL INFO")));

    chown(&program, Some(OTHER_USER), None).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let Said { output, log } = call(&own);
    let temporary = fs::remove_dir_all(&own);
    if output.starts_with("privileged: no\n") {
        return eprintln!("SKIPPED: this file system has no set-user-ID programs");
    }
    assert_eq!(output, "privileged: yes\nok\n");
    assert_eq!(log, None, "the log of a privileged program is not where its caller says");
    temporary.unwrap();
}
