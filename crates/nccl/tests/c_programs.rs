//! C programs against the library as programs find it: compiled by the system's compiler, linked
//! against `libnccl.so.2`, run on the host.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are loud")]

mod programs;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use msccl_hosts::Hosts;

use programs::{LONGEST, Written, compile, folder, run, run_all, text};

#[test]
fn the_library_has_its_name_and_its_symbols() {
    run("layout", &[], &[]);
}

/// Structures as each version from 2.19 to 2.30 has them.
#[test]
fn callers_of_other_versions() {
    run("versions", &[], &[]);
}

#[test]
fn memory_that_is_given_up_and_comes_back() {
    run("suspend", &["all"], &[]);
}

/// Four processes, each with two communicators; as one node, and as two.
#[test]
fn the_sleep_mode_of_vllm() {
    run("suspend", &["sleep"], &[]);
    run("suspend", &["sleep"], &[("PER_HOST", "2")]);
}

#[test]
fn five_hundred_suspensions_leave_nothing() {
    run("suspend", &["cycles", "500"], &[]);
}

#[test]
fn communicators_that_grow() {
    run("grow", &[], &[]);
}

#[test]
fn every_way_to_serve_a_call() {
    run("trial", &[], &[]);
}

#[test]
fn an_order_that_a_communicator_requires() {
    run("orders", &[], &[]);
}

#[test]
fn one_rank() {
    run("alone", &[], &[]);
}

#[test]
fn averages_do_not_overflow() {
    run("average", &[], &[]);
}

#[test]
fn ranks_as_threads() {
    for ranks in ["2", "3", "4", "8"] {
        run("threads", &[ranks], &[]);
    }
}

#[test]
fn ranks_as_threads_that_compare_their_arguments() {
    run("threads", &["3"], &[("MSCCL_CHECK", "1")]);
}

#[test]
fn ranks_as_processes() {
    run("processes", &["2", "1"], &[]);
    run("processes", &["5", "1"], &[]);
}

#[test]
fn several_ranks_in_each_of_several_processes() {
    run("processes", &["6", "2"], &[]);
}

/// What 64 processes of one machine cost until each has made its first call, by the processors and
/// not by the clock, of which other tests take their part. On two quiet processors they take 8 s,
/// and 15 s where they pretend to be on eight hosts, since then every algorithm that could serve is
/// compiled and compared; were all built-in algorithms compiled by every process again, they would
/// take more. Processors that others use as well do less in a second: the least of three attempts
/// counts.
#[test]
fn a_crowd_of_processes_is_cheap() {
    for (environment, processor_s_max) in [(&[][..], 12.0), (&[("PER_HOST", "8")], 20.0)] {
        let mut taken = Vec::new();
        while taken.len() < 3 && taken.iter().all(|taken: &f64| *taken > processor_s_max) {
            let Some(said) = run("crowd", &["64"], environment) else { return };
            let (_, seconds) = said.rsplit_once(" by the clock, ").unwrap();
            taken.push(seconds.split(' ').next().unwrap().parse().unwrap());
        }
        let is_cheap = taken.iter().any(|taken| *taken <= processor_s_max);
        assert!(is_cheap, "{environment:?}: {taken:?} s, at most {processor_s_max} s expected");
    }
}

#[test]
fn ranks_that_share_a_secret() {
    use std::os::unix::fs::OpenOptionsExt;
    let file = folder().join("secret");
    let mut options = std::fs::OpenOptions::new();
    let mut opened =
        options.write(true).create(true).truncate(true).mode(0o600).open(&file).unwrap();
    writeln!(opened, "0123456789abcdef0123456789abcdef").unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (free, file) = (free.to_string(), file.display().to_string());
    run("processes", &["3", "1"], &[("NCCL_COMM_ID", &free), ("MSCCL_SECRET_FILE", &file)]);
}

/// Ids need no transport if the address is fixed.
#[test]
fn ranks_that_meet_at_a_fixed_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    run("processes", &["3", "1"], &[("NCCL_COMM_ID", &free.to_string())]);
}

/// Hosts that are processes of this one, which NCCL_HOSTID keeps apart: two of two, four of one,
/// one of three and one of one, two of four.
#[test]
fn ranks_on_several_hosts() {
    let log = [("PER_HOST", "2"), ("NCCL_DEBUG", "INFO")];
    run("processes", &["4", "1"], &[("PER_HOST", "2")]);
    run("processes", &["4", "1"], &[("PER_HOST", "1")]);
    run("processes", &["4", "1"], &[("PER_HOST", "3")]);
    run("processes", &["8", "4"], &[("PER_HOST", "4")]);
    let Some(log) = run("processes", &["4", "2"], &log) else { return };
    for line in [
        "2 nodes: r0, r1 on host0, r2, r3 on host1",
        "is ready on host threads of 2 nodes (",
        "NCCL INFO links to r2 go over ",
    ] {
        assert!(log.contains(line), "no line has {line:?}:\n{log}");
    }
}

/// A schedule of MSCCL's own format, which knows nothing of hosts.
#[test]
fn a_loaded_schedule_across_hosts() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../interchange/tests/malformed/good.xml");
    let file = file.to_str().unwrap();
    let environment = [("PER_HOST", "1"), ("NCCL_DEBUG", "INFO"), ("MSCCL_XML_FILES", file)];
    let Some(log) = run("processes", &["2", "1"], &environment) else { return };
    let served = "allgather of 33 i32 in place (264 bytes): served by ";
    assert!(
        log.contains(
            "good.xml: allgather, in place, and out of place after a copy of the \
        input, 0..=134217727 bytes"
        ),
        "{log}"
    );
    assert!(log.lines().any(|line| line.contains(served) && line.contains("good.xml")), "{log}");
}

#[test]
fn ranks_on_several_hosts_that_compare_their_arguments() {
    run("processes", &["4", "1"], &[("PER_HOST", "2"), ("MSCCL_CHECK", "1")]);
}

#[test]
fn communicators_from_communicators_across_hosts() {
    run("hosts", &["4", "2"], &[("PER_HOST", "2")]);
    run("hosts", &["5", "3"], &[("PER_HOST", "3")]);
    run("hosts", &["8", "1"], &[("PER_HOST", "1")]);
    run("hosts", &["6", "2", "fault"], &[("PER_HOST", "2")]);
}

/// Hosts that only a network joins, as far as that can be had on one.
#[test]
fn ranks_in_network_namespaces() {
    let Some(program) = compile("processes") else { return };
    let hosts = match Hosts::new(2) {
        Ok(hosts) => hosts,
        // Written past the test harness, which keeps back what tests print.
        Err(why) => {
            let said = format!("SKIPPED: {why}\n");
            return std::io::stderr().write_all(said.as_bytes()).unwrap();
        }
    };
    let child = |host: u32| {
        let mut command = hosts.command(host, "timeout");
        command.arg(LONGEST.as_secs().to_string()).arg(&program);
        command.args(["4", "2", if host == 0 { "0" } else { "2" }, "0"]);
        command.env("LD_LIBRARY_PATH", folder()).env("MSCCL_DEVICE", "host");
        command.env("NCCL_COMM_ID", format!("{}:4712", Hosts::address(0)));
        command.env("NCCL_DEBUG", "INFO").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for child in [0, 1].map(child) {
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let (log, errors) = (text(&stdout), text(&stderr));
        assert!(status.success(), "{log}\n{errors}");
        assert!(log.contains("2 nodes: r0, r1 on ") && log.contains(", r2, r3 on "), "{log}");
        assert!([0, 1].iter().all(|host| log.contains(&Hosts::address(*host))), "{log}");
    }
}

/// Rank 1 shares its host with rank 0, whose other peer is elsewhere; or every rank has a host of
/// its own, and so a mirror that dies with it.
#[test]
fn faults_across_hosts() {
    for per_host in ["1", "2"] {
        let hosts = ("PER_HOST", per_host);
        let warn = ("NCCL_DEBUG", "WARN");
        run("faults", &["killed"], &[hosts]);
        run("faults", &["aborted"], &[hosts]);
        let Some(log) = run("faults", &["absent"], &[hosts, warn, ("MSCCL_TIMEOUT_S", "1")]) else {
            return;
        };
        assert!(log.contains("r1 has not entered this collective"), "{log}");
        let Some(log) = run("faults", &["mismatched"], &[hosts, warn, ("MSCCL_CHECK", "1")]) else {
            return;
        };
        let differs = "allreduce of 10 i32 sum on r0, r2, allreduce of 11 i32 sum on r1";
        assert!(log.contains(differs), "{log}");
        let Some(log) = run("faults", &["signalled"], &[hosts, warn]) else { return };
        assert!(log.contains("r0: in call 2, allreduce of 10 i32 sum"), "{log}");
    }
}

#[test]
fn hosts_that_must_use_rdma_and_cannot() {
    let environment = [
        ("PER_HOST", "1"),
        ("NCCL_NET", "IB"),
        ("MSCCL_RDMA_LIBRARY", "/no/such/library.so"),
        ("NCCL_DEBUG", "WARN"),
    ];
    let Some(log) = run("faults", &["unreachable"], &environment) else { return };
    let said = "on host host1 have failed: only RDMA is allowed on this host: ";
    assert!(log.contains(said) && log.contains("/no/such/library.so"), "{log}");
}

#[test]
fn ranks_in_groups() {
    run("groups", &[], &[]);
}

#[test]
fn communicators_from_communicators() {
    run("derived", &[], &[]);
    run("derived", &["fault"], &[]);
}

#[test]
fn communicators_that_do_not_block() {
    run("polling", &[], &[]);
}

#[test]
fn as_frameworks_do() {
    run("frameworks", &[], &[]);
    // What they set for NCCL, and some leave empty, is no reason to say anything.
    let theirs = [
        ("NCCL_DEBUG", "WARN"),
        ("NCCL_ASYNC_ERROR_HANDLING", "1"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        ("NCCL_CUMEM_ENABLE", "0"),
        ("NCCL_NVLS_ENABLE", "0"),
        ("NCCL_LAUNCH_MODE", "GROUP"),
        ("NCCL_GRAPH_MIXING_SUPPORT", "0"),
        ("NCCL_ALGO", "allreduce:tree"),
        ("NCCL_MIN_NCHANNELS", "1"),
        ("NCCL_COMM_ID", ""),
        ("NCCL_IB_HCA", ""),
        ("NCCL_NET", ""),
    ];
    let Some(Written { output: log, errors }) = run_all("frameworks", &[], &theirs) else {
        return;
    };
    assert_eq!(errors, "");
    let (version, rest) = log.split_once('\n').unwrap();
    assert!(version.starts_with("NCCL version 2.30.7"), "{log}");
    assert_eq!(rest, "frameworks: ok\n");
}

#[test]
fn what_is_set_for_nccl_is_followed_or_reported() {
    let theirs = [
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_ALGO", "^Ring,NVLS;allreduce:Tree"),
        ("NCCL_PROTO", "Simple"),
        ("NCCL_MIN_CTAS", "4"),
        // Otherwise trees for all-reduces ask for one order of additions.
        ("MSCCL_ORDER", "any"),
    ];
    let Some(Written { output: log, errors }) = run_all("threads", &["2"], &theirs) else {
        return;
    };
    let served =
        log.lines().filter(|line| line.contains("allreduce of") && line.contains("served by"));
    let (trees, others): (Vec<_>, Vec<_>) =
        served.partition(|line| line.contains("double_binary_tree"));
    assert!(!trees.is_empty() && others.is_empty(), "{log}");
    let reports = errors.matches("NCCL_MIN_CTAS is `4`, which is not followed").count();
    assert_eq!((reports, errors.lines().count()), (1, 1), "{errors}");
    assert!(!log.contains("NCCL_ALGO is") && !log.contains("NCCL WARN"), "{log}");
}

#[test]
fn nccl_pinned_to_trees_asks_for_the_flat_order() {
    let theirs = [("NCCL_DEBUG", "INFO"), ("NCCL_ALGO", "allreduce:tree")];
    let Some(Written { output: log, errors }) = run_all("threads", &["4"], &theirs) else {
        return;
    };
    assert_eq!(errors, "");
    let said = "reductions add in the order flat, 0+1+…+3 (NCCL_ALGO is `allreduce:tree`";
    assert_eq!(log.matches(said).count(), 1, "{log}");
    let served: Vec<_> = log
        .lines()
        .filter(|line| line.contains("allreduce of") && line.contains("served by"))
        .collect();
    let flat = |line: &&str| ["one_", "two_shot"].iter().any(|name| line.contains(name));
    assert!(!served.is_empty() && served.iter().all(flat), "{log}");
}

/// With its communicators ended, or not.
#[test]
fn loaded_and_unloaded() {
    for arguments in [&[][..], &["leave"]] {
        run("loaded", arguments, &[]);
    }
}

#[test]
fn giving_up() {
    run("abort", &[], &[]);
}

/// Whoever has done its part of the last call ends while its peers are still in it.
#[test]
fn ends_that_peers_need_not_know_of() {
    let jobs = std::env::var("ENDINGS").unwrap_or_else(|_| "15".to_owned());
    for how in ["abort", "destroy", "finalize"] {
        for (ranks, per_process) in [("4", "1"), ("6", "3")] {
            run("endings", &[ranks, per_process, &jobs, how], &[]);
            run("endings", &[ranks, per_process, &jobs, how], &[("PER_HOST", "2")]);
        }
        run("endings", &["3", "1", &jobs, how], &[("PER_HOST", "1")]);
    }
}

/// Later than an end without a peer that needs it takes.
#[test]
fn ends_long_before_the_last_rank_comes() {
    for how in ["abort", "destroy"] {
        let late = [("LATE_MS", "7000"), ("PER_HOST", "1")];
        run("endings", &["4", "1", "1", how], &late);
    }
}

#[test]
fn giving_up_at_any_moment() {
    run("chaos", &["100"], &[]);
}

#[test]
fn ends_at_the_end_of_a_thread_and_of_the_process() {
    let Some(log) = run("late", &[], &[]) else { return };
    assert_eq!(log, "late: ok\n");
}

#[test]
fn a_rank_that_dies() {
    for per_host in ["3", "1"] {
        let environment = [("NCCL_DEBUG", "WARN"), ("PER_HOST", per_host)];
        let Some(log) = run("faults", &["killed"], &environment) else { return };
        let reports: Vec<_> = log.lines().filter(|line| line.contains(" WARN => ")).collect();
        let is_the_death =
            |line: &&str| line.contains(" WARN => r1 (pid ") && line.contains(" is dead: ");
        assert!(reports.len() == 1 && reports.iter().all(is_the_death), "{per_host}: {log}");
    }
}

#[test]
fn a_rank_that_does_not_come() {
    let environment = [("MSCCL_TIMEOUT_S", "1"), ("NCCL_DEBUG", "WARN")];
    let Some(log) = run("faults", &["absent"], &environment) else { return };
    assert!(log.contains("r1 has not entered this collective"), "{log}");
}

#[test]
fn a_rank_that_calls_something_else() {
    let environment = [("MSCCL_CHECK", "1"), ("NCCL_DEBUG", "WARN")];
    let Some(log) = run("faults", &["mismatched"], &environment) else { return };
    assert!(
        log.contains("allreduce of 10 i32 sum on r0, r2, allreduce of 11 i32 sum on r1"),
        "{log}"
    );
}

/// What differs is found in every job, and reported once.
#[test]
fn ranks_that_call_different_things() {
    for per_host in ["", "1"] {
        let hosts = [("NCCL_DEBUG", "WARN"), ("PER_HOST", per_host)];
        let environment = if per_host.is_empty() { &hosts[..1] } else { &hosts[..] };
        let Some(log) = run("mismatches", &[], environment) else { return };
        let reports = log.lines().filter(|line| line.contains(" NCCL WARN => ")).count();
        let kinds = log.lines().filter(|line| line.starts_with("mismatches: ")).count();
        assert_eq!((reports, kinds), (18, 19), "{per_host}: {log}");
    }
}

#[test]
fn a_signal_asks_for_the_story() {
    let Some(log) = run("faults", &["signalled"], &[("NCCL_DEBUG", "WARN")]) else { return };
    assert!(log.contains("r0: in call 2, allreduce of 10 i32 sum"), "{log}");
}

#[test]
fn insisting_on_a_gpu_that_is_not_there() {
    let Some(program) = compile("alone") else { return };
    if Path::new("/dev/nvidiactl").exists() {
        eprintln!("SKIPPED: there is a GPU");
        return;
    }
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", folder()).env("MSCCL_DEVICE", "cuda");
    let Output { status, stderr, .. } = command.output().unwrap();
    let stderr = text(&stderr);
    assert!(!status.success() && stderr.contains("MSCCL_DEVICE=cuda insists on a GPU"), "{stderr}");
}

#[test]
fn nothing_is_left() {
    run("again", &["30"], &[]);
}

#[test]
fn the_log_has_the_lines_that_scripts_look_for() {
    let log = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "ALL")];
    let Some(log) = run("groups", &[], &log) else { return };
    for line in [
        "NCCL version 2.30.7+msccl",
        "NCCL INFO Bootstrap: Using lo:127.0.0.1<",
        " - Init START\n",
        " - Init COMPLETE\n",
        " - Destroy COMPLETE\n",
        "NCCL INFO AllReduce: opCount 0 sendbuff 0x",
        " [nranks=5] stream 0x0\n",
        "NCCL WARN Send : invalid root 5 (root should be in the 0..4 range)",
    ] {
        assert!(log.contains(line), "no line has {line:?}:\n{log}");
    }
    let quiet = run("groups", &[], &[]).unwrap_or_default();
    assert_eq!(quiet, "groups: ok\n");
}

#[test]
fn the_header_is_c_and_c_plus_plus() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/nccl.h");
    for language in [["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++17"]] {
        let mut compiler = Command::new("cc");
        compiler.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror"]).args(language);
        match compiler.arg(&header).output() {
            Ok(output) => assert!(output.status.success(), "{}", text(&output.stderr)),
            Err(error) => eprintln!("SKIPPED {language:?}: there is no C compiler: {error}"),
        }
    }
}
