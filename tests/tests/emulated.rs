//! The kernels' own interpreters, compiled for the host: links that deliver directly and links that go
//! through slots give the same, whatever ranks offer, launch after launch in the same memory; so do special
//! kernels, and packets of elements of every size, wherever buffers begin and end.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use msccl_collective::{DataType, Kind, Placement, Protocol, Reduction};
use msccl_compiler::evaluate::Launch;
use msccl_ir::Target;
use msccl_kernels::specialised::{self, Known};
use msccl_plan::cut::Cut;
use msccl_plan::launch;
use msccl_plan::layout::{header, tb};
use msccl_plan::{
    Alias, Alignment, Delivery, LowLatency, LowLatencyPlan, OperandPlacement, Plan, Program,
};
use msccl_runtime::oracle::{Executor, OracleCall, Workers};
use msccl_tests::example::{Example, examples};
use msccl_verify::{Verified, verify};

/// The fewest that a block has under protocol Simple.
const THREADS: u64 = 96;
const SLOT_BYTES: u64 = 256;
/// Slots in which a thread has several packets.
const LARGE_SLOT_BYTES: u64 = 4096;
const SIMPLE: Protocol = Protocol::Simple;
/// Room around buffers, so that what goes astray is seen.
const MARGIN: usize = 64;

/// The emulator, compiled once; nothing, said aloud, on a machine without a C++ compiler.
fn emulator() -> Option<&'static Path> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    COMPILED.get_or_init(|| compile("emulator", &Kernels::Plain)).as_deref()
}

/// Which kernels an emulator runs.
enum Kernels {
    /// Interpreters of protocol Simple.
    Plain,
    /// Interpreters of another protocol.
    Packets(Protocol),
    /// Special kernels under a protocol, from their source, and its interpreters.
    Special { protocol: Protocol, data_type: DataType, text: String },
    /// None: a program that loads and stores as they do.
    Memory,
    /// None: a program that moves chunks as they do.
    Moves,
    /// That of exchanges.
    Exchange,
}

/// Which elements an emulator has.
#[derive(Clone, Copy)]
enum Elements {
    /// Some of every size.
    Sizes,
    /// All floats.
    Floats,
}

/// The emulator in a folder of that name.
fn compile(name: &str, kernels_of: &Kernels) -> Option<PathBuf> {
    compile_for(name, kernels_of, Elements::Sizes)
}

/// The same for some elements.
fn compile_for(name: &str, kernels_of: &Kernels, elements: Elements) -> Option<PathBuf> {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // The emulator's `ptx.cuh` takes the place of the device's.
    let sources = ["device", "specialised", "emulator"].map(|from| (from, "device"));
    for (from, to) in [("include", "include")].into_iter().chain(sources) {
        fs::create_dir_all(folder.join(to)).unwrap();
        for entry in fs::read_dir(kernels.join(from)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.join(to).join(entry.file_name())).unwrap();
        }
    }
    let program = folder.join("emulator");
    let main = match kernels_of {
        Kernels::Memory => "memory.cpp",
        Kernels::Moves => "moves.cpp",
        Kernels::Exchange => "exchange.cpp",
        Kernels::Plain | Kernels::Packets(_) | Kernels::Special { .. } => "main.cpp",
    };
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut command = Command::new(&compiler);
    match kernels_of {
        Kernels::Plain | Kernels::Memory | Kernels::Moves | Kernels::Exchange => {}
        Kernels::Packets(protocol) => {
            command.arg(format!("-DMSCCL_PROTOCOL={}", type_name(*protocol)));
        }
        Kernels::Special { protocol, data_type, text } => {
            let file = folder.join("device/specialised.cu");
            fs::write(&file, text).unwrap();
            command.arg(format!("-DMSCCL_PROTOCOL={}", type_name(*protocol)));
            command.arg(format!("-DMSCCL_NUMBER={}", number_name(*data_type)));
            command.arg(format!("-DMSCCL_SPECIALISED=\"{}\"", file.display()));
        }
    }
    if matches!(elements, Elements::Floats) {
        command.arg("-DMSCCL_FLOATS");
    }
    let output = command
        .args([
            "-std=c++20",
            "-O1",
            "-ffp-contract=off",
            "-Wall",
            "-Werror",
            "-Wno-unknown-pragmas",
            "-pthread",
            "-I",
        ])
        .arg(&folder)
        .arg(folder.join("device").join(main))
        .arg("-o")
        .arg(&program)
        .output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("SKIPPED: the kernels cannot be emulated without a C++ compiler ({error})");
            None
        }
    }
}

/// What the kernels call a protocol.
fn type_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Simple => "Simple",
        Protocol::Ll => "Ll",
        Protocol::Ll128 => "Ll128",
    }
}

/// What the kernels call a type for which there are special ones here.
fn number_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::I32 => "I32",
        DataType::F16 => "F16",
        DataType::F32 => "F32",
        other => panic!("no special kernels of {other}"),
    }
}

/// A small generator of numbers; the tests must not depend on luck.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// What ranks offer in a launch.
#[derive(Clone, Copy, Debug)]
enum Offers {
    /// Nothing is delivered directly.
    Off,
    /// Nobody offers anything.
    None,
    /// Everybody offers everything.
    All,
    /// Every rank offers what it has to some.
    Some,
}

/// Where a rank's buffers lie in its memory.
struct Lie {
    input: usize,
    output: usize,
    input_bytes: usize,
    output_bytes: usize,
}

/// What to run: launch after launch, these algorithms in turn, all for the same ranks.
#[derive(Clone, Copy)]
struct Scenario<'a> {
    algorithms: &'a [Verified],
    protocol: Protocol,
    data_type: DataType,
    reduction: Reduction,
    slot_bytes: u64,
    count: usize,
    instances: u32,
    in_place: bool,
    /// How far behind a multiple of 16 bytes buffers begin; each anywhere that suits the elements if nothing is said.
    offset: Option<usize>,
    offers: &'a [Offers],
    /// What follows from it befalls the ranks; 0: nothing does, and every launch must be done.
    failure: u64,
}

/// What came of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Outcome {
    /// Bytes of slots that were written.
    used: u64,
    /// Launches that were done.
    done: usize,
}

/// An algorithm as it is launched.
struct Prepared<'a> {
    verified: &'a Verified,
    plans: Vec<Plan>,
    cuts: Vec<Cut>,
    lies: Vec<Lie>,
}

impl Scenario<'_> {
    /// What most tests have in common.
    const USUAL: Scenario<'static> = Scenario {
        algorithms: &[],
        protocol: SIMPLE,
        data_type: DataType::I32,
        reduction: Reduction::Sum,
        slot_bytes: SLOT_BYTES,
        count: 205,
        instances: 1,
        in_place: false,
        offset: None,
        offers: &[],
        failure: 0,
    };

    /// Runs it and compares; bytes of slots that were written.
    fn check(&self, emulator: &Path, numbers: &mut Numbers) -> Result<u64, String> {
        self.play(emulator, numbers).map(|outcome| outcome.used)
    }

    /// Runs it and compares what was done.
    fn play(&self, emulator: &Path, numbers: &mut Numbers) -> Result<Outcome, String> {
        let prepared: Result<Vec<_>, _> =
            self.algorithms.iter().map(|verified| self.prepare(verified, numbers)).collect();
        let prepared = prepared?;
        let lies = prepared.iter().flat_map(|it| &it.lies);
        let memory_bytes = lies.map(Lie::end).max().unwrap_or(0).next_multiple_of(8);
        let launches = || self.offers.iter().zip(prepared.iter().cycle());
        let runs: Vec<_> =
            launches().map(|(_, prepared)| self.run(prepared, memory_bytes, numbers)).collect();

        let programs = || prepared.iter().flat_map(|it| &it.plans).map(Plan::program);
        let most = programs().flat_map(Program::link_numbers).max().map_or(1, |most| most + 1);
        let blocks =
            programs().map(|program| program.thread_blocks.len()).max().unwrap_or(0) as u64;
        let (ranks, instances) = (prepared[0].plans.len(), u64::from(self.instances));
        let mut words = Words::default();
        words.put([ranks as u64, u64::from(most) * instances]);
        let depth = prepared[0].verified.target().link(self.protocol).depth;
        words.put([u64::from(depth), self.slot_bytes, THREADS]);
        words.put([self.offers.len() as u64, blocks * instances]);
        let combined = programs().any(combines);
        let data_type = if combined { self.data_type } else { self.carried() };
        let number = DataType::ALL.iter().position(|of| *of == data_type).unwrap();
        words.put([memory_bytes, prepared.len(), number].map(|word| word as u64));
        words.put([self.failure]);
        for rank in prepared[0].plans.iter().map(|plan| plan.program().rank.index()) {
            for prepared in &prepared {
                let plan = prepared.plans[rank].words();
                words.put([plan.len() as u64]);
                words.bytes(plan.iter().flat_map(|word| word.to_le_bytes()));
            }
            for (launch, (offers, prepared)) in launches().enumerate() {
                words.bytes(runs[launch][rank].before.iter().copied());
                words.put([(launch % self.algorithms.len()) as u64]);
                prepared.launch((rank, launch), self, &mut words, *offers, numbers);
            }
        }
        let outcome = compare(&feed(emulator, &words.0)?, &runs, memory_bytes)?;
        let all = ranks * self.offers.len();
        if self.failure == 0 && outcome.done != all {
            return Err(format!("{} of {all} launches were done", outcome.done));
        }
        Ok(outcome)
    }

    fn prepare<'a>(
        &self,
        verified: &'a Verified,
        numbers: &mut Numbers,
    ) -> Result<Prepared<'a>, String> {
        let plans = Plan::all(verified).map_err(|error| error.to_string())?;
        let cut = |plan: &Plan| self.cut(plan);
        let cuts: Option<Vec<_>> = plans.iter().map(cut).collect();
        let cuts = cuts.ok_or("the call cannot be cut")?;
        let lies = plans.iter().map(|plan| self.lie(plan.program(), numbers)).collect();
        Ok(Prepared { verified, plans, cuts, lies })
    }

    fn cut(&self, plan: &Plan) -> Option<Cut> {
        let (count, element) = (self.count as u64, self.element() as u64);
        let (protocol, slot_bytes) = (self.protocol, self.slot_bytes);
        Cut::within(plan.program(), count, element, self.instances, protocol, slot_bytes)
    }

    /// Bytes of an element.
    fn element(&self) -> usize {
        self.data_type.size_bytes()
    }

    /// The type of kernels for algorithms that combine nothing.
    fn carried(&self) -> DataType {
        if self.data_type.is_float() { self.data_type } else { CARRIED }
    }

    /// What special kernels of `plan` are told.
    fn launched(&self, plan: &Plan, ranks: u32) -> launch::Launch {
        let [reduction, divisor] = self.reducing(plan.program());
        let usual = launch::Launch::default().with_plan(plan);
        let launch = launch::Launch { ranks, reduction, divisor, ..usual };
        launch.with_cut(&self.cut(plan).unwrap())
    }

    /// What a launch of `program` is told: number of the reduction, and contributions to an average.
    fn reducing(&self, program: &Program) -> [u32; 2] {
        let of = program.average.map_or(0, |average| average.of);
        match self.reduction {
            Reduction::Avg if self.data_type.is_float() => [launch::REDUCTION_AVERAGE, of],
            Reduction::Avg => [launch::REDUCTION_SUM, of],
            Reduction::Sum => [launch::REDUCTION_SUM, 0],
            other => panic!("no {other} here"),
        }
    }

    /// Puts the largest number and the least one here and there.
    fn put_extremes(&self, bytes: &mut [u8], numbers: &mut Numbers) {
        let [largest, least] = match self.data_type {
            DataType::F16 => [0x7bff, 1],
            DataType::Bf16 => [0x7f7f, 1],
            DataType::F32 => [0x7f7f_ffff, 1],
            DataType::F64 => [0x7fef_ffff_ffff_ffff, 1],
            DataType::F8E4M3 => [0x7e, 1],
            DataType::F8E5M2 => [0x7b, 1],
            _ => return,
        };
        for element in bytes.chunks_exact_mut(self.element()) {
            let bits: u64 = match numbers.below(4) {
                0 => largest,
                1 => least,
                _ => continue,
            };
            let sign = if numbers.below(2) == 0 { 0x80 } else { 0 };
            element.copy_from_slice(&bits.to_le_bytes()[..self.element()]);
            element[self.element() - 1] |= sign;
        }
    }

    /// A rank's buffers.
    fn lie(&self, program: &Program, numbers: &mut Numbers) -> Lie {
        let geometry = &program.geometry;
        let block_bytes = self.element() * self.count;
        let bytes = |chunks: u32| (chunks / geometry.block_chunks) as usize * block_bytes;
        let (input_bytes, output_bytes) =
            (bytes(geometry.input_chunks), bytes(geometry.output_chunks));
        let own = program.rank.0 as usize * block_bytes;
        let mut anywhere = || self.element() * numbers.below(16 / self.element() as u64) as usize;
        let mut shift = || self.offset.unwrap_or_else(&mut anywhere);
        let first = MARGIN + shift();
        let (input, output) = match (self.in_place, program.alias) {
            (true, Alias::Same) => (first, first),
            (true, Alias::InputInOutput) => (first + own, first),
            (true, Alias::OutputInInput) => (first, first + own),
            (true, Alias::None) | (false, _) => {
                let second = (first + input_bytes).next_multiple_of(MARGIN) + MARGIN + shift();
                (first, second)
            }
        };
        Lie { input, output, input_bytes, output_bytes }
    }

    /// The memory of all ranks before a launch, and what it must be after.
    fn run(&self, prepared: &Prepared<'_>, bytes: usize, numbers: &mut Numbers) -> Vec<Expected> {
        let Prepared { verified, lies, .. } = prepared;
        // Floats that are finite, and whose sums are.
        let used = if self.data_type.is_float() { 0xbf } else { 0xff };
        let filled = |_| (0..bytes).map(|_| numbers.next() as u8 & used).collect::<Vec<_>>();
        let mut before: Vec<Vec<u8>> = lies.iter().map(filled).collect();
        if self.reduction == Reduction::Avg {
            for (lie, bytes) in lies.iter().zip(&mut before) {
                self.put_extremes(&mut bytes[lie.input..][..lie.input_bytes], numbers);
            }
        }
        if matches!(verified.algorithm().collective.kind, Kind::Custom(_)) && !self.in_place {
            // Where nothing is promised nothing may be written; the executor says 0 of that.
            let outputs = lies.iter().zip(&mut before);
            outputs.for_each(|(lie, bytes)| bytes[lie.output..][..lie.output_bytes].fill(0));
        }
        let input = |(lie, bytes): (&Lie, &Vec<u8>)| bytes[lie.input..][..lie.input_bytes].to_vec();
        let report = Executor::new(verified).unwrap().run(&OracleCall {
            data_type: self.data_type,
            reduction: self.reduction,
            count: self.count,
            in_place: self.in_place,
            inputs: lies.iter().zip(&before).map(input).collect(),
            workers: Workers::Exactly(1),
            timeout: None,
        });
        let outputs = report.unwrap().outputs;
        let expected = lies.iter().zip(before).zip(outputs).map(|((lie, before), output)| {
            let mut after: Vec<_> = before.iter().copied().map(Some).collect();
            if self.in_place && verified.facts().overwrites_input {
                after[lie.input..][..lie.input_bytes].fill(None);
            }
            let promised = verified.facts().result_promised;
            let to = after[lie.output..][..lie.output_bytes].iter_mut().zip(output);
            to.for_each(|(to, byte)| *to = promised.then_some(byte));
            Expected { before, after }
        });
        expected.collect()
    }
}

impl Prepared<'_> {
    /// What launch number `number` of a rank is given.
    fn launch(
        &self,
        (rank, number): (usize, usize),
        scenario: &Scenario<'_>,
        words: &mut Words,
        offers: Offers,
        numbers: &mut Numbers,
    ) {
        let (lie, plan) = (&self.lies[rank], &self.plans[rank]);
        let Cut { block_bytes, chunk_bytes, part_bytes, slice_bytes, .. } = self.cuts[rank];
        let Cut { rounds, instances, chunks_per_message, .. } = self.cuts[rank];
        let offered = match offers {
            Offers::Off | Offers::None => 0,
            Offers::All => u64::MAX,
            Offers::Some => numbers.next(),
        };
        let off = matches!(offers, Offers::Off);
        words.put([lie.input as u64, lie.output as u64, u64::from(!off), offered]);
        words.put([block_bytes, chunk_bytes, part_bytes, slice_bytes]);
        words.put([rounds, instances, chunks_per_message].map(u64::from));
        words.put([u64::from(launch::Launch::default().with_plan(plan).flags)]);
        words.put(scenario.reducing(plan.program()).map(u64::from));
        words.put([self.kind((rank, number), scenario.protocol)]);
    }

    /// What runs a launch, as the emulator counts. A kernel for small calls every other launch of a rank, and of the ranks
    /// every other one begins with it.
    fn kind(&self, (rank, number): (usize, usize), protocol: Protocol) -> u64 {
        let Lie { input, output, .. } = self.lies[rank];
        let (plan, cut) = (&self.plans[rank], &self.cuts[rank]);
        let small = self.small(rank, protocol).filter(|_| (number + rank).is_multiple_of(2));
        match small {
            None => {
                let launch = launch_of((plan, cut), (input, output));
                u64::from(launch.alignment(OperandPlacement::of(plan)) != Alignment::Full16)
            }
            Some(LowLatency::Aligned) => 2,
            Some(LowLatency::Unaligned) => 3,
        }
    }

    /// Which kernel for small calls can run the launches of a rank.
    fn small(&self, rank: usize, protocol: Protocol) -> Option<LowLatency> {
        let Lie { input, output, .. } = self.lies[rank];
        let depth = self.verified.target().link(protocol).depth;
        small((&self.plans[rank], &self.cuts[rank]), (protocol, depth), (input, output))
    }
}

/// The memory of a rank: `None` where it may hold anything.
struct Expected {
    before: Vec<u8>,
    after: Vec<Option<u8>>,
}

impl Lie {
    fn end(&self) -> usize {
        (self.input + self.input_bytes).max(self.output + self.output_bytes) + MARGIN
    }
}

#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn put<const N: usize>(&mut self, words: [u64; N]) {
        self.bytes(words.into_iter().flat_map(u64::to_le_bytes));
    }

    fn bytes(&mut self, bytes: impl Iterator<Item = u8>) {
        self.0.extend(bytes);
    }
}

/// What the emulator says of `scenario`.
fn feed(emulator: &Path, scenario: &[u8]) -> Result<Vec<u8>, String> {
    let mut child = Command::new("timeout")
        .arg("60")
        .arg(emulator)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(scenario).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("the emulator ended with {}", output.status)),
    }
}

/// Compares what the launches that were done have left.
fn compare(output: &[u8], runs: &[Vec<Expected>], memory_bytes: usize) -> Result<Outcome, String> {
    let ranks = runs.first().map_or(0, Vec::len);
    let of_launch = 8 + memory_bytes;
    let of_rank = 8 + runs.len() * of_launch;
    assert_eq!(output.len(), ranks * of_rank);
    let mut outcome = Outcome::default();
    for (rank, found) in output.chunks(of_rank).enumerate() {
        let (slots, memories) = found.split_first_chunk().unwrap();
        outcome.used += u64::from_le_bytes(*slots);
        for (launch, (found, run)) in memories.chunks(of_launch).zip(runs).enumerate() {
            let (done, found) = found.split_first_chunk().unwrap();
            if u64::from_le_bytes(*done) == 0 {
                continue;
            }
            outcome.done += 1;
            let pairs = found.iter().zip(&run[rank].after);
            let wrong =
                pairs.clone().filter(|(found, it)| it.is_some_and(|it| it != **found)).count();
            let first = pairs.clone().position(|(found, it)| it.is_some_and(|it| it != *found));
            if let Some(at) = first {
                return Err(format!("launch {launch}, r{rank}: {wrong} bytes, the first at {at}"));
            }
        }
    }
    Ok(outcome)
}

fn proved(example: &Example, launch: &Launch, placement: Placement) -> Option<Verified> {
    let launch = Launch { placement: Some(placement), ..launch.clone() };
    let compiled = example.compile(&launch, &Target::native()).ok()?;
    verify(compiled.schedule.algorithm, &Target::native()).ok()
}

/// An example, compiled and proved.
struct Case {
    what: String,
    verified: Verified,
    in_place: bool,
}

impl Case {
    fn new(example: &Example, launch: &Launch, placement: Placement) -> Option<Self> {
        let what = format!("{} {launch:?} {placement:?}", example.name);
        let in_place = placement == Placement::InPlace;
        proved(example, launch, placement).map(|verified| Self { what, verified, in_place })
    }

    /// `few` elements, or `divided` where chunks must divide the count.
    fn count(&self, few: usize, divided: usize) -> usize {
        if self.verified.facts().serves_any_count { few } else { divided }
    }
}

/// Every example on three and four ranks, in and out of place, as far as links of `protocol` are deep enough for it.
fn cases(protocol: Protocol) -> impl Iterator<Item = &'static Case> {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    let prove = || {
        let placements = [Placement::InPlace, Placement::OutOfPlace];
        let mut cases = Vec::new();
        for example in examples() {
            let launches = example.launches.iter();
            for launch in launches.filter(|it| it.ranks.is_some_and(|it| (3..=4).contains(&it))) {
                cases.extend(placements.iter().filter_map(|it| Case::new(&example, launch, *it)));
            }
        }
        cases
    };
    let fits = move |case: &&Case| {
        let verified = &case.verified;
        verified.target().link(protocol).depth >= verified.facts().least_link_depth
    };
    CASES.get_or_init(prove).iter().filter(fits)
}

/// The example of that name for `ranks` ranks.
fn named(name: &str, ranks: u32, placement: Placement) -> Verified {
    let examples = examples();
    let example = examples.iter().find(|example| example.name == name).unwrap();
    let launch = Launch { ranks: Some(ranks), ..Launch::default() };
    proved(example, &launch, placement).unwrap()
}

fn deliveries(verified: &Verified) -> Vec<Delivery> {
    let plans = Plan::all(verified).unwrap();
    let blocks = plans.iter().flat_map(|plan| &plan.program().thread_blocks);
    blocks.flat_map(|block| block.deliveries.clone()).collect()
}

const SEQUENCE: [Offers; 6] =
    [Offers::All, Offers::None, Offers::Off, Offers::Some, Offers::All, Offers::Some];

#[test]
fn what_users_pass_never_goes_through_slots() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(1);
    for (name, placement) in [
        ("allreduce/two_shot", Placement::InPlace),
        ("allreduce/two_shot", Placement::OutOfPlace),
        ("allreduce/two_shot_block", Placement::InPlace),
        ("allgather/allpairs", Placement::InPlace),
        ("allgather/allpairs", Placement::OutOfPlace),
        ("alltoall/allpairs", Placement::OutOfPlace),
        ("reducescatter/direct", Placement::OutOfPlace),
        ("broadcast/direct", Placement::OutOfPlace),
    ] {
        for ranks in [2, 3, 4] {
            let verified = named(name, ranks, placement);
            let all = deliveries(&verified);
            assert!(all.iter().all(|it| *it != Delivery::Staged), "{name} {placement:?}: {all:?}");
            let in_place = placement == Placement::InPlace;
            for (count, instances) in [(1, 1), (13, 2), (256, 1), (1003, 3)] {
                let offers = &[Offers::All; 4];
                let algorithms = std::slice::from_ref(&verified);
                let usual = Scenario::USUAL;
                let scenario = Scenario { algorithms, count, instances, in_place, offers, ..usual };
                let used = scenario.check(emulator, numbers);
                assert_eq!(used, Ok(0), "{name} {placement:?}, {ranks} ranks, {count} elements");
                let scenario = Scenario { offers: &SEQUENCE, ..scenario };
                let used = scenario.check(emulator, numbers);
                assert!(used.is_ok_and(|used| used > 0), "{name}, {ranks} ranks, {count} elements");
            }
        }
    }
}

#[test]
fn algorithms_that_push_and_that_pull_take_turns_on_the_same_wires() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(3);
    for ranks in [2, 3, 4] {
        let names = [
            "reducescatter/direct",
            "alltoall/allpairs",
            "allreduce/two_shot",
            "broadcast/chain",
            "allreduce/ring",
        ];
        let algorithms = names.map(|name| named(name, ranks, Placement::OutOfPlace));
        let kinds: Vec<_> = algorithms.iter().flat_map(deliveries).collect();
        let all = [Delivery::Push, Delivery::Pull { acknowledgement: true }, Delivery::Staged];
        // Between two ranks nothing must be staged.
        for kind in &all[..if ranks == 2 { 2 } else { 3 }] {
            assert!(kinds.contains(kind), "{kind:?} among {ranks} ranks");
        }
        // Numbers that have nothing in common, so that all algorithms meet all offers.
        let offers: Vec<_> = SEQUENCE.into_iter().cycle().take(36).collect();
        let (algorithms, offers) = (&algorithms, &offers);
        let scenario = Scenario { algorithms, instances: 2, offers, ..Scenario::USUAL };
        let used = scenario.check(emulator, numbers);
        assert!(used.is_ok_and(|used| used > 0), "{ranks} ranks");
    }
}

#[test]
fn every_example_gives_the_same_whatever_is_offered() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(2);
    let (mut runs, mut direct) = (0, 0);
    for case in cases(SIMPLE) {
        let scenario = Scenario {
            algorithms: std::slice::from_ref(&case.verified),
            count: case.count(205, 192),
            instances: 1 + numbers.below(2) as u32,
            in_place: case.in_place,
            offers: &SEQUENCE,
            ..Scenario::USUAL
        };
        let used = scenario.check(emulator, numbers);
        assert!(used.is_ok(), "{}: {used:?}", case.what);
        runs += 1;
        let all = deliveries(&case.verified);
        direct += usize::from(all.iter().any(|it| *it != Delivery::Staged));
    }
    assert!(runs > 80 && direct > 40, "{direct} of {runs} deliver directly");
}

/// The type of kernels for algorithms that combine nothing, whatever they move.
const CARRIED: DataType = DataType::U64;

/// Whether some step of a rank combines what it reads.
fn combines(program: &Program) -> bool {
    let steps = program.thread_blocks.iter().flat_map(|block| &block.steps);
    steps.into_iter().any(|step| step.sources.len() > 1)
}

/// Elements of every size, of types whose arithmetic the emulator has.
const SIZES: [DataType; 4] = [DataType::U8, DataType::Bf16, DataType::I32, DataType::U64];

/// Copies; sums of two, of some and of many; to one destination, and to many.
const MOVES: [(&str, Placement); 8] = [
    ("alltoall/allpairs", Placement::OutOfPlace),
    ("allgather/bruck", Placement::OutOfPlace),
    ("allgather/allpairs", Placement::InPlace),
    ("reducescatter/direct", Placement::OutOfPlace),
    ("allreduce/one_step", Placement::InPlace),
    ("allreduce/two_shot", Placement::OutOfPlace),
    ("allreduce/two_shot_block", Placement::InPlace),
    ("allreduce/ring", Placement::InPlace),
];

/// Under `protocol`: buffers anywhere, aligned, or all off by as much, of blocks that neither words, packets nor
/// chunks divide, and of others.
fn check_odd(protocol: Protocol, kernels: &Kernels) {
    let name = format!("odd {}", type_name(protocol));
    let Some(emulator) = compile(&name, kernels) else { return };
    let numbers = &mut Numbers(5);
    for (name, placement) in MOVES {
        for ranks in [2, 5] {
            let verified = named(name, ranks, placement);
            for data_type in SIZES {
                let four = data_type.size_bytes().max(4);
                for (count, instances, offset) in [
                    (29, 1, None),
                    (997, 2, None),
                    (4099, 1, None),
                    (1022, 2, Some(0)),
                    (1027, 3, Some(four)),
                ] {
                    let usual = Scenario { protocol, data_type, count, offset, ..Scenario::USUAL };
                    let scenario = Scenario {
                        algorithms: std::slice::from_ref(&verified),
                        slot_bytes: LARGE_SLOT_BYTES,
                        in_place: placement == Placement::InPlace,
                        instances,
                        offers: &[Offers::Off; 2],
                        ..usual
                    };
                    let used = scenario.check(&emulator, numbers);
                    let what = format!("{name}, {ranks} ranks, {count} × {data_type}, {offset:?}");
                    assert!(used.as_ref().is_ok_and(|used| *used > 0), "{what}: {used:?}");
                }
            }
        }
    }
}

/// Runs a program that says itself whether all is right.
fn check_program(name: &str, kernels: &Kernels) {
    let Some(program) = compile(name, kernels) else { return };
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}: {output:?}", output.status);
}

#[test]
fn what_exists_is_loaded_and_stored_and_nothing_else() {
    check_program("memory", &Kernels::Memory);
}

#[test]
fn chunks_of_any_length_move_between_any_addresses() {
    check_program("moves", &Kernels::Moves);
}

#[test]
fn transfers_bring_all_bytes_in_bulk_or_not() {
    check_program("exchange", &Kernels::Exchange);
}

/// Whatever befalls a communicator in the middle of its launches: every launch that is done has its result, though ranks
/// are released while others have not heard of it, and launch on.
fn check_failures(protocol: Protocol, kernels: &Kernels) {
    let Some(emulator) = compile(&format!("failures-{protocol}"), kernels) else { return };
    let numbers = &mut Numbers(31);
    let names = ["allreduce/ring", "allreduce/two_shot", "allgather/allpairs", "broadcast/chain"];
    let (mut all, mut done) = (0, 0);
    for (name, ranks) in names.into_iter().flat_map(|name| [(name, 2), (name, 3)]) {
        let verified = named(name, ranks, Placement::OutOfPlace);
        for count in [13, 1003] {
            let direct = [Offers::All, Offers::Off].repeat(10);
            let offers = if protocol == SIMPLE { &direct[..] } else { &[Offers::Off; 20] };
            let scenario = Scenario {
                algorithms: std::slice::from_ref(&verified),
                protocol,
                slot_bytes: LARGE_SLOT_BYTES,
                count,
                instances: 2,
                offers,
                failure: numbers.next() | 1,
                ..Scenario::USUAL
            };
            let outcome = scenario.play(&emulator, numbers);
            assert!(outcome.is_ok(), "{name}, {ranks} ranks, {count} elements: {outcome:?}");
            all += offers.len() * ranks as usize;
            done += outcome.unwrap().done;
        }
    }
    println!("{protocol}: {done} of {all} launches were done");
    assert!(done > 0 && done < all, "{done} of {all} launches were done");
}

#[test]
fn launches_that_are_done_have_their_results_after_a_failure() {
    check_failures(SIMPLE, &Kernels::Plain);
}

#[test]
fn launches_that_are_done_have_their_results_after_a_failure_in_small_packets() {
    check_failures(Protocol::Ll, &Kernels::Packets(Protocol::Ll));
}

#[test]
fn launches_that_are_done_have_their_results_after_a_failure_in_large_packets() {
    check_failures(Protocol::Ll128, &Kernels::Packets(Protocol::Ll128));
}

#[test]
fn odd_operands_move_as_others_do() {
    check_odd(Protocol::Simple, &Kernels::Plain);
}

#[test]
fn odd_operands_move_in_small_packets() {
    check_odd(Protocol::Ll, &Kernels::Packets(Protocol::Ll));
}

#[test]
fn odd_operands_move_in_large_packets() {
    check_odd(Protocol::Ll128, &Kernels::Packets(Protocol::Ll128));
}

/// Whether every thread block of `plan` finds all of its operands at once when a call is cut so.
fn finds_at_once(plan: &Plan, cut: &Cut, depth: u32) -> bool {
    let launch = launch::Launch::default().with_plan(plan).with_cut(cut);
    let word = |at: usize| plan.words()[at];
    let entries = (0..launch.tb_count as usize).map(|tb| header::LENGTH + tb * tb::LENGTH);
    let mut blocks =
        entries.map(|at| (word(at + tb::OPERANDS as usize), word(at + tb::STEPS as usize)));
    launch.rounds == 1
        && launch.chunks_per_message >= launch.longest_step
        && depth >= launch.most_messages
        && blocks.all(|(operands, steps)| operands > 0 || steps == 0)
}

/// Which kernel for small calls can run a call of buffers that lie at `input` and `output`, cut so.
fn small(
    (plan, cut): (&Plan, &Cut),
    (protocol, link_depth): (Protocol, u32),
    (input, output): (usize, usize),
) -> Option<LowLatency> {
    let launch = launch::Launch { link_depth, ..launch_of((plan, cut), (input, output)) };
    launch.low_latency(LowLatencyPlan::of(plan)?, protocol, THREADS as u32)
}

/// A call of buffers that lie at `input` and `output`, cut so.
fn launch_of((plan, cut): (&Plan, &Cut), (input, output): (usize, usize)) -> launch::Launch {
    let (input, output) = (input as u64, output as u64);
    let launch = launch::Launch { input, output, ..launch::Launch::default() };
    launch.with_plan(plan).with_cut(cut)
}

/// Under `protocol`: small calls of every example, launch after launch.
fn check_small(protocol: Protocol) {
    let Some(emulator) =
        compile(&format!("small {}", type_name(protocol)), &Kernels::Packets(protocol))
    else {
        return;
    };
    let numbers = &mut Numbers(6);
    let (mut runs, mut at_once, mut own, mut counted, mut waiting) = (0, 0, 0, 0, 0);
    for case in cases(protocol) {
        let verified = &case.verified;
        let scenario = Scenario {
            algorithms: std::slice::from_ref(verified),
            protocol,
            slot_bytes: LARGE_SLOT_BYTES,
            count: case.count(61, 48),
            instances: 1 + numbers.below(2) as u32,
            in_place: case.in_place,
            offers: &[Offers::Off; 3],
            ..Scenario::USUAL
        };
        let used = scenario.check(&emulator, numbers);
        assert!(used.is_ok(), "{}: {used:?}", case.what);
        let depth = verified.target().link(protocol).depth;
        let plans = Plan::all(verified).unwrap();
        let finds = |plan: &Plan| finds_at_once(plan, &scenario.cut(plan).unwrap(), depth);
        let steps = || {
            let programs = plans.iter().filter(|plan| finds(plan)).map(Plan::program);
            programs.flat_map(|it| &it.thread_blocks).flat_map(|block| &block.steps)
        };
        runs += 1;
        at_once += usize::from(plans.iter().all(finds));
        let is_small = |plan: &Plan| {
            small((plan, &scenario.cut(plan).unwrap()), (protocol, depth), (0, 0)).is_some()
        };
        own += usize::from(plans.iter().all(is_small));
        counted += usize::from(steps().any(|step| step.count > 1));
        waiting += usize::from(steps().any(|step| !step.waits.is_empty()));
    }
    let what = format!(
        "{at_once} of {runs} at once, {own} of them small, {counted} with counts, {waiting} with waits"
    );
    assert!(at_once > 150 && own > 80 && counted > 40 && waiting > 60, "{what}");
}

#[test]
fn small_calls_find_all_operands_at_once_in_small_packets() {
    check_small(Protocol::Ll);
}

#[test]
fn small_calls_find_all_operands_at_once_in_large_packets() {
    check_small(Protocol::Ll128);
}

/// One call finds all operands at once, the next does not; over the same wires.
#[test]
fn calls_that_find_at_once_and_others_take_turns() {
    let protocol = Protocol::Ll;
    let Some(emulator) = compile("turns", &Kernels::Packets(protocol)) else { return };
    for ranks in [2, 3, 4] {
        let names =
            ["allreduce/two_shot", "allreduce/one_block", "alltoall/allpairs", "allreduce/ring"];
        let algorithms = names.map(|name| named(name, ranks, Placement::OutOfPlace));
        let offers = &[Offers::Off; 23];
        // A slot holds 1024 elements of a chunk: a quarter of the call, but not the whole of it.
        let usual = Scenario { protocol, slot_bytes: LARGE_SLOT_BYTES, offers, ..Scenario::USUAL };
        let scenario = Scenario { algorithms: &algorithms, count: 1003, ..usual };
        let found = algorithms.each_ref().map(|verified| {
            let depth = verified.target().link(protocol).depth;
            let plans = Plan::all(verified).unwrap();
            plans.iter().all(|plan| finds_at_once(plan, &scenario.cut(plan).unwrap(), depth))
        });
        assert!(found.contains(&true) && found.contains(&false), "{ranks} ranks: {found:?}");
        let used = scenario.check(&emulator, &mut Numbers(7));
        assert!(used.as_ref().is_ok_and(|used| *used > 0), "{ranks} ranks: {used:?}");
    }
}

#[test]
fn with_more_messages_than_slots_operands_are_found_step_by_step() {
    let protocol = Protocol::Ll;
    let Some(emulator) = compile("many", &Kernels::Packets(protocol)) else { return };
    let verified = named("allreduce/ring", 6, Placement::InPlace);
    let (algorithms, offers) = (std::slice::from_ref(&verified), &[Offers::Off; 2]);
    let usual = Scenario { protocol, slot_bytes: LARGE_SLOT_BYTES, offers, ..Scenario::USUAL };
    let scenario = Scenario { algorithms, count: 60, in_place: true, ..usual };
    let (plans, depth) = (Plan::all(&verified).unwrap(), verified.target().link(protocol).depth);
    let found = |plan: &Plan| finds_at_once(plan, &scenario.cut(plan).unwrap(), depth);
    assert!(!plans.iter().any(found));
    assert!(plans.iter().all(|plan| finds_at_once(plan, &scenario.cut(plan).unwrap(), 10)));
    let used = scenario.check(&emulator, &mut Numbers(8));
    assert!(used.as_ref().is_ok_and(|used| *used > 0), "{used:?}");
}

/// Special kernels and interpreters take turns, on every rank at different times.
fn check_special(
    (name, placement): (&str, Placement),
    protocol: Protocol,
    (data_type, reduction): (DataType, Reduction),
    known: Known,
    (ranks, count, instances, offset): (u32, usize, u32, Option<usize>),
) {
    let verified = named(name, ranks, placement);
    let algorithms = std::slice::from_ref(&verified);
    let (in_place, offers) = (placement == Placement::InPlace, &[Offers::Off; 5]);
    let usual = Scenario::USUAL;
    let scenario = Scenario {
        algorithms,
        protocol,
        data_type,
        reduction,
        count,
        instances,
        in_place,
        offset,
        offers,
        ..usual
    };
    let plans = Plan::all(&verified).unwrap();
    let of_ranks: Vec<_> =
        plans.iter().map(|plan| (plan, scenario.launched(plan, ranks))).collect();
    let mut text = specialised::source(protocol, data_type, known, &of_ranks);
    let kernels: Vec<_> = (0..plans.len()).map(specialised::kernel).collect();
    text += &format!("void (*const SPECIAL[])(msccl_launch) = {{{}}};\n", kernels.join(", "));
    let call = format!("{reduction} of {count} {data_type}");
    let what = format!("{name} {placement:?} {protocol}, {ranks} ranks, {call}");
    let folder = format!("{name} {protocol} {ranks} {call}").replace(['/', ' '], "_");
    let kernels = Kernels::Special { protocol, data_type, text };
    let Some(emulator) = compile(&folder, &kernels) else { return };
    for seed in 0..5 {
        let used = scenario.check(&emulator, &mut Numbers(seed));
        assert!(used.as_ref().is_ok_and(|used| *used > 0), "{what}: {used:?}");
    }
}

#[test]
fn special_kernels_do_what_interpreters_do() {
    use Placement::{InPlace, OutOfPlace};
    use Protocol::{Ll, Ll128, Simple};
    const SUM: (DataType, Reduction) = (DataType::I32, Reduction::Sum);
    let call = Known::Call { threads: THREADS as u32 };
    check_special(("allreduce/one_step", InPlace), Ll, SUM, call, (3, 205, 2, None));
    check_special(("allreduce/one_block", InPlace), Ll, SUM, Known::Plan, (2, 300, 1, None));
    check_special(("allreduce/two_shot", InPlace), Simple, SUM, call, (3, 1003, 2, None));
    // Their steps run as one.
    check_special(("allreduce/two_shot_block", InPlace), Ll, SUM, Known::Plan, (4, 611, 2, None));
    check_special(("allreduce/two_shot_block", InPlace), Simple, SUM, call, (4, 1204, 2, Some(4)));
    check_special(("alltoall/bruck", OutOfPlace), Ll, SUM, Known::Plan, (4, 96, 2, None));
    check_special(("allgather/bruck", OutOfPlace), Simple, SUM, Known::Plan, (3, 33, 1, None));
    check_special(("allreduce/two_shot", InPlace), Ll128, SUM, call, (2, 401, 1, None));
    // Aligned, with ends that are not.
    check_special(("allreduce/one_shot", OutOfPlace), Ll, SUM, Known::Plan, (2, 403, 3, Some(0)));
    check_special(("allgather/bruck", OutOfPlace), Simple, SUM, Known::Plan, (3, 1003, 1, Some(0)));
}

#[test]
fn special_kernels_average_as_interpreters_do() {
    use Placement::{InPlace, OutOfPlace};
    use Protocol::{Ll, Ll128, Simple};
    let call = Known::Call { threads: THREADS as u32 };
    let mean = |data_type| (data_type, Reduction::Avg);
    let (f16, f32) = (mean(DataType::F16), mean(DataType::F32));
    check_special(("allreduce/one_step", InPlace), Ll, f16, call, (3, 205, 2, None));
    check_special(("allreduce/two_shot", InPlace), Simple, f32, call, (3, 1003, 2, None));
    check_special(("allreduce/ring", OutOfPlace), Simple, f16, Known::Plan, (3, 999, 1, None));
    check_special(("allreduce/two_shot", InPlace), Ll128, f32, Known::Plan, (2, 401, 1, None));
    let integers = mean(DataType::I32);
    check_special(("allreduce/ring", OutOfPlace), Ll, integers, Known::Plan, (3, 333, 1, None));
}

const FLOATS: [DataType; 6] = [
    DataType::F16,
    DataType::Bf16,
    DataType::F32,
    DataType::F64,
    DataType::F8E4M3,
    DataType::F8E5M2,
];

/// Averages under `protocol`: of every example, of every type of floats, in turn; and of what lies anywhere.
fn check_averages(protocol: Protocol, kernels: &Kernels) {
    let name = format!("averages {}", type_name(protocol));
    let Some(emulator) = compile_for(&name, kernels, Elements::Floats) else { return };
    let numbers = &mut Numbers(9);
    let (mut runs, mut raw) = (0, 0);
    for (at, case) in cases(protocol).enumerate() {
        let algorithms = std::slice::from_ref(&case.verified);
        let plans = Plan::all(&case.verified).unwrap();
        let averages = plans.iter().all(|plan| plan.program().average.is_some());
        if !averages || !case.verified.algorithm().collective.reduces() {
            continue;
        }
        // A line of LL128 holds less than half of the chunks of some.
        let few = if protocol == Protocol::Ll128 { LARGE_SLOT_BYTES } else { SLOT_BYTES };
        // Large calls take several rounds, and crews.
        let count = [case.count(61, 48), case.count(1205, 1200)][at / 6 % 2];
        let scenario = Scenario {
            algorithms,
            protocol,
            data_type: FLOATS[at % FLOATS.len()],
            reduction: Reduction::Avg,
            slot_bytes: if at % 2 == 0 { few } else { LARGE_SLOT_BYTES },
            count,
            instances: 1 + numbers.below(2) as u32,
            in_place: case.in_place,
            offset: [None, Some(0)][at % 5 % 2],
            offers: if protocol == SIMPLE { &SEQUENCE } else { &[Offers::Off; 3] },
            failure: 0,
        };
        let used = scenario.check(&emulator, numbers);
        assert!(used.is_ok(), "{} of {}: {used:?}", case.what, scenario.data_type);
        runs += 1;
        raw += usize::from(plans.iter().all(|plan| plan.program().averages(DataType::F32)));
    }
    assert!(runs > 20 && raw == runs, "{raw} of {runs} know where contributions are raw");
}

#[test]
fn averages_of_floats_are_those_of_the_host() {
    check_averages(Protocol::Simple, &Kernels::Plain);
}

#[test]
fn averages_of_floats_are_those_of_the_host_in_small_packets() {
    check_averages(Protocol::Ll, &Kernels::Packets(Protocol::Ll));
}

#[test]
fn averages_of_floats_are_those_of_the_host_in_large_packets() {
    check_averages(Protocol::Ll128, &Kernels::Packets(Protocol::Ll128));
}

#[test]
fn averages_of_integers_are_those_of_the_host() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(10);
    for ranks in [2, 3, 4] {
        for data_type in [DataType::I8, DataType::U8, DataType::I32, DataType::U64] {
            let algorithms = ["allreduce/ring", "reducescatter/direct", "allreduce/one_step"]
                .map(|name| named(name, ranks, Placement::OutOfPlace));
            let (algorithms, reduction) = (&algorithms, Reduction::Avg);
            let usual = Scenario { algorithms, reduction, data_type, ..Scenario::USUAL };
            let scenario = Scenario { offers: &[Offers::Off; 3], ..usual };
            let used = scenario.check(emulator, numbers);
            assert!(used.is_ok(), "{data_type} on {ranks} ranks: {used:?}");
        }
    }
}
