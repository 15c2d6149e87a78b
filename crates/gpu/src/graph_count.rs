//! Counting the graphs that recorded something, as long as they live. A door for `unsafe`.
//!
//! What a recorded kernel uses must outlive every graph that may run it. The driver says when a
//! graph and all that was instantiated from it are gone, from a thread on which no driver call may
//! be made; so all that happens there is that a counter goes down, and whoever owns the resources
//! waits for zero.

#![expect(unsafe_code, reason = "gives the driver an object and a function that ends it")]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys;

use crate::calls::Calls;
use crate::error::Error;
use crate::handle::Out;
use crate::stream::StreamRef;

impl StreamRef<'_> {
    /// Counts the graph that this stream is recording: `counter` goes up by one now, and down by
    /// one when the graph and everything instantiated from it are gone. That may be some time after
    /// they were destroyed.
    ///
    /// Fails if the stream is not recording.
    pub fn count_graph(self, counter: &Arc<AtomicUsize>) -> Result<(), Error> {
        let _entered = self.context().enter()?;
        let calls = self.context().calls();
        let (mut status, mut id, mut graph) = (0, 0, Out::empty());
        calls.capture_info(self.handle(), &mut status, &mut id, Some(&mut graph), None, None)?;
        if graph.address() == 0 {
            return Err(Error::NoHandle { requested: "the graph being recorded" });
        }
        let object = counted_object(calls, counter)?;
        /// The graph takes over the reference that we have.
        const MOVE: u32 = sys::CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE as u32;
        // SAFETY: the graph is alive while the stream records it; the object was made above, and
        // the one reference to it is given away, here or there.
        unsafe {
            let kept = calls.graph_retain_user_object(graph.handle(), object.handle(), 1, MOVE);
            if kept.is_err() {
                let _ = calls.user_object_release(object.handle(), 1);
            }
            kept
        }
    }
}

/// An object of the driver's whose end counts `counter`, counted up here, down again.
fn counted_object(
    calls: &Calls,
    counter: &Arc<AtomicUsize>,
) -> Result<Out<sys::CUuserObject_st>, Error> {
    /// Nobody waits for the destructor, which is the only choice that the driver offers.
    const NO_DESTRUCTOR_SYNC: u32 =
        sys::CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC as u32;
    counter.fetch_add(1, Ordering::AcqRel);
    let data = Arc::into_raw(Arc::clone(counter)).cast_mut().cast::<c_void>();
    let mut object = Out::empty();
    // SAFETY: `data` is a reference of its own, which `count_down` takes back once.
    let made =
        unsafe { calls.user_object_create(&mut object, data, count_down, 1, NO_DESTRUCTOR_SYNC) };
    if let Err(error) = made {
        // SAFETY: the driver did not take the reference.
        unsafe { count_down(data) };
        return Err(error);
    }
    Ok(object)
}

/// Counts down the counter that `data` is a reference to, and gives the reference back.
unsafe extern "C" fn count_down(data: *mut c_void) {
    // SAFETY: made by `Arc::into_raw` in `counted_object` and passed here once.
    let counter = unsafe { Arc::from_raw(data.cast::<AtomicUsize>().cast_const()) };
    counter.fetch_sub(1, Ordering::AcqRel);
}
