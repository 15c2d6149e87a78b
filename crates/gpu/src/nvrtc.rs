//! NVIDIA's run-time compiler, found at run time: source and headers in memory to machine code or
//! text. A door for `unsafe`.
//!
//! It is a library of CUDA toolkits and of programs that compile kernels, PyTorch among them;
//! drivers have none. No path of this machine reaches the compiler, so the same sources give the
//! same bytes everywhere. Programs of their own may be compiled by several threads at once.

#![expect(unsafe_code, reason = "calls functions of the run-time compiler")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use crate::library::{self, Library, documented_function};

/// A text with the name by which others include it.
pub struct Source {
    name: CString,
    text: CString,
}

impl Source {
    /// A text called `name`.
    ///
    /// # Errors
    ///
    /// Either has a zero byte.
    pub fn new(name: &str, text: impl Into<Vec<u8>>) -> Result<Self, String> {
        let inner_zero = |_| format!("{name} holds a zero byte");
        Ok(Self {
            name: CString::new(name).map_err(inner_zero)?,
            text: CString::new(text).map_err(inner_zero)?,
        })
    }
}

/// What comes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Machine code: the architecture among the options is a `sm_`.
    Machine,
    /// Text that the driver compiles: the architecture is a `compute_`.
    Text,
}

/// The loaded compiler; it stays loaded until the process ends.
pub struct Nvrtc {
    calls: NvrtcCalls,
    name: String,
    version: (u32, u32),
}

type Handle = *mut c_void;
type Status = c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> Status;
type Content = unsafe extern "C" fn(Handle, *mut c_char) -> Status;

/// The compiler's functions that are used, with the types of its documented interface.
#[derive(Clone, Copy)]
struct NvrtcCalls {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status,
    error_text: unsafe extern "C" fn(Status) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    destroy: unsafe extern "C" fn(*mut Handle) -> Status,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> Status,
    log: (Size, Content),
    machine: (Size, Content),
    text: (Size, Content),
}

impl NvrtcCalls {
    fn of(library: &Library) -> Result<Self, String> {
        Ok(Self {
            version: documented_function!(library, c"nvrtcVersion"),
            error_text: documented_function!(library, c"nvrtcGetErrorString"),
            create: documented_function!(library, c"nvrtcCreateProgram"),
            destroy: documented_function!(library, c"nvrtcDestroyProgram"),
            compile: documented_function!(library, c"nvrtcCompileProgram"),
            log: (
                documented_function!(library, c"nvrtcGetProgramLogSize"),
                documented_function!(library, c"nvrtcGetProgramLog"),
            ),
            machine: (
                documented_function!(library, c"nvrtcGetCUBINSize"),
                documented_function!(library, c"nvrtcGetCUBIN"),
            ),
            text: (
                documented_function!(library, c"nvrtcGetPTXSize"),
                documented_function!(library, c"nvrtcGetPTX"),
            ),
        })
    }
}

/// The names of the library in toolkits of today, those first whose code more drivers take.
const NAMES: [&str; 2] = ["libnvrtc.so.12", "libnvrtc.so.13"];

/// The CUDA runtime that a program has loaded shows where its toolkit lies: a function of it, and
/// its names.
const RUNTIMES: [&str; 2] = ["libcudart.so.12", "libcudart.so.13"];
const OF_RUNTIME: &CStr = c"cudaRuntimeGetVersion";

/// Where toolkits lie by default.
const TOOLKIT: &str = "/usr/local/cuda/lib64/libnvrtc.so";

/// Where else the compiler may lie, seen from the folder of the CUDA runtime: in Python's packages
/// every library has a folder of its own.
const BESIDE: [&str; 2] = [".", "../../cuda_nvrtc/lib"];

impl Nvrtc {
    /// The compiler at `path`; without one the first that there is: of the names by which the
    /// loader finds it, beside the CUDA runtime that this process has loaded, in the usual folder
    /// of toolkits.
    ///
    /// # Errors
    ///
    /// There is none, with all that was tried.
    pub fn find(path: Option<&str>) -> Result<Self, String> {
        let candidates = match path {
            Some(path) => vec![PathBuf::from(path)],
            None => candidates(),
        };
        let mut tried = Vec::new();
        for candidate in &candidates {
            match Self::open(candidate.as_os_str()) {
                Ok(found) => return Ok(found),
                Err(why) => tried.push(format!("{}: {why}", candidate.display())),
            }
        }
        Err(tried.join("; "))
    }

    /// The compiler in the library `name`.
    ///
    /// # Errors
    ///
    /// It is not there, or no such compiler.
    pub fn open(name: &OsStr) -> Result<Self, String> {
        // SAFETY: the compiler's initialisers only set it up.
        let library = unsafe { Library::open(name) }?;
        let calls = NvrtcCalls::of(&library)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both numbers outlive the call.
        let status = unsafe { (calls.version)(&mut major, &mut minor) };
        let name = name.to_string_lossy().into_owned();
        let version = (major.unsigned_abs(), minor.unsigned_abs());
        let found = Self { calls, name, version };
        found.check(status)?;
        Ok(found)
    }

    /// What was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// What the compiler makes of `source` with `options`, one of which names the architecture.
    ///
    /// # Errors
    ///
    /// The compiler's messages.
    pub fn compile(
        &self,
        source: &Source,
        headers: &[Source],
        options: &[String],
        form: Form,
    ) -> Result<Vec<u8>, String> {
        let program = self.create(source, headers)?;
        let result = self.compile_program(program.handle, options);
        let log = self.content(program.handle, self.calls.log)?;
        let log = String::from_utf8_lossy(&log);
        result.map_err(|error| format!("{error}\n{}", log.trim_end_matches('\0')))?;
        match form {
            Form::Machine => self.content(program.handle, self.calls.machine),
            Form::Text => {
                let mut text = self.content(program.handle, self.calls.text)?;
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
        // SAFETY: all strings end with a zero and live until the call returns, which copies them;
        // the two arrays have `count` entries.
        let status = unsafe {
            (self.calls.create)(
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

    fn compile_program(&self, handle: Handle, options: &[String]) -> Result<(), String> {
        let options = options.iter().map(|option| CString::new(option.as_str()));
        let options = options.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).map_err(|error| error.to_string())?;
        // SAFETY: the handle is alive; the array has `count` strings that end with a zero.
        self.check(unsafe { (self.calls.compile)(handle, count, pointers.as_ptr()) })
    }

    /// The bytes that the second function writes, as many as the first says.
    fn content(&self, handle: Handle, (size, content): (Size, Content)) -> Result<Vec<u8>, String> {
        let mut length = 0;
        // SAFETY: the handle is alive, and `length` outlives the call.
        self.check(unsafe { size(handle, &mut length) })?;
        let mut bytes = vec![0; length];
        // SAFETY: the handle is alive, and `bytes` has the length that the compiler asked for.
        self.check(unsafe { content(handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }

    fn check(&self, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any number and gives a constant string that ends with a zero.
        let text = unsafe { CStr::from_ptr((self.calls.error_text)(status)) };
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
        // SAFETY: the handle was created once and is destroyed once. A failure leaves nothing to
        // do.
        let _ = unsafe { (self.nvrtc.calls.destroy)(&mut self.handle) };
    }
}

fn candidates() -> Vec<PathBuf> {
    let by_name = NAMES.map(PathBuf::from);
    let loaded = RUNTIMES.iter().filter_map(|name| library::loaded_at(name, OF_RUNTIME));
    let beside = loaded.flat_map(|runtime| {
        let folder = runtime.parent().map(Path::to_owned).unwrap_or_default();
        let names = BESIDE.iter().flat_map(|beside| NAMES.iter().map(move |name| (beside, name)));
        names.map(move |(beside, name)| folder.join(beside).join(name)).collect::<Vec<_>>()
    });
    by_name.into_iter().chain(beside).chain([PathBuf::from(TOOLKIT)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_compiler_is_refused_in_words() {
        let error = Nvrtc::find(Some("/no/libnvrtc.so.12")).err().unwrap();
        assert!(error.starts_with("/no/libnvrtc.so.12: "), "{error}");
        let error = Nvrtc::find(Some("libc.so.6")).err().unwrap();
        assert_eq!(error, "libc.so.6: it has no nvrtcVersion");
    }

    #[test]
    fn toolkits_are_looked_for_by_name_and_where_they_lie() {
        let tried = candidates();
        let [first, second, .., last] = &tried[..] else { panic!("{tried:?}") };
        let found = [first, second, last].map(|path| path.to_string_lossy().into_owned());
        let expected = ["libnvrtc.so.12", "libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so"];
        assert_eq!(found, expected);
    }

    #[test]
    fn sources_have_no_zeros() {
        assert!(Source::new("a\0", "").is_err() && Source::new("a", "\0").is_err());
    }
}
