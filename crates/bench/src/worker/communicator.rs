//! One rank's communicator of the library that is measured. An unsafe boundary.
//!
//! Calls are given [`Region`]s, whose memory is valid for good and whose lengths are checked here,
//! so that whatever a library of the NCCL interface does with them stays inside.

#![expect(unsafe_code, reason = "calls functions of the library under test")]

use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::ptr;

use super::call::Call;
use super::device::{Device, Region};
use super::library::{Comm, Functions, UniqueId, int};
use crate::case::Case;
use crate::element::{ElementType, Redop, mulsum_exponent};
use crate::error::Error;
use crate::placement::Placement;
use crate::protocol::Offer;
use crate::registration::Registration;
use crate::workload::Blocks;

/// Bytes for the names of all candidates of a library: thousands of them.
const CHOICES_BYTES: usize = 1 << 20;

/// An open library.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    functions: &'static Functions,
}

/// The arguments of a question about calls, as the library takes them.
struct CallArguments {
    collective: CString,
    in_place: c_int,
    element: c_int,
    redop: c_int,
    root: c_int,
    count: usize,
}

impl CallArguments {
    fn new(case: &Case, placement: Placement) -> Result<Self, Error> {
        Ok(Self {
            collective: c_text(case.workload.name())?,
            in_place: c_int::from(placement == Placement::InPlace),
            element: case.element.code(),
            redop: case.redop.code().unwrap_or(0),
            root: int(case.root)?,
            count: usize::try_from(case.count).unwrap_or(usize::MAX),
        })
    }
}

/// A communicator, destroyed by [`Communicator::destroy`] alone.
pub(crate) struct Communicator {
    functions: &'static Functions,
    comm: Comm,
    rank: u32,
    device: Device,
    registered: Vec<Registered>,
}

/// What a library has given for a registered buffer.
enum Registered {
    Buffer(*mut c_void),
    Window(*mut c_void),
}

/// A reduction that may have been made for a communicator.
#[derive(Clone, Copy)]
pub(crate) struct MadeRedop {
    code: c_int,
    is_made: bool,
}

impl Library {
    /// Opens the library at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { functions: Functions::open(path)? })
    }

    /// Its version as one number, such as 22809.
    pub(crate) fn version(self) -> Result<i32, Error> {
        let mut version = 0;
        // SAFETY: the place to write is borrowed.
        unsafe { self.functions.get_version(&mut version)? };
        Ok(version)
    }

    /// Whether it says what serves calls.
    pub(crate) fn reports_what_serves(self) -> bool {
        self.functions.has_choices()
    }

    /// A new token by which ranks find one another.
    pub(crate) fn unique_id(self) -> Result<UniqueId, Error> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: the place to write is borrowed.
        unsafe { self.functions.get_unique_id(&mut id)? };
        Ok(id)
    }

    /// `length_bytes` zeros of the library's own making on `device`, which is current; valid for
    /// good.
    pub(crate) fn allocate(self, device: Device, length_bytes: usize) -> Result<Region, Error> {
        let mut memory = ptr::null_mut();
        // SAFETY: the place to write is borrowed.
        unsafe { self.functions.memory_alloc(&mut memory, length_bytes)? };
        if memory.is_null() {
            return Err(Error::new("ncclMemAlloc reported success and gave no memory"));
        }
        // SAFETY: the library has just given so many bytes, to be used on this device, and they are
        // never given back.
        let region = unsafe { device.adopt(memory, length_bytes) };
        region.fill(0)?;
        Ok(region)
    }

    /// Joins the ranks that have `id`.
    pub(crate) fn join(
        self,
        id: UniqueId,
        rank: u32,
        ranks: u32,
        device: Device,
    ) -> Result<Communicator, Error> {
        let mut comm = ptr::null_mut();
        // SAFETY: the place to write is borrowed.
        unsafe { self.functions.init_rank(&mut comm, int(ranks)?, id, int(rank)?)? };
        let registered = Vec::new();
        Ok(Communicator { functions: self.functions, comm, rank, device, registered })
    }
}

impl Communicator {
    /// This rank.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// The reduction, made for this communicator if it is not one of the standard ones.
    pub(crate) fn redop(&self, redop: Redop, element: ElementType) -> Result<MadeRedop, Error> {
        /// The scalar lies in host memory and is read at once.
        const HOST_IMMEDIATE: c_int = 1;
        if let Some(code) = redop.code() {
            return Ok(MadeRedop { code, is_made: false });
        }
        let scalar = element.power_of_two(mulsum_exponent(self.rank)).to_le_bytes();
        let mut code = 0;
        let (scalar, kind) = (scalar.as_ptr().cast(), element.code());
        // SAFETY: the scalar has eight bytes, as many as any type needs, and is read at once.
        unsafe {
            self.functions.create_mulsum(&mut code, scalar, kind, HOST_IMMEDIATE, self.comm)?
        };
        Ok(MadeRedop { code, is_made: true })
    }

    /// Gives back what [`Communicator::redop`] made.
    pub(crate) fn release(&self, redop: MadeRedop) -> Result<(), Error> {
        if !redop.is_made {
            return Ok(());
        }
        // SAFETY: the communicator is alive.
        unsafe { self.functions.destroy_redop(redop.code, self.comm) }
    }

    /// Fails if the communicator has.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut code = 0;
        // SAFETY: the communicator is alive, the place to write is borrowed.
        unsafe { self.functions.async_error(self.comm, &mut code)? };
        self.functions.check("the communicator", code)
    }

    /// Makes the call that `case` describes, in the device's stream.
    pub(crate) fn call(
        &self,
        case: &Case,
        redop: MadeRedop,
        input: Region,
        output: Region,
    ) -> Result<(), Error> {
        let Blocks { input: sent, output: received } = case.workload.blocks(case.ranks);
        let bytes = |blocks: u64| {
            usize::try_from(case.block_bytes().saturating_mul(blocks)).unwrap_or(usize::MAX)
        };
        let (input, output) = (input.slice(0, bytes(sent))?, output.slice(0, bytes(received))?);
        let call = Call {
            functions: self.functions,
            comm: self.comm,
            stream: self.device.stream(),
            element: case.element.code(),
            count: usize::try_from(case.count).unwrap_or(usize::MAX),
            block_bytes: bytes(1),
            rank: self.rank,
            ranks: case.ranks,
            root: case.root,
            redop: redop.code,
            input,
            output,
        };
        // SAFETY: both regions are valid for good and, as sliced above, as long as the workload
        // needs; communicator and stream are alive.
        unsafe { call.make(case.workload) }
    }

    /// Makes calls as one group.
    pub(crate) fn group(&self, calls: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        // SAFETY: a group may begin whenever none is open on this thread, and ends below.
        unsafe { self.functions.group_start()? };
        let made = calls();
        // SAFETY: it was begun above. It ends whatever happened inside.
        let ended = unsafe { self.functions.group_end() };
        made.and(ended)
    }

    /// The variant and algorithm that serve such calls, if the library reports them.
    pub(crate) fn served(&self, case: &Case, placement: Placement) -> Option<String> {
        let choices = self.choices_text(case, placement).ok()?;
        choices.lines().next().map(str::to_owned)
    }

    /// The candidates for such calls, as [`crate::protocol`] has them.
    pub(crate) fn choices(&self, case: &Case, placement: Placement) -> Result<Vec<Offer>, Error> {
        let text = self.choices_text(case, placement)?;
        let offers = text.lines().map(|choice| {
            let blocks = self.blocks(case, placement, choice)?;
            Ok(Offer { choice: choice.to_owned(), blocks })
        });
        offers.collect()
    }

    fn choices_text(&self, case: &Case, placement: Placement) -> Result<String, Error> {
        let CallArguments { collective, in_place, element, redop, root, count } =
            CallArguments::new(case, placement)?;
        let mut text = vec![0; CHOICES_BYTES];
        // SAFETY: the communicator is alive, the name ends with a zero byte, and the buffer for the
        // text is as long as is said.
        unsafe {
            self.functions.choices(
                self.comm,
                collective.as_ptr(),
                in_place,
                element,
                redop,
                root,
                count,
                text.as_mut_ptr(),
                text.len(),
            )?;
        }
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    /// The thread blocks of such a call that is served by `choice`, if the library can say.
    fn blocks(
        &self,
        case: &Case,
        placement: Placement,
        choice: &str,
    ) -> Result<Option<u32>, Error> {
        if !self.functions.has_choice_blocks() {
            return Ok(None);
        }
        let CallArguments { collective, in_place, element, redop, root, count } =
            CallArguments::new(case, placement)?;
        let choice = c_text(choice)?;
        let mut blocks = 0;
        // SAFETY: the communicator is alive, and both texts end with a zero byte.
        unsafe {
            self.functions.choice_blocks(
                self.comm,
                collective.as_ptr(),
                in_place,
                element,
                redop,
                root,
                count,
                choice.as_ptr(),
                &mut blocks,
            )?;
        }
        Ok(u32::try_from(blocks).ok())
    }

    /// Makes `choice` serve every call from now on, or what the library chooses itself.
    pub(crate) fn pin(&self, choice: Option<&str>) -> Result<(), Error> {
        let choice = choice.map(c_text).transpose()?;
        let choice = choice.as_ref().map_or(ptr::null(), |choice| choice.as_ptr());
        // SAFETY: the communicator is alive, the text ends with a zero byte or is null.
        unsafe { self.functions.pin(self.comm, choice) }
    }

    /// Registers `buffers` with the library, as `registration` says. Every rank calls it with as
    /// many.
    pub(crate) fn register(
        &mut self,
        registration: Registration,
        buffers: &[Region],
    ) -> Result<(), Error> {
        for buffer in buffers {
            match registration {
                Registration::None => {}
                Registration::Local => self.register_buffer(*buffer)?,
                Registration::Symmetric => self.register_window(*buffer)?,
            }
        }
        Ok(())
    }

    fn register_buffer(&mut self, buffer: Region) -> Result<(), Error> {
        let (mut handle, length_bytes) = (ptr::null_mut(), buffer.length_bytes());
        // SAFETY: the communicator is alive; the buffer is valid for good; the place to write is
        // borrowed.
        unsafe { self.functions.register(self.comm, buffer.address(), length_bytes, &mut handle)? };
        self.registered.push(Registered::Buffer(handle));
        Ok(())
    }

    fn register_window(&mut self, buffer: Region) -> Result<(), Error> {
        /// `NCCL_WIN_COLL_SYMMETRIC`.
        const SYMMETRIC: c_int = 1;
        let (mut window, length_bytes) = (ptr::null_mut(), buffer.length_bytes());
        // SAFETY: as in `register_buffer`.
        unsafe {
            let Self { functions, comm, .. } = *self;
            functions.register_window(
                comm,
                buffer.address(),
                length_bytes,
                &mut window,
                SYMMETRIC,
            )?;
        }
        self.registered.push(Registered::Window(window));
        Ok(())
    }

    /// Takes back what was registered, and ends the communicator, even where the former fails.
    pub(crate) fn destroy(self) -> Result<(), Error> {
        let returned = self.registered.iter().map(|registered| self.deregister(registered));
        let returned = returned.fold(Ok(()), Result::and);
        // SAFETY: it is alive until now and is not used again.
        let destroyed = unsafe { self.functions.destroy(self.comm) };
        returned.and(destroyed)
    }

    fn deregister(&self, registered: &Registered) -> Result<(), Error> {
        // SAFETY: the communicator is alive and gave the handle, which is used no more.
        unsafe {
            match *registered {
                Registered::Buffer(handle) => self.functions.deregister(self.comm, handle),
                Registered::Window(window) => self.functions.deregister_window(self.comm, window),
            }
        }
    }
}

/// A text as C has it.
fn c_text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::new(format!("`{text}` is no text for C")))
}
