//! Communicators whose ranks are threads of this process that join over the loopback, and calls on
//! them.

#![allow(dead_code)] // Not every test that shares this file uses all of it.

use std::thread;

use msccl_collective::{Collective, DataType, Kind, Rank, Reduction};
use msccl_fabric::{Abort, UniqueId};
use msccl_runtime::{
    Batch, Buffers, Call, Combine, Communicator, Error, Operation, Settings, reference, submit,
};

/// The pretended host of each rank; none is this one.
pub type Hosts = dyn Fn(u32) -> Option<String> + Sync;

/// Runs `act` on every rank of a new communicator, in threads of one host; what each returns.
pub fn world<T: Send>(
    ranks: u32,
    settings: &Settings,
    act: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    world_on(ranks, &|_| None, settings, act)
}

/// The same, on pretended hosts.
pub fn world_on<T: Send>(
    ranks: u32,
    host: &Hosts,
    settings: &Settings,
    act: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let id = UniqueId::create(&settings.fabric).unwrap();
    thread::scope(|scope| {
        let start = |rank: u32| {
            let (id, act) = (&id, &act);
            let mut settings = settings.clone();
            settings.fabric.abort = Abort::new();
            settings.fabric.host = host(rank);
            scope.spawn(move || {
                let ids = std::slice::from_ref(id);
                act(Communicator::join(ids, Rank(rank), ranks, &settings).unwrap())
            })
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub fn sum() -> Combine {
    Combine::Plain(Reduction::Sum)
}

/// A call over host memory.
pub fn call(
    operation: Operation,
    data_type: DataType,
    count: usize,
    send: *const u8,
    receive: *mut u8,
) -> Call {
    let (send, receive) = (send.expose_provenance() as u64, receive.expose_provenance() as u64);
    let buffers = Buffers { send, receive, stream: 0 };
    Call { operation, data_type, count: count as u64, buffers }
}

pub fn run(communicator: &Communicator, calls: &[Call]) -> Result<(), Error> {
    submit(&[Batch::new(communicator.clone(), calls)?])
}

/// Sums `count` numbers over all ranks: each contributes its rank, plus one.
pub fn all_reduce(communicator: &Communicator, count: usize) -> Result<Vec<i32>, Error> {
    let input = vec![communicator.rank().0 as i32 + 1; count];
    let mut output = vec![0; count];
    let (send, receive) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
    let operation = Operation::AllReduce(sum());
    run(communicator, &[call(operation, DataType::I32, count, send, receive)])?;
    Ok(output)
}

/// The operation for `kind`, and the reduction it stands for.
fn operation(kind: &Kind, reduction: Reduction) -> Operation {
    let combine = Combine::Plain(reduction);
    match *kind {
        Kind::AllReduce => Operation::AllReduce(combine),
        Kind::AllGather => Operation::AllGather,
        Kind::ReduceScatter => Operation::ReduceScatter(combine),
        Kind::AllToAll => Operation::AllToAll,
        Kind::Broadcast { root } => Operation::Broadcast(root),
        Kind::Reduce { root } => Operation::Reduce(root, combine),
        Kind::Gather { root } => Operation::Gather(root),
        Kind::Scatter { root } => Operation::Scatter(root),
        Kind::Custom(_) => unreachable!("no custom collective in this test"),
    }
}

fn kinds(ranks: u32) -> Vec<Kind> {
    let root = Rank(ranks - 1);
    vec![
        Kind::AllReduce,
        Kind::AllGather,
        Kind::ReduceScatter,
        Kind::AllToAll,
        Kind::Broadcast { root },
        Kind::Reduce { root },
        Kind::Gather { root: Rank(0) },
        Kind::Scatter { root },
    ]
}

/// Every collective with `count` elements a block gives what it promises on these hosts, in and out
/// of place.
pub fn check_on(ranks: u32, host: &Hosts, data_type: DataType, reduction: Reduction, count: usize) {
    let placements: [&Placements; 2] = [&|_| false, &|_| true];
    let of = Elements { data_type, reduction, count };
    check_placed(ranks, host, &Settings::default(), of, &placements, &|_| true);
}

/// Whether a rank calls in place.
pub type Placements = dyn Fn(Rank) -> bool + Sync;

/// What calls are about.
#[derive(Clone, Copy)]
pub struct Elements {
    pub data_type: DataType,
    pub reduction: Reduction,
    /// Of a block.
    pub count: usize,
}

/// Every collective whose name is `chosen` gives what it promises, in each of `placements`.
pub fn check_placed(
    ranks: u32,
    host: &Hosts,
    settings: &Settings,
    elements: Elements,
    placements: &[&Placements],
    chosen: &dyn Fn(&str) -> bool,
) {
    let Elements { data_type, reduction, count } = elements;
    let case = |kind: Kind| {
        let collective = Collective { kind, ranks, chunks: 1 };
        let inputs = reference::inputs(&collective, data_type, reduction, count, 7);
        let expected = reference::expected(&collective, data_type, reduction, count, &inputs);
        (collective, inputs, expected)
    };
    let cases = kinds(ranks).into_iter().map(case);
    let cases: Vec<_> = cases.filter(|(collective, ..)| chosen(collective.name())).collect();
    assert!(!cases.is_empty(), "no collective is chosen");
    world_on(ranks, host, settings, |communicator| {
        let rank = communicator.rank();
        for (collective, inputs, expected) in &cases {
            for in_place in placements {
                let input = &inputs[rank.index()];
                let output = match in_place(rank) {
                    true => within(&communicator, collective, elements, input),
                    false => apart(&communicator, collective, elements, input),
                };
                let size = data_type.size_bytes();
                let place = format!("{} in place: {}", collective.name(), in_place(rank));
                compare(expected, rank, size, &output, &place);
            }
        }
    });
}

/// The output of a call out of place, which leaves its input as it is.
fn apart(
    communicator: &Communicator,
    collective: &Collective,
    Elements { data_type, reduction, count }: Elements,
    input: &[u8],
) -> Vec<u8> {
    let operation = operation(&collective.kind, reduction);
    let blocks = collective.output_chunks(communicator.rank()) as usize;
    let mut output = vec![0xa5_u8; blocks * count * data_type.size_bytes()];
    let before = input.to_vec();
    let apart = call(operation, data_type, count, before.as_ptr(), output.as_mut_ptr());
    run(communicator, &[apart]).unwrap();
    assert!(before == input, "{} has changed its input", collective.name());
    output
}

/// The output of a call in place.
fn within(
    communicator: &Communicator,
    collective: &Collective,
    Elements { data_type, reduction, count }: Elements,
    input: &[u8],
) -> Vec<u8> {
    let (rank, block) = (communicator.rank(), count * data_type.size_bytes());
    let output_bytes = collective.output_chunks(rank) as usize * block;
    let own = rank.index() * block;
    let mut both = vec![0xa5_u8; output_bytes.max(input.len())];
    // Where each lies within the buffer that holds both.
    let (send, receive) = match collective.kind {
        Kind::AllGather | Kind::Gather { .. } if output_bytes > 0 => (own, 0),
        Kind::ReduceScatter | Kind::Scatter { .. } if !input.is_empty() => (0, own),
        _ => (0, 0),
    };
    both[send..send + input.len()].copy_from_slice(input);
    let start = both.as_mut_ptr();
    let (from, to) = (start.wrapping_add(send), start.wrapping_add(receive));
    let operation = operation(&collective.kind, reduction);
    run(communicator, &[call(operation, data_type, count, from, to)]).unwrap();
    both.split_off(receive)
}

fn compare(expected: &[reference::Promised], rank: Rank, size: usize, output: &[u8], place: &str) {
    for part in expected.iter().filter(|part| part.rank == rank) {
        let start = part.start * size;
        let found = &output[start..start + part.bytes.len()];
        assert!(found == &*part.bytes, "{rank} {place}: wrong from element {}", part.start);
    }
}
