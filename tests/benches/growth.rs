//! How compile + prove + write XML grows with the number of ranks; and how long the built-in
//! algorithms that a communicator makes ready take, all together.
//!
//! `cargo bench -p msccl-tests --bench growth` runs every case in a process of its own, several
//! times, and prints the median of each stage, the time per step and the peak memory.

use std::fmt::Write as _;
use std::io::sink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use msccl_collective::{CallPlacement, CollectiveKind};
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_interchange::xml;
use msccl_ir::Target;
use msccl_registry::{Registry, Shape};
use msccl_syntax::SourceMap;
use msccl_verify::verify;

/// The name of the case that stands for all built-in algorithms without a root, in both placements.
const BUILT_INS: &str = "built-ins";

/// Example, target, ranks, parameters (`per_node` among them), runs. What is for our own runtime is
/// not written as XML.
const CASES: &[(&str, &str, u32, &str, usize)] = &[
    ("allreduce/ring", "msccl", 8, "", 5),
    ("allreduce/ring", "msccl", 64, "", 5),
    ("allreduce/ring", "msccl", 256, "", 5),
    ("allreduce/ring", "msccl", 512, "", 3),
    ("allreduce/ring", "msccl", 1024, "", 3),
    ("allreduce/halving_doubling", "msccl", 1024, "", 5),
    ("alltoall/allpairs", "executor", 256, "", 5),
    ("allreduce/hierarchical", "native", 1024, "per_node=8", 3),
    ("allreduce/hierarchical_low_latency", "native", 1024, "per_node=8", 3),
    ("allreduce/hierarchical_doubling", "native", 1024, "per_node=8", 3),
    ("allgather/hierarchical", "native", 1024, "per_node=8", 3),
    ("allgather/hierarchical_low_latency", "native", 1024, "per_node=8", 3),
    ("reducescatter/hierarchical", "native", 1024, "per_node=8", 3),
    ("reducescatter/hierarchical_low_latency", "native", 1024, "per_node=8", 3),
    ("alltoall/rail_first", "native", 1024, "per_node=8", 3),
    (BUILT_INS, "native", 64, "", 3),
    (BUILT_INS, "native", 64, "per_node=8", 3),
    (BUILT_INS, "native", 128, "per_node=8", 3),
    (BUILT_INS, "native", 256, "per_node=8", 3),
];

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    match arguments.next().as_deref() {
        Some("case") => case(&CASES[arguments.next().unwrap().parse::<usize>().unwrap()]),
        // `cargo test --benches` only asks whether the program starts.
        Some("--test") => {}
        _ => all(),
    }
}

fn all() {
    println!(
        "{:<40} {:>5} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9}",
        "example", "ranks", "steps", "compile", "prove", "write", "total", "us/step", "peak MiB"
    );
    for (index, (.., runs)) in CASES.iter().enumerate() {
        let mut rows: Vec<String> = (0..*runs).map(|_| child(index)).collect();
        rows.sort_by_key(|row| total_us(row));
        print!("{}", rows[rows.len() / 2]);
    }
}

/// The row that a fresh process prints for case `index`.
fn child(index: usize) -> String {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["case", &index.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The row's total in microseconds, for sorting.
fn total_us(row: &str) -> u64 {
    let milliseconds: f64 = row.split_whitespace().nth(6).unwrap().parse().unwrap();
    (milliseconds * 1e3) as u64
}

fn case(&(example, target, ranks, params, _): &(&str, &str, u32, &str, usize)) {
    let mut launch = Launch { ranks: Some(ranks), ..Launch::default() };
    for param in params.split_terminator(',') {
        match param.split_once('=').unwrap() {
            ("per_node", value) => launch.per_node = Some(value.parse().unwrap()),
            (name, value) => launch.params.push((name.to_owned(), value.parse().unwrap())),
        }
    }
    let start = Instant::now();
    let (steps, compiled, proved) = match example {
        BUILT_INS => built_ins(ranks, launch.per_node.unwrap_or(ranks)),
        example => one(example, target, &launch),
    };
    let total = start.elapsed();
    let mut row = String::new();
    write!(row, "{example:<40} {ranks:>5} {steps:>9}").unwrap();
    for time in [compiled, proved, total - compiled - proved] {
        write!(row, " {:>9.2}", milliseconds(time)).unwrap();
    }
    let per_step_us = milliseconds(total) * 1e3 / steps as f64;
    write!(row, " {:>10.2} {per_step_us:>9.3} {:>9.1}", milliseconds(total), peak_mib()).unwrap();
    println!("{row}");
}

/// Compiles, proves and, if it is for another runtime, writes an example: its steps, and how long
/// the first two took.
fn one(example: &str, target: &str, launch: &Launch) -> (usize, Duration, Duration) {
    let start = Instant::now();
    let target = Target::by_name(target).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dsl-examples").join(example);
    let text = std::fs::read_to_string(path.with_extension("msccl")).unwrap();
    let mut sources = SourceMap::new();
    let file = sources.add(example, text);
    let algorithm = match compile(&mut sources, file, &NoFiles, launch, &target) {
        Ok(compiled) => compiled.schedule.algorithm,
        Err(diagnostics) => panic!("{}", sources.render_all(&diagnostics)),
    };
    let compiled = start.elapsed();
    let steps = algorithm.step_count();
    let verified = verify(algorithm, &target).unwrap();
    let proved = start.elapsed() - compiled;
    let dialect = match target.name {
        "native" => None,
        "executor" => Some(xml::Dialect::Executor),
        _ => Some(xml::Dialect::Msccl),
    };
    let write = |dialect| xml::write_to(verified.algorithm(), dialect, &mut sink()).unwrap();
    dialect.into_iter().for_each(write);
    (steps, compiled, proved)
}

/// The steps of all built-in algorithms that a communicator compiles and proves when it is made;
/// the times are not told apart.
fn built_ins(ranks: u32, per_node: u32) -> (usize, Duration, Duration) {
    let registry = Registry::new(Shape { ranks, per_node }, &[]);
    let steps = |wanted| {
        let of = |in_place| {
            let entries = registry.built_in(wanted, CallPlacement::from_in_place(in_place));
            entries.iter().map(|entry| entry.verified.facts().steps).sum::<usize>()
        };
        of(false) + of(true)
    };
    (CollectiveKind::WITHOUT_ROOT.map(steps).iter().sum(), Duration::ZERO, Duration::ZERO)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Peak resident memory of this process; 0 where the system does not say.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}
