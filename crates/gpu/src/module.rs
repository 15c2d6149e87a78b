//! Device code: images, modules, functions. A door for `unsafe`.

#![expect(unsafe_code, reason = "calls functions of the driver for modules")]

use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction_attribute as Attribute, CUjit_option as JitOption};

use crate::context::Context;
use crate::error::{CuResult, Error};
use crate::handle::{Handle, Out, Owned};

/// Device code as it is loaded.
#[derive(Clone, Copy)]
pub struct Image<'a>(ImageForm<'a>);

#[derive(Clone, Copy)]
enum ImageForm<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
}

impl<'a> Image<'a> {
    /// PTX, which the driver compiles; a compiler's complaint comes back in [`Error::Image`].
    pub fn ptx(text: &'a str) -> Self {
        Self(ImageForm::Text(text))
    }

    /// A cubin or a fatbin, which is loaded as it is.
    ///
    /// # Safety
    ///
    /// `bytes` is a whole file as a compiler wrote it: the driver trusts the sizes in its headers.
    pub unsafe fn binary(bytes: &'a [u8]) -> Self {
        Self(ImageForm::Binary(bytes))
    }
}

/// Loaded device code. Clones share it; the last of them and of its functions unloads it.
#[derive(Clone)]
pub struct Module {
    owned: Arc<Owned<sys::CUmod_st>>,
}

/// How much the driver's compiler may write about an image, in bytes.
const LOG_BYTES: usize = 16 << 10;

impl Module {
    /// Loads `image` for the device of `context`.
    ///
    /// Binary code fits devices of its own major version;
    /// [`NO_BINARY_FOR_GPU`](CuResult::NO_BINARY_FOR_GPU) says that it does not.
    pub fn load(context: &Context, image: Image<'_>) -> Result<Self, Error> {
        match image.0 {
            ImageForm::Text(text) => {
                let text =
                    CString::new(text).map_err(|_| Error::ZeroByte { text: "PTX".to_owned() })?;
                Self::load_bytes(context, text.as_bytes_with_nul())
            }
            ImageForm::Binary(bytes) => Self::load_bytes(context, bytes),
        }
    }

    /// Loads what is PTX with a final zero, or a whole binary.
    fn load_bytes(context: &Context, bytes: &[u8]) -> Result<Self, Error> {
        let mut log = vec![0_u8; LOG_BYTES];
        let mut options = [
            JitOption::CU_JIT_ERROR_LOG_BUFFER as u32,
            JitOption::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as u32,
        ];
        // A size is passed where a pointer would stand.
        let mut values =
            [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG_BYTES)];
        let owned = Owned::create(context, |calls, module| {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            // SAFETY: the image is whole; two options have two values; the log has its size.
            unsafe { calls.module_load(module, bytes.as_ptr().cast(), 2, options, values) }
        });
        match owned {
            Ok(owned) => Ok(Self { owned: Arc::new(owned) }),
            Err(Error::Driver { code, name, .. }) => Err(refusal(code, name, &log)),
            Err(error) => Err(error),
        }
    }

    /// The kernel `name`, wholly loaded. A driver may put that off until the first launch, and
    /// then wait for kernels that are running, one of which may be waiting for the launch.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        let c_name = CString::new(name).map_err(|_| Error::ZeroByte { text: name.to_owned() })?;
        let context = self.owned.context();
        let _entered = context.enter()?;
        let mut raw = Out::empty();
        // SAFETY: the name is zero-terminated and borrowed.
        unsafe {
            context.calls().module_function(&mut raw, self.owned.handle(), c_name.as_ptr())?;
        }
        let function = Function { module: self.clone(), raw };
        match context.calls().function_load(function.handle()) {
            // An older driver loads what it is asked about.
            Err(Error::MissingSymbol { .. }) => function.attributes().map(drop)?,
            loaded => loaded?,
        }
        Ok(function)
    }
}

/// The error for an image that the driver refused with `code`.
fn refusal(code: CuResult, name: &'static str, log: &[u8]) -> Error {
    let log = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let log = String::from_utf8_lossy(log).trim_end().to_owned();
    Error::Image { code, name, log }
}

/// A kernel; keeps its module loaded.
pub struct Function {
    module: Module,
    raw: Out<sys::CUfunc_st>,
}

/// What a kernel needs and allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionAttributes {
    /// How many threads a block may have, at most.
    pub max_threads_per_block: u32,
    /// How much shared memory the code itself declares.
    pub static_shared_bytes: u32,
    /// How much local memory each thread has; more than a little means spilt registers.
    pub local_bytes: u32,
    /// How many registers each thread has.
    pub registers: u32,
    /// The architecture of the machine code: 90 of `sm_90`.
    pub binary_version: u32,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({:#x})", self.raw.address())
    }
}

impl Function {
    /// What the kernel needs and allows.
    pub fn attributes(&self) -> Result<FunctionAttributes, Error> {
        Ok(FunctionAttributes {
            max_threads_per_block: self
                .attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            static_shared_bytes: self.static_shared_bytes()?,
            local_bytes: self.attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            registers: self.attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            binary_version: self.attribute(Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION)?,
        })
    }

    /// How much shared memory the code itself declares: of [`Function::attributes`] that one alone.
    pub fn static_shared_bytes(&self) -> Result<u32, Error> {
        self.attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
    }

    /// Lets launches ask for up to `bytes` bytes of dynamic shared memory, where the default is
    /// 48 KiB less what is static.
    pub fn allow_dynamic_shared(&self, bytes: u32) -> Result<(), Error> {
        let _entered = self.context().enter()?;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.context().calls().function_set_attribute(self.handle(), attribute, bytes)
    }

    /// Has multiprocessors that are idle when the kernel comes turn so much of what can be shared
    /// memory into it, or the next larger part that they can be divided by, and the rest into
    /// cache. What blocks cannot do without they get anyway.
    pub fn prefer_shared(&self, percent: u32) -> Result<(), Error> {
        let _entered = self.context().enter()?;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT as u32;
        let percent = percent.min(100) as i32;
        self.context().calls().function_set_attribute(self.handle(), attribute, percent)
    }

    /// How many blocks of `threads` threads, with so much dynamic shared memory, run on one
    /// multiprocessor at once.
    pub fn blocks_per_multiprocessor(
        &self,
        threads: u32,
        dynamic_shared_bytes: usize,
    ) -> Result<u32, Error> {
        let _entered = self.context().enter()?;
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        let mut blocks = 0;
        let calls = self.context().calls();
        calls.function_occupancy(&mut blocks, self.handle(), threads, dynamic_shared_bytes)?;
        Ok(blocks.unsigned_abs())
    }

    /// How many such blocks run on the whole device at once, if nothing else runs there.
    pub fn co_resident_blocks(
        &self,
        threads: u32,
        dynamic_shared_bytes: usize,
    ) -> Result<u32, Error> {
        let each = self.blocks_per_multiprocessor(threads, dynamic_shared_bytes)?;
        Ok(each * self.context().device().multiprocessors()?)
    }

    /// The context in which the kernel was loaded.
    pub fn context(&self) -> &Context {
        self.module.owned.context()
    }

    pub(crate) fn handle(&self) -> Handle<'_, sys::CUfunc_st> {
        // SAFETY: a function lives as long as its module, which `self` keeps.
        unsafe { self.raw.handle() }
    }

    fn attribute(&self, attribute: Attribute) -> Result<u32, Error> {
        let _entered = self.context().enter()?;
        let mut value = 0;
        self.context().calls().function_attribute(&mut value, attribute as u32, self.handle())?;
        Ok(value.unsigned_abs())
    }
}
