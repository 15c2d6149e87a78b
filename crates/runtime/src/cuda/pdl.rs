//! Programmatic dependent launch (PDL): when the kernel of a call may begin while that of the call
//! before it still runs.
//!
//! A kernel that begins early waits for the end of the one before it, with its thread blocks on the
//! GPU. That hides what comes before its first load; but the two need room together, and while a
//! kernel waits for peers nobody may take the room that a kernel of another communicator needs, for
//! which those peers may wait. So all thread blocks of a communicator that are on the GPU at once
//! stay within its share of it ([`Capacity::blocks`](msccl_select::Capacity)), or what the user
//! leaves of that (`NCCL_MAX_CTAS`):
//!
//! * a kernel lets the next one begin as soon as the one before it has ended, so there are two at
//!   most, and only if its launch record says so
//!   ([`LAUNCH_LEAVES_ROOM`](msccl_plan::launch::LAUNCH_LEAVES_ROOM))
//!   that twice its blocks fit; any other does when it waits for nothing any more;
//! * a kernel begins early only if its blocks fit beside those of the one before it.
//!
//! What else may lie between the two in the stream does not matter: then the one before has ended
//! when that begins.

/// The thread blocks beside which those of the next call may have to wait.
#[derive(Default)]
pub(super) struct PdlBudget {
    running: u32,
}

impl PdlBudget {
    /// Whether twice `blocks` thread blocks fit into `room`.
    pub fn leaves_room(blocks: u32, room: u32) -> bool {
        2 * blocks <= room
    }

    /// Whether a kernel of `blocks` thread blocks may begin early; the next one may begin while it
    /// waits for peers if it `admits` that.
    pub fn admit(&mut self, blocks: u32, room: u32, admits: bool) -> bool {
        let fits = self.running + blocks <= room;
        self.running = if admits { blocks } else { 0 };
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_kernels_stay_within_the_room() {
        let mut pdl = PdlBudget::default();
        // Whatever ran before lets nobody begin while it waits.
        assert!(pdl.admit(60, 100, true));
        assert!(pdl.admit(40, 100, true));
        assert!(!pdl.admit(61, 100, false));
        assert!(pdl.admit(100, 100, true));
        assert!(!pdl.admit(1, 100, true));
        assert!(pdl.admit(1, 100, true));
    }

    #[test]
    fn the_next_kernel_is_thought_of_as_large_as_this() {
        assert!(PdlBudget::leaves_room(50, 100));
        assert!(!PdlBudget::leaves_room(51, 100));
    }
}
