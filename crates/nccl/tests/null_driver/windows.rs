//! Buffers in windows: what calls ask of the driver about them.

use msccl_gpu::DeviceBuffer;

use super::null_driver::{self, World};
use super::{DIRECT, counted, stream};

/// The caller vouches for the memory of a window, so nothing is asked of it while it is open.
#[test]
fn a_buffer_in_an_open_window_is_not_looked_up() {
    if !null_driver::has(&DIRECT, "windows::a_buffer_in_an_open_window_is_not_looked_up") {
        return;
    }
    const PAGE_BYTES: usize = 4096;
    let bytes = 4 * null_driver::ELEMENTS;
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let memory = DeviceBuffer::zeroed(rank.context, bytes + 2 * PAGE_BYTES).unwrap();
    let start = memory.ptr().0.next_multiple_of(PAGE_BYTES as u64) - memory.ptr().0;
    let start = memory.ptr().offset(start as usize);
    let looked_up = |offset_bytes| {
        let call = || {
            let stream = stream.borrow().as_raw();
            rank.all_reduce_at(start.offset(offset_bytes), null_driver::ELEMENTS, stream);
        };
        call();
        let counted = counted(call);
        assert_eq!(counted.allocations, 0);
        assert_eq!(counted.driver.get("cuLaunchKernelEx"), Some(&1), "{counted:?}");
        counted.driver.get("cuPointerGetAttribute").copied()
    };
    assert_eq!(looked_up(0), Some(1));
    let window = rank.open_window(start, bytes);
    assert_eq!(looked_up(0), None);
    // It ends behind the window.
    assert_eq!(looked_up(4), Some(1));
    rank.close_window(window);
    assert_eq!(looked_up(0), Some(1));
}
