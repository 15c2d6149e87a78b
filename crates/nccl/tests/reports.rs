//! What a user requests and does not get: a line each on standard error, or an error.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod programs;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use programs::{LONGEST, compile, folder, text};

/// What ranks are.
#[derive(Clone, Copy)]
enum Ranks {
    Threads,
    Processes,
}

/// What a job of four ranks said, and whether it got its communicators.
struct Job {
    output: String,
    errors: String,
    is_refused: bool,
}

fn job(ranks: Ranks, environment: &[(&str, &str)]) -> Option<Job> {
    let program = compile("asked")?;
    let mut command = Command::new("timeout");
    command.arg(LONGEST.as_secs().to_string()).arg(program);
    command.args(["4", if matches!(ranks, Ranks::Processes) { "1" } else { "0" }]);
    command.env("LD_LIBRARY_PATH", folder()).env("MSCCL_DEVICE", "host");
    command.env("NCCL_SOCKET_IFNAME", "lo").envs(environment.iter().copied());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (output, errors) = (text(&stdout), text(&stderr));
    let is_refused = match status.code() {
        Some(0) => false,
        Some(3) => true,
        _ => panic!("{environment:?}: {status}\n{output}\n{errors}"),
    };
    Some(Job { output, errors, is_refused })
}

/// A request in vain is one line that has `said`, whatever ranks are and however much the log says;
/// a strict job is refused with the same line.
#[track_caller]
fn check(environment: &[(&str, &str)], said: &str) {
    check_all(environment, &[said]);
}

#[track_caller]
fn check_all(environment: &[(&str, &str)], said: &[&str]) {
    for (ranks, extra) in [
        (Ranks::Threads, None),
        (Ranks::Processes, None),
        (Ranks::Threads, Some(("NCCL_DEBUG", "INFO"))),
        (Ranks::Processes, Some(("MSCCL_STRICT", "1"))),
    ] {
        let all: Vec<_> = environment.iter().copied().chain(extra).collect();
        let Some(Job { output, errors, is_refused }) = job(ranks, &all) else { return };
        let context = || format!("{all:?}\n{output}\n{errors}");
        assert_eq!(errors.lines().count(), said.len(), "{}", context());
        for said in said {
            assert_eq!(errors.matches(said).count(), 1, "no single {said:?}: {}", context());
            assert_eq!(output.matches(said).count(), 0, "{}", context());
        }
        assert_eq!(
            is_refused,
            extra.is_some_and(|(name, _)| name == "MSCCL_STRICT"),
            "{}",
            context()
        );
    }
}

fn path(name: &str) -> String {
    folder().join(name).display().to_string()
}

fn file(name: &str, content: &str) -> String {
    fs::write(folder().join(name), content).unwrap();
    path(name)
}

fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dsl-examples");
    root.join(format!("{name}.msccl")).display().to_string()
}

#[test]
fn nothing_in_vain_says_nothing() {
    let ring = example("allreduce/ring");
    for ranks in [Ranks::Threads, Ranks::Processes] {
        for more in [&[][..], &[("MSCCL_XML_FILES", ring.as_str()), ("MSCCL_STRICT", "1")]] {
            let Some(Job { output, errors, is_refused }) = job(ranks, more) else { return };
            assert_eq!((output.as_str(), errors.as_str(), is_refused), ("asked: ok\n", "", false));
        }
    }
}

#[test]
fn files_that_are_not_used() {
    let garbage = file("garbage.xml", "<algo name=");
    let two = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interchange/tests/malformed/good.xml");
    let two = two.display().to_string();
    let version = file("version.json", "{\"version\": 77}");
    let here = |said: &str, name: &str| format!("{} is not used: {said}", path(name));
    check(
        &[("MSCCL_XML_FILES", "/no/such/file.xml")],
        "NCCL WARN /no/such/file.xml is not used: it cannot be read: there is no such file",
    );
    check(&[("MSCCL_XML_FILES", &garbage)], &here("", "garbage.xml"));
    check(&[("MSCCL_XML_FILES", &version)], &here("", "version.json"));
    check(
        &[("MSCCL_XML_FILES", &two)],
        "good.xml is not used: it is for 2 ranks, and the communicator has 4",
    );
    check(&[("MSCCL_ALGO_DIR", "/no/such/folder")], "/no/such/folder is not used: ");
    let several = format!("{garbage}:/no/such/file.xml:{}", example("allreduce/two_shot"));
    check_all(&[("MSCCL_XML_FILES", &several)], &["garbage.xml is", "/no/such/file.xml is"]);
}

/// As the command shows them, each line with the head of a line of the log.
#[test]
fn lines_of_a_program_at_fault_are_shown() {
    let wrong = file(
        "wrong.msccl",
        "algorithm wrong(ranks N) implements allreduce(chunks 1) {
    for r in 0..N { output@r = input@r }
}",
    );
    let Some(Job { errors, .. }) = job(Ranks::Threads, &[("MSCCL_XML_FILES", &wrong)]) else {
        return;
    };
    for said in [
        "wrong.msccl is not used: line 2, column 21: output@0[0] lacks ",
        "wrong.msccl:2:21",
        "2 |     for r in 0..N { output@r = input@r }",
        "^^^^^^^^^^^^^^^^^^ this wrote it last",
    ] {
        let found: Vec<_> = errors.lines().filter(|line| line.contains(said)).collect();
        let is_logged = matches!(found[..], [line] if line.contains("NCCL WARN "));
        assert!(is_logged, "{said}: {errors}");
    }
}

/// Folders may hold files for all jobs of a site.
#[test]
fn many_files_for_other_ranks_are_one_line() {
    let two = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interchange/tests/malformed/good.xml");
    let site = folder().join("site");
    fs::create_dir_all(&site).unwrap();
    for name in ["a.xml", "b.xml", "c.xml", "d.xml", "e.xml"] {
        fs::copy(&two, site.join(name)).unwrap();
    }
    let said = "5 files are not used, since none of them is for 4 ranks: ";
    check(&[("MSCCL_ALGO_DIR", site.to_str().unwrap())], said);
}

/// The limit is named.
#[test]
fn algorithms_that_can_serve_no_call() {
    let wires = file("wires.xml", &many_links(17));
    check(
        &[("MSCCL_XML_FILES", &wires)],
        "wires.xml is verified, and can serve no call here: it has 17 links from a rank to \
         another, at most 16",
    );
    let scan = example("custom/scan");
    check(
        &[("MSCCL_XML_FILES", &scan)],
        "scan.msccl is verified, and can serve no call here: no call asks for a collective of its \
         own",
    );
    let fits = file("fits.xml", &many_links(16));
    let environment = [("MSCCL_XML_FILES", fits.as_str()), ("MSCCL_STRICT", "1")];
    let Some(Job { output, errors, .. }) = job(Ranks::Threads, &environment) else { return };
    assert_eq!((output.as_str(), errors.as_str()), ("asked: ok\n", ""));
}

/// An all-reduce of four ranks around a ring with `links` channels, in MSCCL's XML.
fn many_links(links: u32) -> String {
    let ranks = 4_u32;
    let gpu = |rank: u32| {
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let block = |channel: u32| {
            let step = |s: u32, kind: &str| {
                format!(
                    "<step s=\"{s}\" type=\"{kind}\" srcbuf=\"i\" srcoff=\"{channel}\" \
                     dstbuf=\"i\" \
                     dstoff=\"{channel}\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
                )
            };
            let kinds = match rank {
                0 => ["s", "rcs"],
                3 => ["rrcs", "r"],
                _ => ["rrs", "rcs"],
            };
            let steps: String = (0..).zip(kinds).map(|(s, kind)| step(s, kind)).collect();
            format!(
                "<tb id=\"{channel}\" send=\"{next}\" recv=\"{last}\" \
                 chan=\"{channel}\">{steps}</tb>"
            )
        };
        let blocks: String = (0..links).map(block).collect();
        format!(
            "<gpu id=\"{rank}\" i_chunks=\"{links}\" o_chunks=\"{links}\" \
             s_chunks=\"0\">{blocks}</gpu>"
        )
    };
    let gpus: String = (0..ranks).map(gpu).collect();
    format!(
        "<algo name=\"wires\" proto=\"Simple\" nchannels=\"{links}\" nchunksperloop=\"{links}\" \
         ngpus=\"{ranks}\" coll=\"allreduce\" inplace=\"1\">{gpus}</algo>"
    )
}

#[test]
fn tables_that_are_not_used() {
    let head = "msccl-tuning 1\nmachine ours\n";
    check(
        &[("MSCCL_TUNING", "/no/such.tuning")],
        "MSCCL_TUNING is not used: /no/such.tuning: it cannot be read: ",
    );
    let broken =
        file("broken.tuning", &format!("{head}allreduce any any any LL 4 48 allreduce/ring\n"));
    check(&[("MSCCL_TUNING", &broken)], "broken.tuning line 3: expected a multiple of 32 threads");
    let eight =
        file("eight.tuning", &format!("{head}allreduce any 8 any LL 4 64 allreduce/ring\n"));
    check(&[("MSCCL_TUNING", &eight)], "eight.tuning has no row for 4 ranks on 1 nodes");
    let rows = "allreduce any any any Simple 4 64 allreduce/rinng\n\
                allgather any any any Simple 4 64 allgather/ring\n\
                allgather any any any Simple 4 64 allreduce/ring\n\
                allreduce any 8 any Simple 4 64 allreduce/for_others\n";
    let unknown = file("unknown.tuning", &format!("{head}{rows}"));
    check(
        &[("MSCCL_TUNING", &unknown)],
        "unknown.tuning names algorithms that are neither built in nor loaded: `allreduce/rinng` \
         for allreduce (line 3), \
         `allreduce/ring` for allgather (line 5)\n",
    );
}

/// Without what they ask for nobody goes on, strict or not; one line says so.
#[test]
fn variables_that_protect_are_errors() {
    for (name, value, expected) in [
        ("MSCCL_TIMEOUT_S", "60s", "seconds, 0 for no limit"),
        ("MSCCL_JOIN_TIMEOUT_S", "-1", "seconds, 0 for no limit"),
        ("MSCCL_CHECK", "yes", "0 or 1"),
        ("MSCCL_STRICT", "true", "0 or 1"),
        ("MSCCL_ON_FAILURE", "panic", "`hold` or `trap`"),
    ] {
        let said = format!("{name} is `{value}`, expected {expected}; it protects the job");
        for ranks in [Ranks::Threads, Ranks::Processes] {
            let environment = [(name, value), ("REASON", said.as_str())];
            let Some(Job { output, errors, is_refused }) = job(ranks, &environment) else { return };
            assert!(is_refused, "{name}: {output}\n{errors}");
            assert_eq!(errors.matches(&said).count(), 1, "{errors}");
        }
    }
}

#[test]
fn a_variable_that_protects_and_is_wrong_on_one_rank_is_an_error_on_all() {
    let reason = "MSCCL_TIMEOUT_S is `soon`, expected seconds, 0 for no limit; it protects the \
        job, so it is not ignored: \
                  correct it, or unset it on r2";
    let environment = [("WRONG_RANK", "2"), ("REASON", reason)];
    let Some(Job { output, errors, is_refused }) = job(Ranks::Processes, &environment) else {
        return;
    };
    assert!(is_refused, "{output}\n{errors}");
}

/// What leads to a pipe that nobody writes to, or a device without end, is refused at once, and the
/// job goes on.
#[test]
fn files_that_would_never_end() {
    let pipe = folder().join("pipe.xml");
    let _ = fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, kind) in [(pipe.to_str().unwrap(), "pipe"), ("/dev/zero", "device")] {
        let said = |separator: &str| format!("{path}{separator} it is not a file but a {kind}");
        check(&[("NCCL_CONF_FILE", path)], &said(":"));
        check(&[("MSCCL_TUNING", path)], &said(":"));
        check(&[("NCCL_TOPO_FILE", path)], &said(":"));
        check(&[("MSCCL_XML_FILES", path)], &said(" is not used:"));
    }
}

#[test]
fn a_log_is_written_to_files_of_the_user_alone() {
    let precious = file("precious", "keep me\n");
    let link = folder().join("log-link");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    let link = link.to_str().unwrap();
    let said =
        format!("NCCL_DEBUG_FILE: {link} cannot be written: it is a link, which is not followed");
    check(&[("NCCL_DEBUG_FILE", link)], &said);
    assert_eq!(fs::read_to_string(precious).unwrap(), "keep me\n");
}

#[test]
fn a_kernel_cache_that_others_can_write_to() {
    use std::os::unix::fs::PermissionsExt;
    let cache = folder().join("kernels");
    fs::create_dir_all(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let cache = cache.to_str().unwrap();
    check(&[("MSCCL_KERNEL_CACHE", cache)], "MSCCL_KERNEL_CACHE is not used: ");
}

/// They are no misspellings, so a strict job goes on.
#[test]
fn older_names_of_variables_are_logged_once() {
    let renamed = [
        ("MSCCL_AT_ONCE", "MSCCL_PREFETCH"),
        ("MSCCL_EARLY_START", "MSCCL_PDL"),
        ("MSCCL_SMALL", "MSCCL_LOW_LATENCY"),
        ("MSCCL_SPECIAL", "MSCCL_SPECIALISED"),
        ("MSCCL_STORY_SIGNAL", "MSCCL_REPORT_SIGNAL"),
    ];
    let more = [("NCCL_DEBUG", "INFO"), ("MSCCL_STRICT", "1")];
    let environment: Vec<_> =
        renamed.map(|(older, _)| (older, "1")).into_iter().chain(more).collect();
    let Some(Job { output, errors, is_refused }) = job(Ranks::Threads, &environment) else {
        return;
    };
    assert!(!is_refused && errors.is_empty(), "{errors}");
    for (older, name) in renamed {
        let line =
            format!("NCCL INFO {older} is the older name of {name}; it still works, but set");
        assert_eq!(output.matches(&line).count(), 1, "{line}: {output}");
    }
    check(
        &[("MSCCL_SMALL", "0"), ("MSCCL_LOW_LATENCY", "1")],
        "MSCCL_SMALL is `0`, expected `1` as in MSCCL_LOW_LATENCY, of which it is the older name",
    );
}

#[test]
fn variables_that_are_misspelt_or_make_no_sense() {
    check(
        &[("MSCCL_XMLFILES", "a.xml")],
        "MSCCL_XMLFILES is no variable of this library and is ignored; did you mean \
         MSCCL_XML_FILES?",
    );
    check(
        &[("MSCCL_WEATHER", "fine")],
        "MSCCL_WEATHER is no variable of this library and is ignored; docs/ENVIRONMENT.md has \
         those that are",
    );
    check(
        &[("MSCLL_ALGO", "ring")],
        "MSCLL_ALGO is no variable of this library and is ignored; did you mean MSCCL_ALGO?",
    );
    check(&[("MSCCL_LOW_LATENCY", "soon")], "MSCCL_LOW_LATENCY is `soon`, expected 0 or 1");
    check(&[("NCCL_PROTO", "LL256")], "NCCL_PROTO is `LL256`, expected ");
    check(&[("NCCL_ALGO", "gossip")], "NCCL_ALGO is `gossip`, expected ");
    check(&[("NCCL_DEBUG_SUBSYS", "WEATHER")], "NCCL_DEBUG_SUBSYS is `WEATHER`, expected ");
    check(
        &[("MSCCL_ALGO", "alreduce/ring")],
        "MSCCL_ALGO is `alreduce/ring`, which is in the name of no built-in algorithm and of no \
         file of MSCCL_XML_FILES or MSCCL_ALGO_DIR; did you mean allreduce/ring?",
    );
    check(
        &[("NCCL_CONF_FILE", "/no/such.conf")],
        "NCCL_CONF_FILE is not used: /no/such.conf: it cannot be read: ",
    );
    let conf = file("site.conf", "# ours\nMSCCL_ALGOS=ring\nNCCL_CROSS_NIC=1\n");
    check(&[("NCCL_CONF_FILE", &conf)], "MSCCL_ALGOS is no variable of this library");
    let conf = file("odd.conf", "NCCL_CROSS_NIC 1\n");
    check(
        &[("NCCL_CONF_FILE", &conf)],
        "odd.conf line 1: expected NAME=value, found `NCCL_CROSS_NIC 1`",
    );
    check(&[("NCCL_TOPO_FILE", "/no/topo.xml")], "NCCL_TOPO_FILE is not used: /no/topo.xml: ");
    let part =
        file("part.xml", "<system><cpu numaid=\"0\" vendor=\"Cyrix\" arch=\"z80\"/></system>");
    check(&[("NCCL_TOPO_FILE", &part)], "NCCL_TOPO_FILE is used in part: ");
}

#[test]
fn settings_without_effect() {
    check(
        &[("MSCCL_PROTO", "LL128")],
        "MSCCL_PROTO=LL128 has no effect: ranks on the host speak Simple only",
    );
    check(
        &[("NCCL_PROTO", "^Simple")],
        "NCCL_PROTO leaves LL,LL128, which has no effect: ranks on the host",
    );
    check(
        &[("MSCCL_DIRECT", "2")],
        "MSCCL_DIRECT asks for direct links, and ranks on the host have none",
    );
    check(&[("MSCCL_THREADS", "256")], "MSCCL_THREADS has no effect on the host");
    check(&[("MSCCL_SPECIALISED", "2")], "MSCCL_SPECIALISED=2 has no effect on the host");
    check(&[("NCCL_ALGO", "NVLS")], "NCCL_ALGO is `NVLS`, which is not followed");
    check(&[("NCCL_MIN_CTAS", "4")], "NCCL_MIN_CTAS is `4`, which is not followed");
    check(
        &[("NCCL_BUFFSIZE", "8388608")],
        "NCCL_BUFFSIZE is 8388608, expected 65536 to 2097152 bytes; 2097152 are used",
    );
}

/// A log in a file has what stands on standard error, too, if it has warnings.
#[test]
fn a_log_in_a_file_has_it_too() {
    let log = path("log");
    // Lines are added to a log that is there.
    let _ = fs::remove_file(&log);
    let environment =
        [("MSCCL_WEATHER", "fine"), ("NCCL_DEBUG", "WARN"), ("NCCL_DEBUG_FILE", log.as_str())];
    let Some(Job { errors, .. }) = job(Ranks::Threads, &environment) else { return };
    let said = "NCCL WARN MSCCL_WEATHER is no variable of this library";
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(
        (log.matches(said).count(), errors.matches(said).count()),
        (1, 1),
        "{log}\n{errors}"
    );
}

/// Files that serve are listed once, and serve in both placements where they are proved for both.
#[test]
fn what_files_serve_is_listed_once() {
    let names = [
        ("allreduce/ring", "allreduce, in place and out of place, all sizes, written for Simple"),
        ("allgather/ring", "allgather, in place and out of place, all sizes, written for Simple"),
        (
            "alltoall/allpairs",
            "alltoall, out of place, and in place after a copy of the input, all sizes, written \
             for Simple",
        ),
        (
            "broadcast/chain",
            "broadcast root r0, in place and out of place, all sizes, written for Simple",
        ),
        (
            "reduce/chain",
            "reduce root r0, in place and out of place, all sizes, written for Simple",
        ),
    ];
    let odd = file(
        "odd.msccl",
        "algorithm odd(ranks N) implements reducescatter(chunks 1) bytes 16..1MiB protocol LL {
            for r in 1..0 { output@r = input@r }
            for r in 0..N { output@r = sum(q in 0..N: input@q[r]) }
        }",
    );
    let files = names.iter().map(|(name, _)| example(name)).chain([odd]);
    let files = files.collect::<Vec<_>>().join(":");
    let environment =
        [("MSCCL_XML_FILES", files.as_str()), ("NCCL_DEBUG", "INFO"), ("MSCCL_STRICT", "1")];
    let Some(Job { output, errors, is_refused }) = job(Ranks::Threads, &environment) else {
        return;
    };
    assert!(!is_refused && errors.is_empty(), "{errors}");
    for (name, serves) in names {
        let line = format!("NCCL INFO verified and loaded: {}: {serves}\n", example(name));
        assert_eq!(output.matches(&line).count(), 1, "{line}{output}");
    }
    let line =
        "odd.msccl: reducescatter, in place and out of place, 16..=1048575 bytes, written for LL\n";
    assert_eq!(output.matches(line).count(), 1, "{output}");
    let warning = "odd.msccl, line 2, column 22: 1..0 has no elements: it ends before it begins";
    assert_eq!(output.matches(warning).count(), 1, "{output}");
    let served = |call: &str, by: &str| {
        output
            .lines()
            .any(|line| line.contains(call) && line.contains("served by") && line.contains(by))
    };
    for placement in ["in place", "out of place"] {
        for (kind, by) in [
            ("allreduce", "ring"),
            ("allgather", "ring"),
            ("broadcast", "chain"),
            ("reduce", "chain"),
        ] {
            let by = example(&format!("{kind}/{by}"));
            assert!(served(&format!("NCCL INFO {kind} of 24 i32"), &by), "{kind}: {output}");
            let all =
                output.lines().filter(|line| line.contains(&by) && line.contains("served by"));
            let placed = all.filter(|line| line.contains(placement)).count();
            assert!(placed > 0, "{kind} {placement}: {output}");
        }
    }
    // Proved for one placement alone.
    let copied = output.lines().filter(|line| {
        line.contains("alltoall of 24 i32 in place")
            && line.contains("out of place from a copy of the input")
    });
    assert!(copied.count() > 0, "{output}");
}
