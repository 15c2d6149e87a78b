//! Communicators that give up their memory, and get it back at the same addresses.

use super::null_driver::{self, World};
use super::{COUNTS, EAGER, check, stream};

/// What of the driver has to do with virtual memory.
const VIRTUAL: [&str; 5] =
    ["cuMemAddressReserve", "cuMemAddressFree", "cuMemMap", "cuMemUnmap", "cuMemCreate"];

/// What this thread asks of it; the tasks of the last rank run in this thread.
fn calls_of(body: impl FnOnce()) -> [u64; 5] {
    null_driver::calls_in(VIRTUAL, body)
}

#[test]
fn wires_are_unmapped_and_mapped_again_where_they_were() {
    const RANKS: u64 = 3;
    let world = World::new(RANKS as u32);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    COUNTS.iter().for_each(|&count| rank.all_reduce(count, &stream));
    let [freed, suspended, kept, all] = [0, 1, 2, 3].map(|figure| rank.memory(figure));
    assert!(freed >= 2 << 20 && suspended == 0 && all == freed + kept, "{freed} {kept} {all}");
    // An arena of each rank.
    assert_eq!(calls_of(|| world.suspend_all()), [0, 0, 0, RANKS, 0]);
    assert_eq!([0, 1, 2, 3].map(|figure| rank.memory(figure)), [freed, 1, kept, all]);
    assert_eq!(calls_of(|| world.resume_all()), [0, 0, RANKS, 0, 1]);
    assert_eq!(rank.memory(1), 0);
    // Calls cost what they cost before.
    COUNTS.iter().for_each(|&count| rank.all_reduce(count, &stream));
    for count in COUNTS {
        check(|| rank.all_reduce(count, &stream), &EAGER);
    }
}
