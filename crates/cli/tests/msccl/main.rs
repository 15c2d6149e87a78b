//! The command as its users meet it: arguments in, text and exit codes out.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are said aloud")]

mod bench;
mod bound;
mod check;
mod compare;
mod compile;
mod doctor;
mod documents;
mod explain;
mod exported;
mod fmt;
mod hosts;
mod launch;
mod list;
mod loads;
mod malformed;
mod planted;
mod predicted;
mod recorded;
mod report;
mod run;
mod show;
mod specialise;
mod synthesize;
mod synthesize_limits;
mod topo;
mod tour;
mod trace;
mod tune;
mod usage;
mod verify;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How a run of the command ended.
pub struct Ran {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ran { code, stdout, stderr } = self;
        write!(f, "exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
    }
}

/// Runs the command in the root of the repository.
pub fn msccl(args: &[&str]) -> Ran {
    msccl_reading(args, b"")
}

/// Runs the command with `stdin` as standard input.
pub fn msccl_reading(args: &[&str], stdin: &[u8]) -> Ran {
    msccl_with(&[], args, stdin)
}

/// Runs the command with these variables, and no others of ours, of NCCL or of a user's file beside
/// them.
pub fn msccl_with(variables: &[(&str, &str)], args: &[&str], stdin: &[u8]) -> Ran {
    ran(Path::new(env!("CARGO_BIN_EXE_msccl")), variables, args, stdin)
}

/// The same, where the command is the file `program`.
pub fn ran(program: &Path, variables: &[(&str, &str)], args: &[&str], stdin: &[u8]) -> Ran {
    let mut command = Command::new(program);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    command.args(args).current_dir(root).env_remove("NO_COLOR");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("MSCCL_") || text.starts_with("NCCL_") {
            command.env_remove(name);
        }
    }
    command.env("NCCL_CONF_FILE", "/dev/null").env("MSCCL_KERNEL_CACHE", "off");
    command.envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The command may end without reading it.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A fresh file of that name with that content; tests that use one name would disturb each other.
pub fn file(name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

/// An empty folder of that name; tests that use one name would disturb each other.
pub fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The command must exit with `code` and say `expected` on standard error.
pub fn check_refusal(args: &[&str], code: i32, expected: &str) {
    let ran = msccl(args);
    assert_eq!(ran.code, code, "{args:?}: {ran}");
    assert!(ran.stderr.contains(expected), "{args:?}: {ran}");
}

/// A ring that is right.
pub const RING: &str = "\
// Ring all-gather.
algorithm ring(ranks N = 3) implements allgather() in place {
    for step in 0..N-1, c in 0..N {
        output@((c + step + 1) % N)[c] = output@((c + step) % N)[c]
    }
}
";

/// A ring that stops one step early.
pub const SHORT_RING: &str = "\
algorithm short(ranks N = 3) implements allgather() in place {
    for step in 0..N-2, c in 0..N {
        output@((c + step + 1) % N)[c] = output@((c + step) % N)[c]
    }
}
";

/// Two ranks that both send three messages before they receive one, over links that hold two.
pub fn stuck_xml() -> String {
    exchange_xml(3)
}

/// Two ranks exchange `messages` messages, sends first, and add them up.
pub fn exchange_xml(messages: u32) -> String {
    let mut text = format!(
        "<algo name=\"exchange\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"{messages}\" \
         ngpus=\"2\" coll=\"allreduce\" inplace=\"1\">\n"
    );
    for gpu in 0..2 {
        let peer = 1 - gpu;
        text += &format!(
            "  <gpu id=\"{gpu}\" i_chunks=\"{messages}\" o_chunks=\"0\" \
             s_chunks=\"{messages}\">\n    <tb id=\"0\" \
             send=\"{peer}\" recv=\"{peer}\" chan=\"0\">\n"
        );
        for step in 0..messages {
            text += &step_xml(step, "s", ("i", step), ("s", step), -1);
        }
        for step in 0..messages {
            text += &step_xml(messages + step, "rrc", ("i", step), ("i", step), -1);
        }
        text += "    </tb>\n  </gpu>\n";
    }
    text + "</algo>\n"
}

fn step_xml(at: u32, kind: &str, from: (&str, u32), to: (&str, u32), depid: i32) -> String {
    let ((srcbuf, srcoff), (dstbuf, dstoff)) = (from, to);
    format!(
        "      <step s=\"{at}\" type=\"{kind}\" srcbuf=\"{srcbuf}\" srcoff=\"{srcoff}\" \
         dstbuf=\"{dstbuf}\" dstoff=\"{dstoff}\" cnt=\"1\" depid=\"{depid}\" deps=\"-1\" \
         hasdep=\"0\"/>\n"
    )
}
