//! A GPU without free memory: communicators are refused with a reason, and can be made once there
//! is room.

use msccl_collective::CollectiveKind;
use msccl_gpu::{Context, DeviceBuffer};

use super::{Bench, Section};
use crate::Trouble;
use crate::case::Case;
use crate::machine::Machine;
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "exhausted",
    about: "without free memory a communicator is refused on all ranks; afterwards it can be made",
    run,
};

/// What is left free, in bytes: less than the wires of one rank take.
const LEFT_BYTES: usize = 32 << 20;

fn run(bench: &Bench, tally: &mut Tally) {
    let Machine::Gpus(gpus) = &bench.machine else {
        return tally.skip("memory is exhausted on GPUs only");
    };
    // So that what is loaded once per process is there.
    let first = || bench.world(&settings())?.run(&Case::of(CollectiveKind::AllReduce), "");
    tally.check(|| "a world before".to_owned(), first);
    let Some(hoard) = tally.need(|| "all memory".to_owned(), || hoard(&gpus[0])) else { return };
    tally.check(|| "a world without memory".to_owned(), || refused(bench));
    drop(hoard);
    tally.check(|| "a world afterwards".to_owned(), first);
}

/// Almost all memory of a GPU.
fn hoard(gpu: &Context) -> Result<Vec<DeviceBuffer>, Trouble> {
    let mut hoard = Vec::new();
    let mut bytes = gpu.memory_info()?.0;
    while bytes > LEFT_BYTES / 2 {
        let left = gpu.memory_info()?.0.saturating_sub(LEFT_BYTES);
        match DeviceBuffer::new(gpu, bytes.min(left).max(1)) {
            Ok(buffer) => hoard.push(buffer),
            Err(_) => bytes /= 2,
        }
        if left < LEFT_BYTES {
            break;
        }
    }
    Ok(hoard)
}

fn refused(bench: &Bench) -> Result<(), Trouble> {
    let Err(error) = bench.world(&settings()) else {
        return Err("a communicator was made although there was no memory".into());
    };
    let text = error.to_string();
    let says_why = text.to_lowercase().contains("memory");
    if says_why { Ok(()) } else { Err(format!("the reason says nothing of memory: {text}").into()) }
}
