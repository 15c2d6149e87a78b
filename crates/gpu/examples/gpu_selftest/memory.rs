//! Checks of devices, contexts and memory. A door for `unsafe`: kernels run here.

#![expect(unsafe_code, reason = "launches kernels")]

use std::error::Error;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Instant;

use msccl_gpu::{
    CuResult, DeviceBuffer, DevicePtr, DeviceSpan, Event, Launch, MemoryKind, PinnedBuffer,
    RegisteredMemory, Stream, StreamRef, VmmAllocation, VmmMapping,
};

use crate::{Bench, Check, Outcome, fine, kernel, same};

pub const CHECKS: &[Check] = &[
    ("device", device),
    ("context entered and left", entered_and_left),
    ("device memory", device_memory),
    ("errors of allocation", errors_of_allocation),
    ("pointer info", pointer_info),
    ("pinned memory", pinned_memory),
    ("registered memory", registered_memory),
    ("virtual memory", virtual_memory),
    ("set-up beside a waiting kernel", beside_a_waiting_kernel),
    ("nothing leaks", nothing_leaks),
];

fn device(bench: &Bench) -> Outcome {
    let device = bench.context.device();
    same("device 0 again", bench.driver.device(0)?.uuid()?, device.uuid()?)?;
    let missing = bench.driver.device(bench.driver.device_count());
    same("a device too many", missing.err().and_then(|e| e.code()), Some(CuResult(101)))?;
    let capability = device.compute_capability()?;
    Ok(format!(
        "{} sm_{}{} at {}, {} multiprocessors, {} MiB, {} KiB shared, cooperative {}, fd {}, {} \
         kHz",
        device.name()?,
        capability.major,
        capability.minor,
        device.pci_bus_id()?,
        device.multiprocessors()?,
        device.memory_bytes()? >> 20,
        device.max_shared_bytes_per_block()? >> 10,
        device.supports_cooperative_launch()?,
        device.supports_memory_descriptors()?,
        device.clock_rate_khz()?,
    ))
}

fn entered_and_left(bench: &Bench) -> Outcome {
    let device = bench.context.device();
    same("context is active", device.has_active_context()?, true)?;
    same("current before", bench.driver.current_device()?, None)?;
    {
        let _outer = bench.context.enter()?;
        same("current inside", bench.driver.current_device()?, Some(device))?;
        if let Some(peer) = &bench.peer {
            let _inner = peer.enter()?;
            same("current in the peer", bench.driver.current_device()?, Some(peer.device()))?;
        }
        let _again = bench.context.enter()?;
        same("current inside again", bench.driver.current_device()?, Some(device))?;
    }
    same("current after", bench.driver.current_device()?, None)?;
    let (least, greatest) = bench.context.stream_priorities()?;
    Ok(format!("stream priorities {least} to {greatest}"))
}

/// Writes a pattern, reads it back, fills and reads again.
fn write_and_read(span: DeviceSpan<'_>) -> Result<(), Box<dyn Error>> {
    let pattern: Vec<u8> = (0..span.length_bytes()).map(|i| (i * 7 % 251) as u8).collect();
    let mut found = vec![0; pattern.len()];
    span.write(&pattern)?;
    span.read(&mut found)?;
    same("bytes written", found == pattern, true)?;
    span.slice(3..5)?.fill(0xee)?;
    span.read(&mut found)?;
    same("bytes around the filled ones", &found[2..6], &[14, 0xee, 0xee, 35])
}

fn device_memory(bench: &Bench) -> Outcome {
    let buffer = DeviceBuffer::zeroed(&bench.context, 100_001)?;
    same("alignment", buffer.ptr().0 % 256, 0)?;
    let mut bytes = vec![1; 100_001];
    buffer.span().read(&mut bytes)?;
    same("zeros", bytes.iter().all(|byte| *byte == 0), true)?;
    write_and_read(buffer.span())?;
    let nothing = buffer.span().slice(7..7)?;
    nothing.write(&[])?;
    nothing.read(&mut [])?;
    nothing.fill(1)?;
    let range = bench.context.address_range(buffer.ptr().offset(50_000))?;
    same("base of the range", range.base, buffer.ptr())?;
    same("length of the range", range.length_bytes, 100_001)?;
    fine()
}

fn errors_of_allocation(bench: &Bench) -> Outcome {
    let huge = DeviceBuffer::new(&bench.context, 1 << 50).err().ok_or("a PiB was given")?;
    same("code for a PiB", huge.code(), Some(CuResult::OUT_OF_MEMORY))?;
    let empty = DeviceBuffer::new(&bench.context, 0).err().ok_or("0 bytes were given")?;
    same("code for nothing", empty.code(), Some(CuResult::INVALID_VALUE))?;
    Ok(huge.to_string())
}

fn pointer_info(bench: &Bench) -> Outcome {
    let info = |address| bench.driver.pointer_info(address);
    let device = DeviceBuffer::new(&bench.context, 64)?;
    let found = info(device.ptr())?.ok_or("device memory is unknown")?;
    same("device memory", (found.kind, found.device), (MemoryKind::Device, 0))?;
    same("device memory by IPC", (found.legacy_ipc, found.descriptor), (true, false))?;

    let pinned = PinnedBuffer::new(&bench.context, 64)?;
    let found = info(pinned.ptr())?.ok_or("pinned memory is unknown")?;
    same("pinned memory", found.kind, MemoryKind::Host)?;

    let virtual_memory = VmmAllocation::new(&bench.context, 64)?.map(&[bench.context.device()])?;
    let found = info(virtual_memory.ptr())?.ok_or("virtual memory is unknown")?;
    same("virtual memory", (found.kind, found.legacy_ipc), (MemoryKind::Device, false))?;
    same("virtual memory by descriptor", found.descriptor, true)?;

    let ordinary = Box::new(0_u64);
    let address = DevicePtr((&raw const *ordinary).addr() as u64);
    same("ordinary memory", info(address)?, None)?;
    same("null", info(DevicePtr(0))?, None)?;
    fine()
}

/// A kernel waits for the host's word and answers while it runs.
fn pinned_memory(bench: &Bench) -> Outcome {
    let pinned = PinnedBuffer::new(&bench.context, 4096)?;
    same("zeros", pinned.words64().iter().all(|word| word.load(Ordering::Relaxed) == 0), true)?;
    let same_address = pinned.ptr().0 == pinned.as_mut_ptr().addr() as u64;
    let stream = Stream::new(&bench.context)?;
    let answer = kernel::load(&bench.context, "answer")?;
    let [low, high] = kernel::halves(pinned.ptr());
    let [answer_low, answer_high] = kernel::halves(pinned.ptr().offset(128));
    let parameters = [low, high, answer_low, answer_high, kernel::POLLS, 0];
    let shape = Launch::linear(1, 1);
    // SAFETY: `pinned` outlives the stream's work, which is waited for.
    unsafe { kernel::launch(&answer, stream.borrow(), &shape, &parameters)? };
    same("idle while the kernel waits", stream.borrow().is_idle()?, false)?;
    pinned.words32()[0].store(41, Ordering::Release);
    stream.borrow().synchronize()?;
    same("idle afterwards", stream.borrow().is_idle()?, true)?;
    same("answer", pinned.words32()[32].load(Ordering::Acquire), 42)?;
    Ok(format!("same address for host and device: {same_address}"))
}

fn registered_memory(bench: &Bench) -> Outcome {
    let mut words = vec![5_u32; 4096].into_boxed_slice();
    let memory = NonNull::new(words.as_mut_ptr().cast::<u8>()).ok_or("null")?;
    // SAFETY: `words` outlives the registration and is not touched while the kernel runs.
    let registered = unsafe { RegisteredMemory::new(&bench.context, memory, 4 * 4096)? };
    let add = kernel::load(&bench.context, "add")?;
    let stream = Stream::new(&bench.context)?;
    kernel::add(&add, stream.borrow(), registered.ptr(), 3, 4096)?;
    stream.borrow().synchronize()?;
    drop(registered);
    same("words", words.iter().all(|word| *word == 8), true)?;
    fine()
}

/// Nothing that sets up memory may wait for a kernel of the legacy stream, since that kernel may
/// wait for what is being set up. Loading code does wait, so whoever shares a device loads all code
/// before any kernel waits.
fn beside_a_waiting_kernel(bench: &Bench) -> Outcome {
    let answer = kernel::load(&bench.context, "answer")?;
    let pinned = PinnedBuffer::new(&bench.context, 256)?;
    let stream = StreamRef::legacy(&bench.context);
    let [low, high] = kernel::halves(pinned.ptr());
    let [answer_low, answer_high] = kernel::halves(pinned.ptr().offset(128));
    let parameters = [low, high, answer_low, answer_high, kernel::POLLS, 0];
    // SAFETY: `pinned` outlives the stream's work, which is waited for.
    unsafe { kernel::launch(&answer, stream, &Launch::linear(1, 1), &parameters)? };

    let mut remarks = Vec::new();
    let mut note = |what: &str, begin: Instant| {
        let still_waiting = pinned.words32()[32].load(Ordering::Acquire) == 0;
        let verdict = if still_waiting { "" } else { " (IT WAITED)" };
        remarks.push(format!("{what} {:.0} us{verdict}", begin.elapsed().as_secs_f64() * 1e6));
    };
    let begin = Instant::now();
    let buffer = DeviceBuffer::zeroed(&bench.context, 1 << 20)?;
    buffer.span().write(&[1; 100])?;
    buffer.span().read(&mut [0; 100])?;
    note("buffer", begin);
    let begin = Instant::now();
    let mapping = VmmAllocation::new(&bench.context, 1)?.map(&[bench.context.device()])?;
    note("mapping", begin);
    let begin = Instant::now();
    let more_pinned = PinnedBuffer::new(&bench.context, 1 << 16)?;
    note("pinned", begin);
    let begin = Instant::now();
    let peered = bench.peer.as_ref().map(|peer| bench.context.enable_peer_access(peer));
    note("peer access", begin);

    pinned.words32()[0].store(41, Ordering::Release);
    stream.synchronize()?;
    peered.transpose()?;
    drop((buffer, mapping, more_pinned));
    let remarks = remarks.join(", ");
    same(&remarks, pinned.words32()[32].load(Ordering::Acquire), 42)?;
    Ok(remarks)
}

fn virtual_memory(bench: &Bench) -> Outcome {
    let device = bench.context.device();
    let granularity = device.vmm_granularity()?;
    let allocation = VmmAllocation::new(&bench.context, granularity + 1)?;
    same("length", allocation.length_bytes(), 2 * granularity)?;
    let first = allocation.map(&[device])?;
    write_and_read(first.span())?;
    first.span().write(b"once")?;

    let descriptor = allocation.export()?;
    let length_bytes = allocation.length_bytes();
    drop((first, allocation));
    use std::os::fd::AsFd;
    let imported = VmmAllocation::import(&bench.context, descriptor.as_fd(), length_bytes)?;
    drop(descriptor);
    let second = imported.map(&[device])?;
    let mut found = [0; 4];
    second.span().read(&mut found)?;
    same("bytes through the descriptor", &found, b"once")?;

    let retained = VmmAllocation::mapped_at(&bench.context, second.ptr(), length_bytes)?;
    drop((second, imported));
    let third = retained.map(&[device])?;
    third.span().read(&mut found)?;
    same("bytes through the address", &found, b"once")?;
    same("ids of their own", VmmMapping::have_ids(&bench.context)?, true)?;
    Ok(format!("granularity {granularity}"))
}

fn nothing_leaks(bench: &Bench) -> Outcome {
    let one_of_each = || {
        let context = &bench.context;
        let buffer = DeviceBuffer::zeroed(context, 4 << 20)?;
        let mapping = VmmAllocation::new(context, 4 << 20)?.map(&[context.device()])?;
        let pinned = PinnedBuffer::new(context, 1 << 16)?;
        let stream = Stream::new(context)?;
        let event = Event::ordering(context)?;
        event.record(stream.borrow())?;
        StreamRef::legacy(context).wait(&event)?;
        drop((buffer, mapping, pinned));
        Ok::<_, msccl_gpu::Error>(())
    };
    one_of_each()?;
    let (before, _) = bench.context.memory_info()?;
    (0..300).try_for_each(|_| one_of_each())?;
    let (after, _) = bench.context.memory_info()?;
    let lost = before.saturating_sub(after);
    if lost > 2 << 20 {
        return Err(format!("{lost} bytes of device memory are gone after 300 rounds").into());
    }
    Ok(format!("{lost} bytes fewer after 300 rounds"))
}
