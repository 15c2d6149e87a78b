//! Memory of GPUs as network cards would be given it: dma-bufs of allocations and of virtual
//! memory.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

use msccl_gpu::{Context, DeviceBuffer, DeviceSpan, VmmAllocation};

use super::{Bench, Section};
use crate::Trouble;
use crate::machine::Machine;
use crate::tally::Tally;

/// The section.
pub const SECTION: Section = Section {
    name: "dmabuf",
    about: "memory of a GPU exported for network cards, as far as that goes without one",
    run,
};

const BYTES: usize = 4 << 20;

fn run(bench: &Bench, tally: &mut Tally) {
    let Machine::Gpus(gpus) = &bench.machine else {
        return tally.skip("only GPUs have memory of their own");
    };
    let gpu = &gpus[0];
    match gpu.device().supports_dmabuf() {
        Ok(true) => {}
        Ok(false) => return tally.skip("the driver says that this GPU has no dma-bufs"),
        Err(error) => return tally.skip(format!("the driver cannot say: {error}")),
    }
    tally.check(|| "an allocation".to_owned(), || of_allocation(gpu));
    tally.check(|| "virtual memory".to_owned(), || of_virtual_memory(gpu));
    tally.check(|| "a part that is no page".to_owned(), || of_no_page(gpu));
}

fn of_allocation(gpu: &Context) -> Result<(), Trouble> {
    let memory = DeviceBuffer::zeroed(gpu, BYTES)?;
    is_dmabuf(memory.span())
}

fn of_virtual_memory(gpu: &Context) -> Result<(), Trouble> {
    let mapping = VmmAllocation::new(gpu, BYTES)?.map(&[gpu.device()])?;
    is_dmabuf(mapping.span())
}

fn of_no_page(gpu: &Context) -> Result<(), Trouble> {
    let memory = DeviceBuffer::zeroed(gpu, BYTES)?;
    match memory.span().slice(16..80)?.export_dmabuf() {
        Ok(_) => Err("the driver exported 64 bytes".into()),
        Err(_) => Ok(()),
    }
}

/// What the kernel says of the descriptor of `span`.
fn is_dmabuf(span: DeviceSpan<'_>) -> Result<(), Trouble> {
    let descriptor = span.export_dmabuf()?;
    let (link, size) = (link(&descriptor)?, size(&descriptor)?);
    match link.contains("dmabuf") && size == span.length_bytes() as u64 {
        true => Ok(()),
        false => Err(format!("{link} has {size} bytes, expected {}", span.length_bytes()).into()),
    }
}

fn link(descriptor: &OwnedFd) -> Result<String, Trouble> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    Ok(fs::read_link(path)?.to_string_lossy().into_owned())
}

fn size(descriptor: &OwnedFd) -> Result<u64, Trouble> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd()))?;
    let size = text.lines().find_map(|line| line.strip_prefix("size:"));
    Ok(size.ok_or("the kernel shows no size")?.trim().parse()?)
}
