//! Buffers that begin and end anywhere, and programs that check loads, stores and moves themselves.

use msccl_collective::{DataType, Placement, Protocol};
use msccl_testkit::{Numbers, share};

use crate::cases::named;
use crate::emulator::{Kernels, Recording, check_program, compile, type_name};
use crate::scenario::{LARGE_SLOT_BYTES, Offers, Scenario};

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

/// One of so many of the cases is run every day. It divides neither the types nor the shapes, so
/// that all of both are run.
const SHARE: usize = 3;

/// Under `protocol`: buffers anywhere, aligned, or all off by as much, of blocks that neither
/// words, packets nor chunks divide, and of others.
fn check_unaligned(protocol: Protocol, kernels: &Kernels) {
    let name = format!("unaligned {}", type_name(protocol));
    let Some(emulator) = compile(&name, kernels) else { return };
    let numbers = &mut Numbers(5);
    for (name, placement) in MOVES {
        for ranks in [2, 5] {
            let verified = named(name, ranks, placement);
            let all = SIZES.iter().flat_map(|data_type| shapes(*data_type));
            for (data_type, (count, instances, offset)) in share(all, SHARE) {
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

/// Counts, instances and where buffers begin, of elements of a type.
fn shapes(data_type: DataType) -> impl Iterator<Item = (DataType, (usize, u32, Option<usize>))> {
    let four = data_type.size_bytes().max(4);
    let shapes =
        [(29, 1, None), (997, 2, None), (4099, 1, None), (1022, 2, Some(0)), (1027, 3, Some(four))];
    shapes.into_iter().map(move |shape| (data_type, shape))
}

#[test]
fn unaligned_operands_move_as_others_do() {
    check_unaligned(Protocol::Simple, &Kernels::Plain);
}

#[test]
fn unaligned_operands_move_in_small_packets() {
    check_unaligned(Protocol::Ll, &Kernels::Packets(Protocol::Ll));
}

#[test]
fn unaligned_operands_move_in_large_packets() {
    check_unaligned(Protocol::Ll128, &Kernels::Packets(Protocol::Ll128));
}

#[test]
fn loads_and_stores_touch_what_exists_and_nothing_else() {
    check_program("memory", &Kernels::Memory, Recording::Off);
}

#[test]
fn chunks_of_any_length_move_between_any_addresses() {
    check_program("moves", &Kernels::Moves, Recording::Off);
}

#[test]
fn contributions_are_combined_in_the_order_of_ranks() {
    check_program("combine", &Kernels::Combine, Recording::Off);
}

#[test]
fn transfers_bring_all_bytes_in_bulk_or_not() {
    check_program("exchange", &Kernels::Exchange, Recording::Off);
}
