//! `msccl bench` and `msccl run` on several hosts, each a network namespace: by the variables of
//! each launcher, by the launchers that are installed, and with a host that is cut off.
//!
//! Without our library, or where namespaces are not allowed, these tests say so and pass.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use msccl_hosts::Hosts;

use crate::bench::ours;
use crate::launch::{bared, end, is_installed, skip};
use crate::{Ran, arg, file, msccl, msccl_with};

const MSCCL: &str = env!("CARGO_BIN_EXE_msccl");

/// How long a test may go on before it counts as hanging.
const LONGEST: Duration = Duration::from_secs(120);

fn said_aloud(made: Result<Hosts, String>) -> Option<Hosts> {
    made.map_err(|why| skip(&why)).ok()
}

/// Where a rank is among those of its launch.
#[derive(Clone, Copy)]
struct Place {
    hosts: u32,
    per_host: u32,
    rank: u32,
}

impl Place {
    fn all(hosts: u32, per_host: u32) -> impl Iterator<Item = Self> {
        (0..hosts * per_host).map(move |rank| Self { hosts, per_host, rank })
    }

    fn host(self) -> u32 {
        self.rank / self.per_host
    }

    fn local_rank(self) -> u32 {
        self.rank % self.per_host
    }
}

/// Which variables a launcher sets.
type Variables = fn(Place) -> Vec<(&'static str, String)>;

fn torchrun(place: Place) -> Vec<(&'static str, String)> {
    let Place { hosts, per_host, rank } = place;
    vec![
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", (hosts * per_host).to_string()),
        ("LOCAL_RANK", place.local_rank().to_string()),
        ("LOCAL_WORLD_SIZE", per_host.to_string()),
        ("MASTER_ADDR", "host0".to_owned()),
        ("MASTER_PORT", "29500".to_owned()),
        ("TORCHELASTIC_USE_AGENT_STORE", "True".to_owned()),
    ]
}

/// Slurm does not say where rank 0 is, but names all hosts.
fn slurm(place: Place) -> Vec<(&'static str, String)> {
    let Place { hosts, per_host, rank } = place;
    vec![
        ("SLURM_JOB_ID", "7".to_owned()),
        ("SLURM_STEP_ID", "0".to_owned()),
        ("SLURM_PROCID", rank.to_string()),
        ("SLURM_STEP_NUM_TASKS", (hosts * per_host).to_string()),
        ("SLURM_LOCALID", place.local_rank().to_string()),
        ("SLURM_NODEID", place.host().to_string()),
        ("SLURM_STEP_TASKS_PER_NODE", format!("{per_host}(x{hosts})")),
        ("SLURM_STEP_NODELIST", format!("host[0-{}]", hosts - 1)),
    ]
}

/// An indexed Job with one pod for each rank.
fn kubernetes(place: Place) -> Vec<(&'static str, String)> {
    vec![
        ("JOB_COMPLETION_INDEX", place.rank.to_string()),
        ("MSCCL_RANKS", (place.hosts * place.per_host).to_string()),
        ("MSCCL_MASTER_ADDR", "host0".to_owned()),
    ]
}

fn by_hand(place: Place) -> Vec<(&'static str, String)> {
    vec![
        ("MSCCL_RANK", place.rank.to_string()),
        ("MSCCL_RANKS", (place.hosts * place.per_host).to_string()),
        ("MSCCL_MASTER_ADDR", Hosts::address(0)),
    ]
}

/// Starts `msccl` as the ranks of a launch.
fn start(
    hosts: &Hosts,
    (count, per_host): (u32, u32),
    variables: Variables,
    args: &[&str],
    change: impl Fn(&mut Command),
) -> Vec<Child> {
    let start = |place: Place| {
        let mut command = bared(hosts.command(place.host(), MSCCL));
        command.args(args).envs(variables(place));
        change(&mut command);
        command.spawn().unwrap()
    };
    Place::all(count, per_host).map(start).collect()
}

fn unchanged(_: &mut Command) {}

/// Every rank must end well, and rank 0 alone speaks; what it said.
#[track_caller]
fn good(children: Vec<Child>) -> Ran {
    let mut ran = children.into_iter().map(end);
    let first = ran.next().unwrap();
    assert_eq!(first.code, 0, "{first}");
    for other in ran {
        assert!(other.code == 0 && other.stdout.is_empty(), "{other}\nrank 0: {first}");
    }
    first
}

/// `msccl bench` of few calls, all of which are checked.
fn bench<'a>(library: &'a str, collective: &'a str) -> Vec<&'a str> {
    let sizes = ["-b", "64", "-f", "40", "-e", "100K", "--odd", "-n", "1", "-w", "0"];
    [&["bench", collective, "--library", library][..], &sizes].concat()
}

#[test]
fn every_launchers_variables_serve_on_hosts() {
    let (Some(ours), Some(hosts)) = (ours(), said_aloud(Hosts::new(8))) else { return };
    let launches: [((u32, u32), Variables); 3] =
        [((2, 2), kubernetes), ((4, 2), torchrun), ((8, 1), slurm)];
    for ((count, per_host), variables) in launches {
        let args = bench(arg(&ours), "allreduce");
        let ran = good(start(&hosts, (count, per_host), variables, &args, unchanged));
        assert!(ran.stdout.contains(&format!("# nRanks {} ", count * per_host)), "{ran}");
        assert!(ran.stdout.contains("# Out of bounds values : 0 OK"), "{ran}");
        let last = format!("on host{}: host memory", count - 1);
        assert_eq!(ran.stdout.matches(&last).count(), per_host as usize, "{ran}");
    }
}

/// Over TCP, by what is chosen, and by algorithms that know of hosts where there are some.
#[test]
fn every_collective_is_right_on_8_hosts() {
    let (Some(ours), Some(hosts)) = (ours(), said_aloud(Hosts::new(8))) else { return };
    let collectives = [
        ("allreduce", true),
        ("allgather", true),
        ("reducescatter", true),
        ("broadcast", true),
        ("reduce", true),
        ("alltoall", true),
        ("gather", true),
        ("scatter", true),
        ("sendrecv", false),
        ("hypercube", false),
    ];
    for (collective, is_planned) in collectives {
        let args = bench(arg(&ours), collective);
        let per_host = if is_planned { 2 } else { 1 };
        let run = |algorithm: &str| {
            let variables = |command: &mut Command| {
                command.env("NCCL_DEBUG", "INFO").env("MSCCL_ALGO", algorithm);
            };
            let ran = good(start(&hosts, (8, per_host), by_hand, &args, variables));
            assert!(ran.stdout.contains("# Out of bounds values : 0 OK"), "{collective}: {ran}");
            assert!(ran.stderr.contains(" over TCP"), "{collective}: {ran}");
            ran
        };
        run("");
        let named = if collective == "alltoall" { "rail_first" } else { "hierarchical" };
        if is_planned {
            let ran = run(named);
            let mut served = ran.stderr.lines().filter(|line| line.contains("served by"));
            assert!(served.all(|line| line.contains(named)), "{collective}: {ran}");
        }
    }
}

/// A chain to the last rank and back, after a value has gone round and round: slower than anything
/// else.
const CHAIN: &str = "algorithm chain(ranks N = 4) implements allreduce(chunks 1) in place {
    scratch hop[1]
    hop@0[0] = input@0[0]
    for k in 0..16, r in 0..N { hop@((r + 1) % N)[0] = hop@r[0] }
    input@0[0] = hop@0[0]
    for r in 1..N { input@r[0] += input@(r - 1)[0] }
    for r in 1..N { input@(N - 1 - r)[0] = input@(N - r)[0] }
}
";

/// One table for all ranks; a file that lost serves nothing but where it is named.
#[test]
fn launched_ranks_tune_together() {
    let (Some(ours), Some(hosts)) = (ours(), said_aloud(Hosts::new(2))) else { return };
    let (chain, table) = (file("hosts/chain.msccl", CHAIN), file("hosts/site.tuning", ""));
    let (chain, table) = (arg(&chain), arg(&table));
    let measured = ["tune", "allreduce", "--library", arg(&ours), "-b", "1K", "-e", "1K"];
    // One size, and time enough for every candidate on a busy machine.
    let how = ["--placement", "in", "--time", "12", "-o", table];
    let ran = good(start(&hosts, (2, 2), torchrun, &[&measured[..], &how].concat(), |command| {
        command.env("MSCCL_XML_FILES", chain).env("MSCCL_DEVICE", "host");
    }));
    let text = std::fs::read_to_string(table).unwrap();
    assert_eq!(text.matches("msccl-tuning 3").count(), 1, "{text}{ran}");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(words).collect();
    let begins = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    assert!(begins("allreduce in 4/2 ") > 0, "{text}");
    assert!(begins("slower allreduce in 4/2 ") > 0, "{text}");
    assert!(lines.iter().any(|line| line.ends_with("hosts/chain.msccl")), "{text}");

    let ranks = ["--ranks", "4", "--nodes", "2", "--device", "host", "--in-place"];
    let question = ["explain", "allreduce", "1K", chain, "--tuning", table];
    let question = [&question[..], &ranks].concat();
    let said = msccl(&question).stdout;
    let line = |start: &str| said.lines().find(|line| line.trim_start().starts_with(start));
    assert!(line("serves").is_some_and(|line| !line.contains("chain.msccl")), "{said}");
    let mut others = said.lines().filter(|line| line.trim_start().starts_with("could"));
    let lost = others.find(|line| line.contains("chain.msccl")).unwrap_or_default();
    assert!(lost.contains("slower: ") && lost.contains(" us, the best "), "{said}");
    let pinned = msccl_with(&[("MSCCL_ALGO", "chain.msccl")], &question, b"").stdout;
    let serves = pinned.lines().find(|line| line.trim_start().starts_with("serves"));
    assert!(serves.is_some_and(|line| line.contains("chain.msccl")), "{pinned}");

    // The library says it, too. A benchmark of the file does not take the others for it.
    let args = ["bench", "allreduce", "--library", arg(&ours), "-b", "1K", "-e", "1K", "-n", "2"];
    let ran = start(&hosts, (2, 2), torchrun, &args, |command| {
        command.envs([("MSCCL_XML_FILES", chain), ("MSCCL_TUNING", table)]);
        command.envs([("NCCL_DEBUG", "INFO"), ("MSCCL_DEVICE", "host")]);
    });
    let ran: Vec<Ran> = ran.into_iter().map(end).collect();
    assert!(ran[0].stdout.contains("chain.msccl, which served none of"), "{}", ran[0]);
    assert!(ran[0].stderr.contains("chain.msccl is passed over: slower: "), "{}", ran[0]);
}

/// Launches `bench` of two ranks on each of two hosts by an MPI that has the remote shell of the
/// hosts.
fn by_mpi(name: &str, options: &[&str]) {
    let Some(ours) = ours().filter(|_| is_installed(name)) else { return };
    let Some(hosts) = said_aloud(Hosts::new(2)) else { return };
    let mut command = bared(hosts.command(0, name));
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.args(options).args(["-n", "4", MSCCL]).args(bench(arg(&ours), "allreduce"));
    let ran = end(command.spawn().unwrap());
    assert!(ran.code == 0 && ran.stdout.contains("# nRanks 4 "), "{ran}");
    assert_eq!(ran.stdout.matches("on host1: host memory").count(), 2, "{ran}");
    assert_eq!(ran.stdout.matches("# Out of bounds values : 0 OK").count(), 1, "{ran}");
}

#[test]
fn open_mpi_launches_on_hosts() {
    let shell = Hosts::remote_shell();
    let shell = ["--mca", "plm_rsh_agent", arg(&shell)];
    let ranks = ["--host", "host0:2,host1:2", "--bind-to", "none", "-x", "MSCCL_MASTER_ADDR=host0"];
    by_mpi("mpirun.openmpi", &[&shell[..], &ranks, &["-x", "MSCCL_DEVICE"]].concat());
}

#[test]
fn mpich_launches_on_hosts() {
    let shell = Hosts::remote_shell();
    let shell = ["-launcher", "rsh", "-launcher-exec", arg(&shell)];
    let ranks = ["-hosts", "host0:2,host1:2", "-genv", "MSCCL_MASTER_ADDR", "host0"];
    by_mpi("mpiexec.hydra", &[&shell[..], &ranks].concat());
}

/// One torchrun on each of two hosts, which find one another by a rendezvous.
#[test]
fn torchrun_launches_on_hosts() {
    let Some(ours) = ours().filter(|_| is_installed("torchrun")) else { return };
    let Some(hosts) = said_aloud(Hosts::new(2)) else { return };
    let logs = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("torchrun");
    let start = |host: u32| {
        let mut command = bared(hosts.command(host, "torchrun"));
        command.args(["--no_python", "--nnodes", "2", "--nproc_per_node", "2"]);
        command.args(["--rdzv_backend", "c10d", "--rdzv_endpoint", "host0:29511"]);
        command.args(["--monitor_interval", "0.5"]);
        // The oldest torchrun that we met does not start where nothing is redirected.
        command.args(["--redirects", "2", "--tee", "2", "--log_dir", arg(&logs)]);
        command.arg(MSCCL).args(bench(arg(&ours), "allreduce"));
        command.spawn().unwrap()
    };
    let ran = [0, 1].map(start).map(end);
    assert!(ran.iter().all(|ran| ran.code == 0), "{}{}", ran[0], ran[1]);
    // The two fail_together on who is first.
    let said = [ran[0].stdout.as_str(), ran[1].stdout.as_str()].concat();
    assert!(said.contains("# nRanks 4 "), "{said}");
    assert_eq!(said.matches("# Out of bounds values : 0 OK").count(), 1, "{said}");
    assert_eq!(said.matches("on host1: host memory").count(), 2, "{said}");
}

/// Hosts have two interfaces, and the first one leads nowhere.
#[test]
fn interfaces_are_chosen_by_name() {
    let (Some(ours), Some(hosts)) = (ours(), said_aloud(Hosts::with_dead_ends(2))) else { return };
    let args = [&bench(arg(&ours), "allreduce")[..], &["-T", "16"]].concat();
    let by_name = |name: &'static str| {
        start(&hosts, (2, 2), by_hand, &args, |command| {
            command.env("NCCL_SOCKET_IFNAME", name).env("NCCL_DEBUG", "INFO");
        })
    };
    let ran = good(by_name("eth7"));
    assert!(ran.stderr.contains("10.231.18.") && !ran.stderr.contains("10.231.19."), "{ran}");
    let ran: Vec<_> = by_name("eth9").into_iter().map(end).collect();
    assert!(ran.iter().all(|ran| ran.code == 2), "{}{}", ran[0], ran[2]);
    assert!(ran[0].stderr.contains("no network interface matches `eth9`"), "{}", ran[0]);
    assert!(ran[0].stderr.contains("eth0 10.231.19.1, eth7 10.231.18.1"), "{}", ran[0]);
    // Left alone, the library listens on the first; that it cannot be reached is said.
    let ran: Vec<_> =
        start(&hosts, (2, 2), by_hand, &args, unchanged).into_iter().map(end).collect();
    assert!(ran.iter().all(|ran| ran.code == 1), "{}{}", ran[0], ran[2]);
    let why = "cannot reach the root of the unique id at 10.231.19.1";
    assert!(ran[0].stderr.contains(why), "{}", ran[0]);
}

/// Ranks of `msccl run` meet where all have come from, whatever interface is the first.
#[test]
fn programs_run_on_hosts() {
    let Some(hosts) = said_aloud(Hosts::with_dead_ends(2)) else { return };
    let ring = file("hosts/ring.msccl", crate::RING.replace("N = 3", "N = 4"));
    let args = ["run", arg(&ring), "--device", "ranks", "--size", "1K", "--iterations", "2"];
    let ran = good(start(&hosts, (2, 2), by_hand, &args, unchanged));
    assert_eq!(ran.stdout.matches("correct").count(), 1, "{ran}");
}

/// Ranks whose benchmark has begun; rank 0's standard output is read up to there.
struct Begun {
    children: Vec<Child>,
    first: BufReader<std::process::ChildStdout>,
}

/// Three hosts of two ranks that make `iterations` calls, none of which may stand still for longer
/// than `timeout_s`.
fn begin(hosts: &Hosts, library: &str, iterations: &str, timeout_s: &str) -> Begun {
    let args = ["bench", "allreduce", "--library", library, "-b", "8", "-e", "8", "-T", "60"];
    let args = [&args[..], &["-n", iterations]].concat();
    let mut children = start(hosts, (3, 2), by_hand, &args, |command| {
        command.env("MSCCL_TIMEOUT_S", timeout_s);
    });
    let mut first = BufReader::new(children[0].stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("algbw") {
        line.clear();
        assert!(first.read_line(&mut line).unwrap() > 0, "{}", end(children.remove(0)));
    }
    // The first calls are made.
    thread::sleep(Duration::from_millis(500));
    Begun { children, first }
}

impl Begun {
    fn end(mut self) -> Vec<Ran> {
        let mut stdout = String::new();
        self.first.read_to_string(&mut stdout).unwrap();
        let mut ran: Vec<_> = self.children.into_iter().map(end).collect();
        ran[0].stdout = stdout;
        ran
    }
}

/// All ranks end soon, those of the host, too, and say who cannot be reached; no process stays
/// behind.
#[test]
fn a_host_that_is_cut_off_ends_all() {
    let (Some(ours), Some(mut hosts)) = (ours(), said_aloud(Hosts::new(3))) else { return };
    let begun = begin(&hosts, arg(&ours), "100000000", "5");
    let since = Instant::now();
    hosts.cut(2).unwrap();
    let ran = begun.end();
    let took = since.elapsed();
    assert!(ran.iter().all(|ran| ran.code == 1), "{}{}", ran[0], ran[4]);
    let remote = ran[0].stderr.lines().find(|line| line.starts_with("error: msccl is out: "));
    let remote = remote.unwrap_or_else(|| panic!("{}", ran[0]));
    assert!(remote.contains("r4") && remote.contains("host2"), "{remote}");
    // Who lost rank 0 speaks for itself.
    assert!(ran[4].stderr.contains("error: msccl is out: r4: "), "{}", ran[4]);
    assert!(ran[4].stderr.contains("host0") || ran[4].stderr.contains("host1"), "{}", ran[4]);
    assert!(ran[1].stderr.is_empty(), "{}", ran[1]);
    // The system would have reported it after a minute.
    assert!(took < Duration::from_secs(50), "{took:?}");
    await_silence(&hosts);
}

/// Waits until nothing runs on any of three hosts.
fn await_silence(hosts: &Hosts) {
    let since = Instant::now();
    while (0..3).any(|host| !hosts.processes(host).unwrap().is_empty()) {
        assert!(since.elapsed() < LONGEST, "processes stay behind");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Ranks of `msccl run` have no worker that could be ended: their communicators must let go by
/// themselves, even on hosts that never had a word with the one that is cut off.
#[test]
fn a_host_that_is_cut_off_ends_a_program() {
    let Some(mut hosts) = said_aloud(Hosts::new(3)) else { return };
    let ring = file("hosts/cut.msccl", crate::RING.replace("N = 3", "N = 6"));
    let args = ["run", arg(&ring), "--device", "ranks", "--size", "4M", "--timeout", "5"];
    let args = [&args[..], &["--iterations", "100000000"]].concat();
    let children = start(&hosts, (3, 2), by_hand, &args, unchanged);
    let since = Instant::now();
    // Some calls are made: each sends almost all of the buffer to the next host.
    while sent_bytes(&hosts, 2) < 20 << 20 {
        assert!(since.elapsed() < LONGEST, "nothing is sent");
        thread::sleep(Duration::from_millis(50));
    }
    let since = Instant::now();
    hosts.cut(2).unwrap();
    let ran: Vec<_> = children.into_iter().map(end).collect();
    let took = since.elapsed();
    assert!(ran.iter().all(|ran| ran.code == 1), "{}{}", ran[0], ran[4]);
    assert!(ran[0].stdout.contains("host2"), "{}", ran[0]);
    assert!(ran[1].stdout.is_empty() && !ran[4].stdout.is_empty(), "{}{}", ran[1], ran[4]);
    assert!(took < Duration::from_secs(50), "{took:?}");
    await_silence(&hosts);
}

/// What `host` has sent so far.
fn sent_bytes(hosts: &Hosts, host: u32) -> u64 {
    let mut cat = hosts.command(host, "cat");
    let output = cat.arg("/sys/class/net/eth7/statistics/tx_bytes").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// TCP goes on where it was.
#[test]
fn a_host_that_comes_back_in_time_is_not_missed() {
    let (Some(ours), Some(mut hosts)) = (ours(), said_aloud(Hosts::new(3))) else { return };
    let begun = begin(&hosts, arg(&ours), "4000", "30");
    hosts.cut(2).unwrap();
    thread::sleep(Duration::from_secs(1));
    hosts.mend(2).unwrap();
    let ran = begun.end();
    assert!(ran.iter().all(|ran| ran.code == 0), "{}{}", ran[0], ran[4]);
    assert!(ran[0].stdout.contains("# Out of bounds values : 0 OK"), "{}", ran[0]);
}
