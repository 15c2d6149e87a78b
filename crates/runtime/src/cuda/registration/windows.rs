//! Memory that a rank shows its peers as a window: each finds it by what the exporting rank has
//! said of it, where it has mapped the allocation itself.

use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;

use super::export::MemoryClass;
use super::export_table::ExportTable;
use super::open_windows::OpenWindowGuard;
use super::{BufferPlace, ExportedBuffers, POLL, Registration};
use crate::engine::{ShownExport, ShownMemory};
use crate::error::{Error, ErrorKind};

/// Marks what ranks say of windows, together with the number of the window.
const TAG: u64 = u64::from_be_bytes(*b"win\0\0\0\0\0");

/// How long the thread that maps may take for an allocation.
const MAPPED_WITHIN: Duration = Duration::from_secs(10);

/// What a rank says of a window: in which entry of its table the memory is, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Description {
    entry: u64,
    generation: u64,
    offset: u64,
    /// Zero, if it shows none that peers can map.
    bytes: u64,
    /// Whether it is virtual memory, as a number.
    is_segment: u64,
}

impl Description {
    const NOTHING: Self = Self { entry: 0, generation: 0, offset: 0, bytes: 0, is_segment: 0 };

    /// The allocation that it names.
    fn export(&self) -> ShownExport {
        let Self { entry, generation, offset: _, bytes: _, is_segment } = *self;
        ShownExport { entry: entry as u32, generation, is_detachable: is_segment != 0 }
    }

    fn to_bytes(self) -> Vec<u8> {
        let Self { entry, generation, offset, bytes, is_segment } = self;
        let words = [entry, generation, offset, bytes, is_segment];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: &[_; 5] = words.try_into().ok()?;
        let [entry, generation, offset, bytes, is_segment] = words.map(u64::from_le_bytes);
        Some(Self { entry, generation, offset, bytes, is_segment })
    }
}

impl Registration {
    /// Shows `memory`, if any, as window `number`; never waits for peers. While the guard lives,
    /// calls find buffers in it without asking the driver.
    pub fn show(
        &self,
        number: u64,
        memory: Option<ShownMemory>,
    ) -> Result<Option<OpenWindowGuard>, Error> {
        self.importer();
        let exported =
            memory.map(|of| ExportedBuffers { address: of.address, length_bytes: of.bytes });
        let [place, _] = self.look_up([exported, None]);
        let (description, guard) = match (place, exported) {
            (BufferPlace::At(entry, offset), Some(memory)) => {
                let description = Description {
                    entry: entry.number.into(),
                    generation: entry.generation,
                    offset,
                    bytes: memory.length_bytes,
                    is_segment: u64::from(entry.kind == MemoryClass::Segment),
                };
                self.shared.exports().windows.open(number, memory, entry);
                let export = description.export();
                let guard = OpenWindowGuard::new(&self.shared, number, memory.address, export);
                (description, Some(guard))
            }
            (BufferPlace::At(..) | BufferPlace::Nowhere | BufferPlace::Unneeded, _) => {
                (Description::NOTHING, None)
            }
        };
        let (group, said) = (&self.shared.group, description.to_bytes());
        let send = |peer: &super::Neighbour| group.send(peer.rank, TAG + number, &said);
        self.shared.peers.iter().try_for_each(send)?;
        Ok(guard)
    }

    /// Where this rank finds what `peer` shows as window `number`, when it does.
    pub fn find_shown(&self, peer: Rank, number: u64) -> Result<ShownMemory, Error> {
        self.importer();
        let said = self.shared.group.receive(peer, TAG + number)?;
        let description = Description::from_bytes(&said).ok_or_else(|| {
            Error::new(ErrorKind::Remote, format!("what {peer} says of its window is too short"))
        })?;
        let Description { offset, bytes, .. } = description;
        let export = description.export();
        let neighbour = self.shared.peers.iter().find(|of| of.rank == peer);
        let unmappable = || {
            let why = "its memory cannot be mapped by other GPUs";
            Error::invalid_usage(format!("the window of {peer} is out of reach: {why}"))
        };
        let neighbour = neighbour.filter(|_| bytes > 0).ok_or_else(unmappable)?;
        self.wake();
        match self.await_answer(&neighbour.export_table, export, self.shared.me)? {
            0 => Err(unmappable()),
            base => Ok(ShownMemory { address: base + offset, bytes, export: Some(export) }),
        }
    }

    /// Whether every rank has mapped what every other one shows; `shown` has that by rank. Waits
    /// until all have said so, or one that it cannot: what is said stays, so all ranks that ask get
    /// the same answer.
    pub fn all_have_mapped(&self, shown: &[ShownMemory]) -> Result<bool, Error> {
        let shared = &self.shared;
        for (owner, of) in (0..).map(Rank).zip(shown) {
            let neighbour = shared.peers.iter().find(|peer| peer.rank == owner);
            let table = neighbour.map_or(&shared.own, |peer| &peer.export_table);
            let Some(export) = of.export else { return Ok(false) };
            let peers = (0..shown.len() as u32).map(Rank).filter(|peer| *peer != owner);
            for peer in peers {
                if self.await_answer(table, export, peer)? == 0 {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Where `peer` has mapped an allocation of the owner of `table`; 0 if it cannot.
    fn await_answer(
        &self,
        table: &ExportTable,
        export: ShownExport,
        peer: Rank,
    ) -> Result<u64, Error> {
        let ShownExport { entry, generation, is_detachable: _ } = export;
        let since = Instant::now();
        loop {
            if let Some(base) = table.answer(entry, peer, generation) {
                return Ok(base);
            }
            if let Some(reason) = self.shared.group.abort().reason() {
                return Err(Error::new(ErrorKind::Aborted, reason));
            }
            if since.elapsed() > MAPPED_WITHIN {
                let text = format!("{peer} has not mapped a window within {MAPPED_WITHIN:?}");
                return Err(Error::new(ErrorKind::TimedOut, text));
            }
            thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_travel() {
        let description =
            Description { entry: 1, generation: 3, offset: 512, bytes: 4096, is_segment: 1 };
        assert_eq!(Description::from_bytes(&description.to_bytes()), Some(description));
        assert_eq!(Description::from_bytes(&description.to_bytes()[8..]), None);
    }
}
