//! Averages of every type on 1 to 16 ranks, of the largest and the smallest numbers and others:
//! every built-in algorithm and loaded ones, on host threads, against the mean formed in wide
//! numbers.
//!
//! Integers must be the sum, wrapped, divided toward zero. Floats may be off by what is rounded on
//! the way. With `p` digits, `u = 2^-p`, `n` ranks and `S` the mean of magnitudes: the factor, one
//! over `n`, is rounded once (`u` of it) and each product once (`u` of it), and a sum of `n` takes
//! at most `n - 1` roundings of partial sums, none of them larger than `S` but for earlier
//! roundings. So the result is off by at most `(n + 1) u S` and terms in `u²`; and, as products of
//! small numbers are rounded to multiples of the least one, by half of that for each.

#[path = "../../../crates/runtime/tests/world/mod.rs"]
mod world;

use std::sync::Arc;

use msccl_collective::{
    CallPlacement, Collective, CollectiveKind, DataType, Kind, Placement, Rank, Reduction,
};
use msccl_interchange::json;
use msccl_ir::{Algorithm, Target};
use msccl_registry::{File, Registry, Shape};
use msccl_runtime::oracle::{Executor, OracleCall, Workers};
use msccl_runtime::{Combine, Event, EventLog, Operation, Scalar, Settings};
use msccl_testkit::by_hand::{StepExt, algorithm, i, o, r, step, t, tb};
use msccl_tests::example::examples;
use msccl_verify::{Verified, verify};

/// How a type of floats lies in memory.
#[derive(Clone, Copy)]
struct Format {
    mantissa_bits: u32,
    exponent_bits: u32,
    /// The bits of the largest finite number.
    largest: u64,
}

fn format(data_type: DataType) -> Option<Format> {
    let (mantissa_bits, exponent_bits, largest) = match data_type {
        DataType::I8
        | DataType::U8
        | DataType::I32
        | DataType::U32
        | DataType::I64
        | DataType::U64 => return None,
        DataType::F16 => (10, 5, 0x7bff),
        DataType::Bf16 => (7, 8, 0x7f7f),
        DataType::F32 => (23, 8, 0x7f7f_ffff),
        DataType::F64 => (52, 11, 0x7fef_ffff_ffff_ffff),
        DataType::F8E4M3 => (3, 4, 0x7e),
        DataType::F8E5M2 => (2, 5, 0x7b),
    };
    Some(Format { mantissa_bits, exponent_bits, largest })
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The least positive number.
    fn least(self) -> f64 {
        2_f64.powi(1 - self.bias() - self.mantissa_bits as i32)
    }

    fn sign(self) -> u64 {
        1 << (self.mantissa_bits + self.exponent_bits)
    }

    /// The number with these bits; infinite or no number where the format has none.
    fn number(self, bits: u64) -> f64 {
        let magnitude = bits & (self.sign() - 1);
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let value = if magnitude > self.largest {
            let is_infinite = self.largest + 1 == magnitude;
            if is_infinite { f64::INFINITY } else { f64::NAN }
        } else if exponent == 0 {
            mantissa as f64 * self.least()
        } else {
            let digits = (1_u64 << self.mantissa_bits | mantissa) as f64;
            // In two steps: the power alone may be too small.
            let power = exponent - self.bias() - self.mantissa_bits as i32;
            digits * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2)
        };
        if bits & self.sign() == 0 { value } else { -value }
    }

    /// What `found` may be away from the mean of `numbers`, and whether it is no further.
    fn check(self, numbers: &[f64], found: f64) -> Result<(), String> {
        let n = numbers.len() as f64;
        // The sum of large ones is formed as if they were smaller by a power of two, which is
        // exact.
        let (down, up) = (2_f64.powi(-8), 2_f64.powi(8));
        let mean =
            |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * down).sum::<f64>() / n;
        let (expected, size) =
            (mean(&mut numbers.iter().copied()), mean(&mut numbers.iter().map(|x| x.abs())));
        let u = 2_f64.powi(-(self.mantissa_bits as i32 + 1));
        // The mean is rounded as often where it is formed in the type itself, and wide sums of
        // narrower types in f32.
        let own = if self.mantissa_bits == 52 { n * u } else { n * 2_f64.powi(-24) };
        let off = (((n + 1.0) * u + own) * size) * (1.0 + 2.0 * n * u) + n * self.least() * down;
        let largest = self.number(self.largest) * down;
        // From here on numbers round to infinity.
        let overflow = largest * (1.0 + u / (2.0 - 2.0 * u));
        let is_near = if found.is_infinite() {
            expected.abs() + off >= overflow && found.signum() == expected.signum()
        } else {
            (found * down - expected).abs() <= off
        };
        if is_near {
            return Ok(());
        }
        let (expected, off) = (expected * up, off * up);
        Err(format!("expected {expected:e} within {off:e}, found {found:e}"))
    }
}

fn bits_of(element: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..element.len()].copy_from_slice(element);
    u64::from_le_bytes(bytes)
}

fn integer(data_type: DataType, element: &[u8]) -> i128 {
    let bits = bits_of(element);
    match data_type {
        DataType::I8 => i128::from(bits as i8),
        DataType::I32 => i128::from(bits as i32),
        DataType::I64 => i128::from(bits as i64),
        _ => i128::from(bits),
    }
}

/// Whether `found` is the average of `elements`.
fn check_element(data_type: DataType, elements: &[&[u8]], found: &[u8]) -> Result<(), String> {
    if let Some(format) = format(data_type) {
        let numbers: Vec<_> = elements.iter().map(|of| format.number(bits_of(of))).collect();
        let found = format.number(bits_of(found));
        return format.check(&numbers, found).map_err(|why| format!("{why} of {numbers:?}"));
    }
    let sum = elements.iter().fold(0_i128, |sum, of| sum.wrapping_add(integer(data_type, of)));
    let wrapped = integer(data_type, &(sum as u64).to_le_bytes()[..data_type.size_bytes()]);
    let (expected, found) = (wrapped / elements.len() as i128, integer(data_type, found));
    if expected == found { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
}

fn mix(seed: u64) -> u64 {
    let value = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value ^ value >> 32
}

/// Element `at` of what `rank` contributes: by turns the same for all ranks, the largest with one
/// sign and with another, the least, any finite ones.
fn element(data_type: DataType, rank: u32, at: usize) -> u64 {
    let random = mix(u64::from(rank) << 32 | at as u64);
    let (largest, sign, one) = match format(data_type) {
        Some(format) => (format.largest, format.sign(), 1),
        None => {
            let bits = 8 * data_type.size_bytes() as u32;
            let signed = matches!(data_type, DataType::I8 | DataType::I32 | DataType::I64);
            let all = u64::MAX >> (64 - bits);
            (if signed { all >> 1 } else { all }, 1 << (bits - 1), 1)
        }
    };
    let signed = |magnitude: u64, negative: bool| magnitude | if negative { sign } else { 0 };
    let finite =
        |random: u64| signed(random % (largest + u64::from(largest < u64::MAX)), random >> 63 == 1);
    match at % 8 {
        0 => largest,
        1 => signed(largest, true),
        2 => one,
        3 => signed(largest, rank % 2 == 1),
        4 => finite(mix(at as u64)),
        5 if rank == 0 => largest,
        5 => one,
        _ => finite(random),
    }
}

fn input(data_type: DataType, rank: u32, elements: usize) -> Vec<u8> {
    let element = |at| element(data_type, rank, at).to_le_bytes();
    let size = data_type.size_bytes();
    (0..elements).flat_map(|at| element(at).into_iter().take(size)).collect()
}

/// Whether `output` of `rank` holds the averages of `inputs`, and has any.
fn check_output(
    kind: &Kind,
    data_type: DataType,
    rank: u32,
    inputs: &[Vec<u8>],
    output: &[u8],
) -> Result<(), String> {
    let first = match kind {
        Kind::ReduceScatter => rank as usize * output.len(),
        Kind::Reduce { root } if *root != Rank(rank) => return Ok(()),
        _ => 0,
    };
    let size = data_type.size_bytes();
    assert!(!output.is_empty());
    for (at, found) in output.chunks_exact(size).enumerate() {
        let place = first + at * size..first + (at + 1) * size;
        let elements: Vec<_> = inputs.iter().map(|input| &input[place.clone()]).collect();
        check_element(data_type, &elements, found)
            .map_err(|why| format!("element {at} of {data_type} of r{rank}: {why}"))?;
    }
    Ok(())
}

/// How often averages could be formed on the way.
#[derive(Default, Debug)]
struct Served {
    algorithms: usize,
    floats: usize,
    integers: usize,
}

/// Has `verified` average every type, in every placement it serves.
fn check_algorithm(name: &str, verified: &Verified, served: &mut Served) {
    let Algorithm { collective, placement, .. } = verified.algorithm();
    let executor = Executor::new(verified).unwrap();
    let Collective { kind, ranks, chunks } = collective;
    let count = *chunks as usize * 24_usize.div_ceil(*chunks as usize);
    let count = if verified.facts().serves_any_count { count + 1 } else { count };
    let placements =
        [(false, placement.serves_out_of_place()), (true, placement.serves_in_place())];
    for data_type in DataType::ALL {
        let blocks = if *kind == Kind::ReduceScatter { *ranks as usize } else { 1 };
        let inputs: Vec<_> =
            (0..*ranks).map(|rank| input(data_type, rank, blocks * count)).collect();
        for (in_place, _) in placements.into_iter().filter(|(_, serves)| *serves) {
            let report = executor.run(&OracleCall {
                data_type,
                reduction: Reduction::Avg,
                count,
                in_place,
                inputs: inputs.clone(),
                workers: Workers::Exactly(1),
                timeout: None,
            });
            let outputs = report.unwrap_or_else(|why| panic!("{name}: {why}")).outputs;
            for (rank, output) in (0..).zip(&outputs) {
                let checked = check_output(kind, data_type, rank, &inputs, output);
                let place = if in_place { "in place" } else { "out of place" };
                checked.unwrap_or_else(|why| panic!("{name} on {ranks} ranks {place}: {why}"));
            }
        }
    }
    served.algorithms += 1;
    served.floats += usize::from(verified.facts().raw.is_some());
    served.integers += usize::from(verified.facts().completion.is_some());
}

#[test]
fn every_built_in_averages_every_type() {
    let mut served = Served::default();
    for ranks in 2..=16 {
        let registry = Registry::new(Shape { ranks, per_node: ranks }, &[]);
        for wanted in [
            CollectiveKind::AllReduce,
            CollectiveKind::ReduceScatter,
            CollectiveKind::Reduce(Rank(ranks / 2)),
        ] {
            for in_place in [false, true] {
                for entry in
                    registry.built_in(wanted, CallPlacement::from_in_place(in_place)).iter()
                {
                    check_algorithm(&entry.name, &entry.verified, &mut served);
                }
            }
        }
    }
    println!("{served:?}");
    assert!(served.algorithms > 200 && served.floats == served.algorithms, "{served:?}");
}

#[test]
fn every_example_averages_every_type() {
    let mut served = Served::default();
    for example in examples() {
        for launch in example.launches.iter().filter(|of| of.ranks.is_some_and(|of| of <= 8)) {
            let Ok(compiled) = example.compile(launch, &Target::native()) else { continue };
            let algorithm = compiled.schedule.algorithm;
            let sums = [Kind::AllReduce, Kind::ReduceScatter].contains(&algorithm.collective.kind)
                || matches!(algorithm.collective.kind, Kind::Reduce { .. });
            if sums {
                let verified = verify(algorithm, &Target::native()).unwrap();
                check_algorithm(&example.name, &verified, &mut served);
            }
        }
    }
    println!("{served:?}");
    assert!(served.algorithms > 50 && served.floats == served.algorithms, "{served:?}");
}

/// An all-reduce in which one step adds contributions in its first chunk and a sum in its second,
/// and completes the sum of one of them alone.
fn mixed() -> Verified {
    let ranks = vec![
        vec![tb(0, vec![step(&[i(0)], &[r(1)]).times(2), step(&[r(2)], &[o(0)]).times(2)])],
        vec![tb(
            0,
            vec![
                step(&[r(0)], &[t(0)]).times(2),
                step(&[t(0), i(0)], &[t(0)]),
                step(&[t(0)], &[r(2)]).times(2),
                step(&[i(1)], &[r(2)]),
                step(&[r(2)], &[o(0)]).times(2),
            ],
        )],
        vec![tb(
            0,
            vec![
                step(&[r(1), i(0)], &[o(0)]).times(2),
                step(&[r(1), o(1)], &[o(1)]),
                step(&[o(0)], &[r(0), r(1)]).times(2),
            ],
        )],
    ];
    let mixed = algorithm(Kind::AllReduce, 2, ranks);
    let mixed = Algorithm { placement: Placement::Both, ..mixed };
    verify(mixed, &Target::native()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[test]
fn an_algorithm_that_says_of_no_step_where_averages_too() {
    let mut served = Served::default();
    check_algorithm("mixed", &mixed(), &mut served);
    assert_eq!((served.floats, served.integers), (0, 0));
}

/// What every rank gets that calls for an average with `count` elements a block, in place or not;
/// `combine` says how for a type.
fn call(
    ranks: u32,
    settings: &Settings,
    kind: &Kind,
    (data_type, count, in_place): (DataType, usize, bool),
    combine: &(dyn Fn(DataType) -> Combine + Sync),
) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let scatters = *kind == Kind::ReduceScatter;
    let blocks = if scatters { ranks as usize } else { 1 };
    let inputs: Vec<_> = (0..ranks).map(|rank| input(data_type, rank, blocks * count)).collect();
    let outputs = world::world(ranks, settings, |communicator| {
        let rank = communicator.rank();
        let combine = combine(data_type);
        let operation = match *kind {
            Kind::ReduceScatter => Operation::ReduceScatter(combine),
            Kind::Reduce { root } => Operation::Reduce(root, combine),
            _ => Operation::AllReduce(combine),
        };
        let mut send = inputs[rank.index()].clone();
        let bytes = count * data_type.size_bytes();
        let mut output = vec![0xa5; bytes];
        let own = if scatters { rank.index() * bytes } else { 0 };
        let to = if in_place { send[own..].as_mut_ptr() } else { output.as_mut_ptr() };
        let call = world::call(operation, data_type, count, send.as_ptr(), to);
        world::run(&communicator, &[call]).unwrap();
        if in_place { send[own..own + bytes].to_vec() } else { output }
    });
    (inputs, outputs)
}

fn average(_: DataType) -> Combine {
    Combine::Plain(Reduction::Avg)
}

fn check_calls(ranks: u32, settings: &Settings) {
    for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::Reduce { root: Rank(ranks - 1) }] {
        for (at, data_type) in DataType::ALL.into_iter().enumerate() {
            let in_place = (at + ranks as usize).is_multiple_of(2);
            let (inputs, outputs) =
                call(ranks, settings, &kind, (data_type, 41, in_place), &average);
            for (rank, output) in (0..).zip(&outputs) {
                let checked = check_output(&kind, data_type, rank, &inputs, output);
                checked.unwrap_or_else(|why| panic!("{kind:?} on {ranks} ranks: {why}"));
            }
        }
    }
}

#[test]
fn communicators_of_up_to_sixteen_ranks_average() {
    for ranks in [1, 2, 3, 5, 7, 8, 13, 16] {
        check_calls(ranks, &Settings::default());
    }
}

#[test]
fn calls_average_by_a_loaded_algorithm_that_says_of_no_step_where() {
    let content = json::write(mixed().algorithm());
    let file = File { name: "mixed.json".to_owned(), content: Ok(content.into_bytes()) };
    let event_log = Arc::new(EventLog::default());
    let settings = Settings { files: vec![file], log: event_log.clone(), ..Settings::default() };
    check_calls(3, &settings);
    let serves = |event: &Event| match event {
        Event::Serves { call, by } => Some(format!("{call}: {by}")),
        _ => None,
    };
    let told = event_log.collect(serves);
    let sums = told.iter().filter(|line| line.contains("mixed") && line.contains("sum"));
    assert!(sums.count() > 0, "{told:#?}");
}

/// An average of floats is the scaled sum by one over the number of ranks, bit for bit.
#[test]
fn averages_of_floats_are_scaled_sums() {
    let factors = [
        (DataType::F16, 0x3555),
        (DataType::Bf16, 0x3eab),
        (DataType::F32, 0x3eaa_aaab),
        (DataType::F64, 0x3fd5_5555_5555_5555),
        (DataType::F8E4M3, 0x2b),
        (DataType::F8E5M2, 0x35),
    ];
    for (data_type, third) in factors {
        let scaled = move |_| Combine::Scaled(Scalar::Immediate(third));
        let settings = Settings::default();
        let shape = (data_type, 100, false);
        let (_, sums) = call(3, &settings, &Kind::AllReduce, shape, &scaled);
        let (_, averages) = call(3, &settings, &Kind::AllReduce, shape, &average);
        assert_eq!(averages, sums, "{data_type}");
    }
}

/// What was reported of averages that divide after they have added.
#[test]
fn averages_of_large_numbers_are_large_numbers() {
    let check = |ranks: u32, data_type, bits: u64, expected: u64| {
        let size = DataType::size_bytes(data_type);
        let outputs = world::world(ranks, &Settings::default(), |communicator| {
            let input = bits.to_le_bytes();
            let mut output = [0_u8; 8];
            let operation = Operation::AllReduce(average(data_type));
            let (from, to) = (input.as_ptr(), output.as_mut_ptr());
            world::run(&communicator, &[world::call(operation, data_type, 1, from, to)]).unwrap();
            bits_of(&output[..size])
        });
        assert_eq!(outputs, vec![expected; ranks as usize], "{data_type} on {ranks} ranks");
    };
    check(3, DataType::F16, 0x7b53, 0x7b53);
    check(4, DataType::F16, 0x7b53, 0x7b53);
    check(3, DataType::F8E4M3, 0x7e, 0x7e);
    check(7, DataType::F8E4M3, 0x7e, 0x7e);
    check(4, DataType::F64, 0x7fef_ffff_ffff_ffff, 0x7fef_ffff_ffff_ffff);
}
