//! The windows of this rank that are open, so that buffers inside them need no question to the
//! driver.
//!
//! Whoever opens a window vouches that its memory lives until the window is closed. So the id of
//! the allocation around it is all the time the one under which peers have mapped it, which is what
//! the question would find out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use super::export::Export;
use super::{ExportedBuffers, RegistrationShared};
use crate::engine::{ShownExport, WindowGuard};

/// By where they begin, and their number.
#[derive(Default)]
pub(super) struct OpenWindows(BTreeMap<(u64, u64), OpenWindow>);

/// Memory of an open window.
#[derive(Clone, Copy)]
struct OpenWindow {
    memory: ExportedBuffers,
    /// The allocation in which all of it lies.
    entry: Export,
}

impl OpenWindows {
    /// Window `number` shows `memory`, which lies in the allocation of `entry`.
    pub fn open(&mut self, number: u64, memory: ExportedBuffers, entry: Export) {
        self.0.insert((memory.address, number), OpenWindow { memory, entry });
    }

    /// Window `number`, which begins at `address`, is open no more.
    pub fn close(&mut self, number: u64, address: u64) {
        self.0.remove(&(address, number));
    }

    /// What is in the allocation of number `entry` is known no more: its memory is gone.
    pub fn forget(&mut self, entry: u32) {
        self.0.retain(|_, window| window.entry.number != entry);
    }

    /// The allocation of `buffers`, and how far into it they begin, if they lie in an open window.
    /// Of windows that overlap the last one that begins before them is looked at; others are found
    /// by asking the driver.
    pub fn find(&self, buffers: ExportedBuffers) -> Option<(Export, u64)> {
        let (_, window) = self.0.range(..=(buffers.address, u64::MAX)).next_back()?;
        let OpenWindow { memory, entry } = *window;
        let into = buffers.address.checked_sub(memory.address)?;
        let end = into.checked_add(buffers.length_bytes)?;
        let offset = entry.offset(buffers)?;
        (end <= memory.length_bytes).then_some((entry, offset))
    }
}

/// Keeps a window open.
pub(in crate::cuda) struct OpenWindowGuard {
    /// Windows may outlive their communicator.
    shared: Weak<RegistrationShared>,
    number: u64,
    address: u64,
    export: ShownExport,
}

impl OpenWindowGuard {
    /// Of window `number` at `address`, whose memory lies in the allocation of `export`.
    pub(super) fn new(
        shared: &Arc<RegistrationShared>,
        number: u64,
        address: u64,
        export: ShownExport,
    ) -> Self {
        Self { shared: Arc::downgrade(shared), number, address, export }
    }
}

impl fmt::Debug for OpenWindowGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared: _, number, address, export } = self;
        write!(f, "window {number} at {address:#x} ({export:?})")
    }
}

impl WindowGuard for OpenWindowGuard {
    fn export(&self) -> Option<ShownExport> {
        Some(self.export)
    }
}

impl Drop for OpenWindowGuard {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.exports().windows.close(self.number, self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::export::MemoryClass;
    use super::*;

    fn entry(number: u32) -> Export {
        let (kind, since) = (MemoryClass::Plain, Instant::now());
        Export { number, generation: 1, base: 4096, length_bytes: 4096, kind, since }
    }

    /// The entry and the offset of `length_bytes` at `address`.
    fn found(windows: &OpenWindows, address: u64, length_bytes: u64) -> Option<(u32, u64)> {
        let found = windows.find(ExportedBuffers { address, length_bytes });
        found.map(|(entry, offset)| (entry.number, offset))
    }

    #[test]
    fn buffers_lie_wholly_in_a_window() {
        let mut windows = OpenWindows::default();
        windows.open(1, ExportedBuffers { address: 5000, length_bytes: 100 }, entry(7));
        assert_eq!(found(&windows, 5000, 100), Some((7, 904)));
        assert_eq!(found(&windows, 5040, 60), Some((7, 944)));
        for (address, length_bytes) in [(4999, 10), (5040, 61), (5101, 0), (5040, u64::MAX)] {
            assert_eq!(found(&windows, address, length_bytes), None, "{address} {length_bytes}");
        }
    }

    #[test]
    fn windows_are_closed_one_by_one_and_by_their_memory() {
        let mut windows = OpenWindows::default();
        let memory = ExportedBuffers { address: 5000, length_bytes: 100 };
        let shorter = ExportedBuffers { length_bytes: 10, ..memory };
        windows.open(1, memory, entry(7));
        windows.open(2, shorter, entry(7));
        // The last of both is looked at.
        assert_eq!(found(&windows, 5000, 20), None);
        windows.close(2, 5000);
        assert_eq!(found(&windows, 5000, 20), Some((7, 904)));
        windows.forget(6);
        assert_eq!(found(&windows, 5000, 20), Some((7, 904)));
        windows.forget(7);
        assert_eq!(found(&windows, 5000, 20), None);
    }
}
