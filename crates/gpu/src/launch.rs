//! Launching kernels. A door for `unsafe`.

#![expect(unsafe_code, reason = "launches kernels with parameters by address")]

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudarc::driver::sys::{self, CUlaunchAttributeID as Id};

use crate::error::Error;
use crate::event::Event;
use crate::module::Function;
use crate::stream::{EnteredStream, StreamRef};

/// The shape of a launch.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// How many blocks there are, in each direction.
    pub grid: [u32; 3],
    /// How many threads a block has, in each direction.
    pub block: [u32; 3],
    /// How much dynamic shared memory each block gets.
    pub dynamic_shared_bytes: u32,
    /// Whether all blocks must run at once: the driver then refuses
    /// ([`COOPERATIVE_LAUNCH_TOO_LARGE`](crate::CuResult::COOPERATIVE_LAUNCH_TOO_LARGE)) a grid
    /// that cannot, and starts one that can only when there is room for all of it.
    pub cooperative: bool,
    /// How many neighbouring blocks form a cluster, in each direction, if they do.
    pub cluster: Option<[u32; 3]>,
    /// Whether the kernel's writes are fenced apart from those of other kernels, so that its
    /// system-wide fences do not wait for them. For kernels that talk to other devices beside
    /// kernels that compute; needs compute capability 9.0 to have an effect.
    pub own_memory_domain: bool,
    /// Whether the kernel may start before the one before it in its stream has ended: when that one
    /// has let it, or all its blocks are done. It must then wait for that end itself, with
    /// `griddepcontrol.wait`, before it touches what others may. Needs compute capability 9.0.
    pub uses_pdl: bool,
    /// The point to mark when all blocks have begun, of the [ordering](Event::ordering) kind; as
    /// the driver promises no more than its best, that may be when they are done. New in CUDA 12.3.
    pub begun: Option<&'a Event>,
}

impl Launch<'_> {
    /// `blocks` blocks of `threads` threads, and nothing special.
    pub fn linear(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            dynamic_shared_bytes: 0,
            cooperative: false,
            cluster: None,
            own_memory_domain: false,
            uses_pdl: false,
            begun: None,
        }
    }

    /// The attributes that say what the shape's numbers do not.
    #[inline]
    fn attributes(&self, attributes: &mut Attributes) {
        if self.cooperative {
            attributes.push(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
        }
        if let Some([x, y, z]) = self.cluster {
            let dimension = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
            attributes.push(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim = dimension;
        }
        if self.own_memory_domain {
            const REMOTE: sys::CUlaunchMemSyncDomain =
                sys::CUlaunchMemSyncDomain::CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
            attributes.push(Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN).memSyncDomain = REMOTE;
        }
        if self.uses_pdl {
            let id = Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            attributes.push(id).programmaticStreamSerializationAllowed = 1;
        }
        if let Some(event) = self.begun {
            let event = event.handle().raw();
            let completion = sys::CUlaunchAttributeValue_union__bindgen_ty_3 { event, flags: 0 };
            let id = Id::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
            attributes.push(id).launchCompletionEvent = completion;
        }
    }
}

/// The attributes of a launch. Every call makes some, so only those that count are written.
struct Attributes {
    list: [MaybeUninit<sys::CUlaunchAttribute>; 5],
    count: usize,
}

impl Attributes {
    fn none() -> Self {
        Self { list: [const { MaybeUninit::uninit() }; 5], count: 0 }
    }

    /// The value of a further attribute `id`, all zeros.
    #[inline]
    fn push(&mut self, id: Id) -> &mut sys::CUlaunchAttributeValue {
        let value = sys::CUlaunchAttributeValue { pad: [0; 64] };
        let place = &mut self.list[self.count];
        self.count += 1;
        &mut place.write(sys::CUlaunchAttribute { id, pad: [0; 4], value }).value
    }
}

/// Marks in the list by which a launch passes all parameters as one block of bytes.
const END: usize = sys::CU_LAUNCH_PARAM_END_AS_INT as usize;
const BUFFER: usize = sys::CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT as usize;
const BUFFER_SIZE: usize = sys::CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT as usize;

impl Function {
    /// Runs the kernel when `stream` gets there. `parameters` are the bytes of its parameters as C
    /// lays them out in one structure, copied before this returns.
    ///
    /// # Safety
    ///
    /// `parameters` are what the kernel declares; whatever memory the kernel reaches through them
    /// stays valid, and is used by nobody in conflict, until it is done, and again whenever a graph
    /// that captured the launch runs. The module stays loaded as long.
    pub unsafe fn launch(
        &self,
        stream: StreamRef<'_>,
        launch: &Launch<'_>,
        parameters: &[u8],
    ) -> Result<(), Error> {
        // SAFETY: promised by the caller.
        stream.entered(|stream| unsafe { self.launch_in(stream, launch, parameters) })
    }

    /// As [`Function::launch`], in a stream whose context is entered.
    ///
    /// # Safety
    ///
    /// As for [`Function::launch`].
    pub unsafe fn launch_in(
        &self,
        stream: EnteredStream<'_>,
        launch: &Launch<'_>,
        parameters: &[u8],
    ) -> Result<(), Error> {
        let mut attributes = Attributes::none();
        launch.attributes(&mut attributes);
        let config = sys::CUlaunchConfig {
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.block[0],
            blockDimY: launch.block[1],
            blockDimZ: launch.block[2],
            sharedMemBytes: launch.dynamic_shared_bytes,
            hStream: stream.handle().raw(),
            attrs: attributes.list.as_mut_ptr().cast(),
            numAttrs: attributes.count as u32,
        };
        let mut bytes = parameters.len();
        let mut list: [*mut c_void; 5] = [
            std::ptr::without_provenance_mut(BUFFER),
            parameters.as_ptr().cast_mut().cast(),
            std::ptr::without_provenance_mut(BUFFER_SIZE),
            (&raw mut bytes).cast(),
            std::ptr::without_provenance_mut(END),
        ];
        let nothing = std::ptr::null_mut();
        // SAFETY: the driver copies everything it is given before it returns; the rest is promised
        // by the caller.
        unsafe { stream.calls().launch(&config, self.handle(), nothing, list.as_mut_ptr()) }
    }
}
