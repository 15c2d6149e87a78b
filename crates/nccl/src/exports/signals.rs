//! What the next collective does about blocks of its output (`include/msccl.h`).

use crate::abi::{Address, CommHandle};
use crate::comm::handles;
use crate::fault::Fault;

const SIGNAL_BLOCKS: &str = "CommSignalBlocks";
const OMIT_OWN_BLOCK: &str = "CommOmitOwnBlock";

/// How the words are aligned, in bytes.
const ALIGNMENT_BYTES: usize = 4;

exported! {
    /// The next collective sets a word for each block of its output when the block is there.
    fn mscclCommSignalBlocks | pmscclCommSignalBlocks(comm: CommHandle, signals: Address) {
        let communicator = handles::find_ready(comm, SIGNAL_BLOCKS)?.communicator;
        if !signals.is_multiple_of(ALIGNMENT_BYTES) {
            let expected = format!("expected a multiple of {ALIGNMENT_BYTES} bytes");
            let text = format!("{SIGNAL_BLOCKS} : {expected}, found {signals:#x}");
            return Err(Fault::argument(text));
        }
        communicator.signal_blocks(signals as u64)?;
        Ok(())
    }

    /// The next collective need not bring the block of its output that comes from this rank.
    fn mscclCommOmitOwnBlock | pmscclCommOmitOwnBlock(comm: CommHandle) {
        handles::find_ready(comm, OMIT_OWN_BLOCK)?.communicator.omit_own_block();
        Ok(())
    }
}
