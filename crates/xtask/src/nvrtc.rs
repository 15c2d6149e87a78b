//! NVIDIA's run-time compiler, loaded from a file: source and headers in memory to machine code or text.
//!
//! No path of this machine reaches the compiler, so the same sources give the same bytes everywhere.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use libloading::{Library, Symbol};
use msccl_kernels::recipe::{Architecture, OPTIONS};

use crate::compiler::Libraries;

/// A text with the name by which others include it.
pub struct Source {
    /// The name.
    pub name: CString,
    /// The text.
    pub text: CString,
}

impl Source {
    /// A text called `name`.
    ///
    /// # Errors
    ///
    /// Either has a zero byte.
    pub fn new(name: &str, text: Vec<u8>) -> Result<Self, String> {
        let inner_zero = |_| format!("{name} holds a zero byte");
        Ok(Self {
            name: CString::new(name).map_err(inner_zero)?,
            text: CString::new(text).map_err(inner_zero)?,
        })
    }
}

/// The loaded compiler.
pub struct Nvrtc {
    library: Library,
    /// Found by the compiler under its bare name only because it is loaded already.
    _builtins: Library,
}

type Handle = *mut c_void;
type Status = c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> Status;
type Content = unsafe extern "C" fn(Handle, *mut c_char) -> Status;
type Destroy = unsafe extern "C" fn(*mut Handle) -> Status;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> Status;
type ErrorText = unsafe extern "C" fn(Status) -> *const c_char;
type Create = unsafe extern "C" fn(
    *mut Handle,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Status;

impl Nvrtc {
    /// Loads the compiler.
    ///
    /// # Errors
    ///
    /// A file is not a library.
    pub fn load(libraries: &Libraries) -> Result<Self, String> {
        let open = |path: &std::path::Path| {
            // SAFETY: the pinned libraries' initialisers only set up the compiler; their hashes were
            // checked when they were fetched.
            unsafe { Library::new(path) }
                .map_err(|error| format!("cannot load {}: {error:?}", path.display()))
        };
        Ok(Self { _builtins: open(&libraries.builtins)?, library: open(&libraries.nvrtc)? })
    }

    /// What the compiler makes of `source` for `architecture`.
    ///
    /// # Errors
    ///
    /// The compiler's messages.
    pub fn compile(
        &self,
        source: &Source,
        headers: &[Source],
        architecture: Architecture,
    ) -> Result<Vec<u8>, String> {
        let program = self.create(source, headers)?;
        let result = self.compile_program(program.handle, architecture);
        let log = self.content(program.handle, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?;
        let log = String::from_utf8_lossy(&log);
        result.map_err(|error| format!("{error}\n{}", log.trim_end_matches('\0')))?;
        match architecture {
            Architecture::Machine(_) => {
                self.content(program.handle, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
            }
            Architecture::Portable(_) => {
                let mut text = self.content(program.handle, "nvrtcGetPTXSize", "nvrtcGetPTX")?;
                // The zero at its end is not part of the text.
                text.truncate(text.len().saturating_sub(1));
                Ok(text)
            }
        }
    }

    fn create(&self, source: &Source, headers: &[Source]) -> Result<Program<'_>, String> {
        let texts: Vec<_> = headers.iter().map(|header| header.text.as_ptr()).collect();
        let names: Vec<_> = headers.iter().map(|header| header.name.as_ptr()).collect();
        let count = c_int::try_from(headers.len()).map_err(|error| error.to_string())?;
        let mut handle = ptr::null_mut();
        let create = self.function::<Create>("nvrtcCreateProgram")?;
        // SAFETY: all strings end with a zero and live until the call returns, which copies them; the
        // two arrays have `count` entries.
        let status = unsafe {
            create(
                &mut handle,
                source.text.as_ptr(),
                source.name.as_ptr(),
                count,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        self.check(status)?;
        Ok(Program { nvrtc: self, handle })
    }

    fn compile_program(&self, handle: Handle, architecture: Architecture) -> Result<(), String> {
        let mut options = OPTIONS.map(str::to_owned).to_vec();
        options.push(format!("--gpu-architecture={}", architecture.name()));
        let options: Result<Vec<_>, _> = options.into_iter().map(CString::new).collect();
        let options = options.map_err(|error| error.to_string())?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).map_err(|error| error.to_string())?;
        let compile = self.function::<Compile>("nvrtcCompileProgram")?;
        // SAFETY: the handle is alive; the array has `count` strings that end with a zero.
        self.check(unsafe { compile(handle, count, pointers.as_ptr()) })
    }

    /// The bytes that the function `content` writes, as many as `size` says.
    fn content(&self, handle: Handle, size: &str, content: &str) -> Result<Vec<u8>, String> {
        let mut length = 0;
        let size = self.function::<Size>(size)?;
        // SAFETY: the handle is alive, and `length` outlives the call.
        self.check(unsafe { size(handle, &mut length) })?;
        let mut bytes = vec![0; length];
        let content = self.function::<Content>(content)?;
        // SAFETY: the handle is alive, and `bytes` has the length that the compiler asked for.
        self.check(unsafe { content(handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }

    fn function<F>(&self, name: &str) -> Result<Symbol<'_, F>, String> {
        // SAFETY: every caller names a function of NVRTC's documented interface with its type.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        found.map_err(|error| format!("the compiler has no {name}: {error:?}"))
    }

    fn check(&self, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        let text = self.function::<ErrorText>("nvrtcGetErrorString")?;
        // SAFETY: the function takes any number and gives a constant string that ends with a zero.
        let text = unsafe { CStr::from_ptr(text(status)) };
        Err(text.to_string_lossy().into_owned())
    }
}

/// A compilation, destroyed at its end.
struct Program<'a> {
    nvrtc: &'a Nvrtc,
    handle: Handle,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if let Ok(destroy) = self.nvrtc.function::<Destroy>("nvrtcDestroyProgram") {
            // SAFETY: the handle was created once and is destroyed once. A failure leaves nothing to do.
            let _ = unsafe { destroy(&mut self.handle) };
        }
    }
}
