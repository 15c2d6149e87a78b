//! `msccl bench` and `msccl run` as the ranks of a launch: by hand, and by the launchers that are
//! installed.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::fake;
use crate::{Ran, arg, file, msccl_with};

/// The command with none of the variables that launchers set, but for those that a test adds.
fn bare(program: impl AsRef<std::ffi::OsStr>) -> Command {
    bared(Command::new(program))
}

/// `command` without the variables that launchers set.
pub fn bared(mut command: Command) -> Command {
    let foreign = ["MSCCL_", "OMPI_", "PMI", "SLURM_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_"];
    for (name, _) in std::env::vars_os() {
        if foreign.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.env("NCCL_CONF_FILE", "/dev/null").env("MSCCL_DEVICE", "host");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts `ranks` ranks as torchrun does; `change` may do what it likes to each.
fn start(ranks: u32, args: &[&str], change: impl Fn(u32, &mut Command)) -> Vec<Child> {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = |rank: u32| {
        let mut command = bare(env!("CARGO_BIN_EXE_msccl"));
        command.args(args).env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        change(rank, &mut command);
        command.spawn().unwrap()
    };
    (0..ranks).map(start).collect()
}

/// How `child` has ended.
pub fn end(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn launch(ranks: u32, args: &[&str], change: impl Fn(u32, &mut Command)) -> Vec<Ran> {
    start(ranks, args, change).into_iter().map(end).collect()
}

fn unchanged(_: u32, _: &mut Command) {}

#[test]
fn rank_0_speaks_for_all() {
    let Some(fake) = fake() else { return };
    let args = ["bench", "allreduce", "--library", fake, "-b", "8", "-e", "1K", "-n", "2"];
    let ran = launch(3, &args, unchanged);
    assert!(ran.iter().all(|ran| ran.code == 0), "{}{}{}", ran[0], ran[1], ran[2]);
    assert!(ran[0].stdout.contains("# nRanks 3 "), "{}", ran[0]);
    assert!(ran[0].stdout.contains("# Out of bounds values : 0 OK"), "{}", ran[0]);
    for silent in &ran[1..] {
        assert_eq!((silent.stdout.as_str(), silent.stderr.as_str()), ("", ""));
    }
}

#[test]
fn one_launched_process_starts_its_ranks_itself() {
    let Some(fake) = fake() else { return };
    let args = ["bench", "allreduce", "--library", fake, "-e", "8", "--ranks", "2", "-n", "1"];
    let ran = launch(1, &args, unchanged);
    assert!(ran[0].code == 0 && ran[0].stdout.contains("# nRanks 2 "), "{}", ran[0]);
}

#[test]
fn a_wrong_result_on_one_rank_is_the_exit_code_of_all() {
    let Some(fake) = fake() else { return };
    let args = ["bench", "allreduce", "--library", fake, "-e", "8", "-n", "1"];
    let args = [&args[..], &["--env", "FAKE_WRONG=1"]].concat();
    let ran = launch(2, &args, unchanged);
    assert_eq!([ran[0].code, ran[1].code], [1, 1], "{}{}", ran[0], ran[1]);
}

#[test]
fn what_fails_on_one_rank_fails_on_all() {
    let Some(fake) = fake() else { return };
    let args = ["bench", "allreduce", "-e", "8", "-n", "1"];
    let ran = launch(3, &args, |rank, command| {
        command.env("MSCCL_LIBRARY", if rank == 2 { "/no/libnccl.so" } else { fake });
    });
    assert!(ran.iter().all(|ran| ran.code == 1), "{}{}{}", ran[0], ran[1], ran[2]);
    assert!(ran[0].stderr.contains("msccl is out: r2: "), "{}", ran[0]);
    assert!(ran[0].stderr.contains("/no/libnccl.so"), "{}", ran[0]);
    assert!(ran[1].stderr.is_empty() && ran[2].stderr.is_empty(), "{}{}", ran[1], ran[2]);
}

#[test]
fn ranks_with_different_arguments_do_not_begin() {
    let Some(fake) = fake() else { return };
    let args = ["bench", "allreduce", "--library", fake, "-e", "8", "-n", "1"];
    let ran = launch(2, &args, |rank, command| {
        command.args(["-c", &rank.to_string()]);
    });
    for ran in ran {
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.contains("ranks differ in their arguments: rank 0: `bench"), "{ran}");
    }
}

#[test]
fn variables_by_half_are_refused() {
    let check = |variables: &[(&str, &str)], expected: &str| {
        let ran = msccl_with(variables, &["bench", "allreduce"], b"");
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{ran}");
    };
    check(&[("MSCCL_RANK", "1")], "MSCCL_RANK is set, and MSCCL_RANKS, which belongs to it");
    let too_large = [("MSCCL_RANK", "4"), ("MSCCL_RANKS", "4")];
    check(&too_large, "MSCCL_RANK=4 does not exist where MSCCL_RANKS=4");
}

/// Whoever is killed, first or other, is named by somebody, and nobody stays behind.
#[test]
fn a_killed_rank_ends_all() {
    let Some(fake) = fake() else { return };
    for victim in [1, 0] {
        let args = ["bench", "allreduce", "--library", fake, "-b", "8", "-e", "8"];
        let args = [&args[..], &["-n", "100000000", "-T", "60"]].concat();
        let mut children = start(3, &args, unchanged);
        thread::sleep(Duration::from_secs(2));
        let since = Instant::now();
        let mut killed = children.remove(victim);
        killed.kill().unwrap();
        killed.wait().unwrap();
        let ran: Vec<_> = children.into_iter().map(end).collect();
        assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
        assert!(ran.iter().all(|ran| ran.code == 1), "{}{}", ran[0], ran[1]);
        let named = format!("rank {victim} (host ");
        assert!(ran.iter().any(|ran| ran.stderr.contains(&named)), "{}{}", ran[0], ran[1]);
    }
}

/// The algorithm of `msccl run`, on ranks of a launch.
#[test]
fn programs_run_on_launched_ranks() {
    let ring = file("launch/ring.msccl", crate::RING);
    let args = ["run", arg(&ring), "--device", "ranks", "--size", "1K", "--iterations", "3"];
    let ran = launch(3, &args, unchanged);
    assert!(ran.iter().all(|ran| ran.code == 0), "{}{}{}", ran[0], ran[1], ran[2]);
    assert!(ran[0].stdout.contains("correct") && ran[1].stdout.is_empty(), "{}", ran[0]);
    let ran = launch(2, &args, unchanged);
    assert!(ran.iter().all(|ran| ran.code == 2), "{}{}", ran[0], ran[1]);
    assert!(
        ran[0].stderr.contains("2 ranks were launched, and the algorithm is for 3"),
        "{}",
        ran[0]
    );
}

/// Whether a launcher is installed; if not, that is said aloud.
pub fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if !found {
        skip(&format!("`{name}` is not installed"));
    }
    found
}

/// Runs four ranks under a launcher, if it is installed.
fn under(name: &str, options: &[&str]) {
    let Some(fake) = fake().filter(|_| is_installed(name)) else { return };
    let mut command = bare(name);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.args(options).args(["-n", "4", env!("CARGO_BIN_EXE_msccl"), "bench", "allreduce"]);
    command.args(["--library", fake, "-b", "1K", "-e", "1K", "-n", "2"]);
    let ran = end(command.spawn().unwrap());
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("# nRanks 4 "), "{ran}");
    assert_eq!(ran.stdout.matches("# Collective test concluded").count(), 1, "{ran}");
}

#[test]
fn open_mpi() {
    under("mpirun.openmpi", &["--oversubscribe", "--bind-to", "none"]);
}

#[test]
fn mpich() {
    under("mpiexec.hydra", &[]);
}

/// Written past the test harness, which keeps back what tests print.
pub fn skip(why: &str) {
    std::io::stderr().write_all(format!("SKIPPED: {why}\n").as_bytes()).unwrap();
}
