//! NVIDIA's management library, found at run time: the GPUs of this machine and their NVLinks. A
//! door for `unsafe`.
//!
//! Drivers install it beside `libcuda.so.1`. Each call of [`managed_gpus`] asks it anew: links are
//! those that are up then.

#![expect(unsafe_code, reason = "calls functions of the management library")]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use crate::device::ComputeCapability;
use crate::library::{Library, documented_function};

/// A GPU, as the management library knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagedGpu {
    /// Where it is on the PCI bus, such as `00000000:1B:00.0`.
    pub bus_id: String,
    /// Its compute capability, if the library says it.
    pub compute_capability: Option<ComputeCapability>,
    /// The NVLinks that are up.
    pub nvlinks: Vec<NvLinkEnd>,
}

/// Where an NVLink leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NvLinkEnd {
    /// The place on the PCI bus of what it leads to, if the library says it. In virtual machines it
    /// may be none that exists.
    pub remote_bus_id: Option<String>,
    /// What it leads to.
    pub remote: NvLinkRemote,
}

/// What an NVLink leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NvLinkRemote {
    /// Another GPU.
    Gpu,
    /// An NVSwitch.
    Switch,
    /// Something that the library does not name: older ones do not say what it is.
    Unknown,
}

/// The GPUs of this machine and their NVLinks, in the order of the management library.
///
/// # Errors
///
/// There is no such library, it lacks a function, or it cannot reach the driver.
pub fn managed_gpus() -> Result<Vec<ManagedGpu>, String> {
    let library = Nvml::open(OsStr::new(NAME)).map_err(|why| format!("{NAME}: {why}"))?;
    gpus_of(&library).map_err(|why| format!("{NAME}: {why}"))
}

/// The name that a driver installs.
const NAME: &str = "libnvidia-ml.so.1";

/// Most NVLinks of a GPU. Links that a GPU does not have are errors of the library, and so no
/// links.
const MOST_NVLINKS: c_uint = 18;

/// What is asked of the library, so that tests can answer.
trait Management {
    /// A GPU.
    type Device;

    fn devices(&self) -> Result<Vec<Self::Device>, String>;
    fn bus_id(&self, device: &Self::Device) -> Result<String, String>;
    fn compute_capability(&self, device: &Self::Device) -> Option<ComputeCapability>;
    /// The link of that number, if it is up.
    fn nvlink(&self, device: &Self::Device, link: c_uint) -> Option<NvLinkEnd>;
}

fn gpus_of<M: Management>(management: &M) -> Result<Vec<ManagedGpu>, String> {
    let one = |device: M::Device| {
        Ok(ManagedGpu {
            bus_id: management.bus_id(&device)?,
            compute_capability: management.compute_capability(&device),
            nvlinks: (0..MOST_NVLINKS).filter_map(|at| management.nvlink(&device, at)).collect(),
        })
    };
    management.devices()?.into_iter().map(one).collect()
}

type Handle = *mut c_void;
type Status = c_int;

/// `nvmlPciInfo_t` of the third version of the interface.
#[repr(C)]
struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

const _: () = assert!(size_of::<PciInfo>() == 68);

impl PciInfo {
    const EMPTY: Self = Self {
        bus_id_legacy: [0; 16],
        domain: 0,
        bus: 0,
        device: 0,
        device_id: 0,
        subsystem_id: 0,
        bus_id: [0; 32],
    };

    /// The place as text; `None` if there is none.
    fn bus_id(&self) -> Option<String> {
        let bytes = self.bus_id.iter().map(|byte| byte.to_ne_bytes()[0]);
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
    }
}

/// `nvmlIntNvLinkDeviceType_t`.
const REMOTE_GPU: c_uint = 0;
const REMOTE_SWITCH: c_uint = 2;

/// `nvmlEnableState_t`.
const ENABLED: c_uint = 1;

/// The library, ready for questions; shut down when dropped. It stays loaded.
struct Nvml {
    calls: NvmlCalls,
}

/// The functions that are used, with the types of the documented interface.
#[derive(Clone, Copy)]
struct NvmlCalls {
    init: unsafe extern "C" fn() -> Status,
    shutdown: unsafe extern "C" fn() -> Status,
    error_text: unsafe extern "C" fn(Status) -> *const c_char,
    count: unsafe extern "C" fn(*mut c_uint) -> Status,
    device: unsafe extern "C" fn(c_uint, *mut Handle) -> Status,
    pci: unsafe extern "C" fn(Handle, *mut PciInfo) -> Status,
    capability: unsafe extern "C" fn(Handle, *mut c_int, *mut c_int) -> Status,
    link_state: unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> Status,
    link_pci: unsafe extern "C" fn(Handle, c_uint, *mut PciInfo) -> Status,
    /// Older libraries lack it.
    link_remote: Option<unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> Status>,
}

impl NvmlCalls {
    fn of(library: &Library) -> Result<Self, String> {
        Ok(Self {
            init: documented_function!(library, c"nvmlInit_v2"),
            shutdown: documented_function!(library, c"nvmlShutdown"),
            error_text: documented_function!(library, c"nvmlErrorString"),
            count: documented_function!(library, c"nvmlDeviceGetCount_v2"),
            device: documented_function!(library, c"nvmlDeviceGetHandleByIndex_v2"),
            pci: documented_function!(library, c"nvmlDeviceGetPciInfo_v3"),
            capability: documented_function!(library, c"nvmlDeviceGetCudaComputeCapability"),
            link_state: documented_function!(library, c"nvmlDeviceGetNvLinkState"),
            link_pci: documented_function!(library, c"nvmlDeviceGetNvLinkRemotePciInfo_v2"),
            // SAFETY: as above.
            link_remote: unsafe { library.function(c"nvmlDeviceGetNvLinkRemoteDeviceType") },
        })
    }
}

impl Nvml {
    fn open(name: &OsStr) -> Result<Self, String> {
        // SAFETY: the initialisers of the management library only set it up.
        let library = unsafe { Library::open(name) }?;
        let calls = NvmlCalls::of(&library)?;
        // SAFETY: the function may be called at any time.
        check(calls, unsafe { (calls.init)() })?;
        Ok(Self { calls })
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: one call for each that succeeded in `open`. A failure leaves nothing to do.
        let _ = unsafe { (self.calls.shutdown)() };
    }
}

fn check(calls: NvmlCalls, status: Status) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the function takes any number.
    let text = unsafe { (calls.error_text)(status) };
    if text.is_null() {
        return Err(format!("error {status}"));
    }
    // SAFETY: a constant string that ends with a zero.
    Err(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

impl Management for Nvml {
    type Device = Handle;

    fn devices(&self) -> Result<Vec<Handle>, String> {
        let mut count = 0;
        // SAFETY: the library is initialised, and the number outlives the call.
        check(self.calls, unsafe { (self.calls.count)(&mut count) })?;
        let device = |at: c_uint| {
            let mut handle = ptr::null_mut();
            // SAFETY: the library is initialised, and the handle outlives the call.
            check(self.calls, unsafe { (self.calls.device)(at, &mut handle) })?;
            Ok(handle)
        };
        (0..count).map(device).collect()
    }

    fn bus_id(&self, device: &Handle) -> Result<String, String> {
        let mut info = PciInfo::EMPTY;
        // SAFETY: the handle is the library's, and the record, of its layout, outlives the call.
        check(self.calls, unsafe { (self.calls.pci)(*device, &mut info) })?;
        info.bus_id().ok_or_else(|| "a GPU has no place on the PCI bus".to_owned())
    }

    fn compute_capability(&self, device: &Handle) -> Option<ComputeCapability> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the handle is the library's, and both numbers outlive the call.
        let status = unsafe { (self.calls.capability)(*device, &mut major, &mut minor) };
        check(self.calls, status).ok()?;
        let [major, minor] = [major, minor].map(|it| u32::try_from(it).ok());
        Some(ComputeCapability { major: major?, minor: minor? })
    }

    fn nvlink(&self, device: &Handle, link: c_uint) -> Option<NvLinkEnd> {
        let mut state = 0;
        // SAFETY: the handle is the library's, and the number outlives the call.
        let status = unsafe { (self.calls.link_state)(*device, link, &mut state) };
        check(self.calls, status).ok().filter(|()| state == ENABLED)?;
        let mut info = PciInfo::EMPTY;
        // SAFETY: the handle is the library's, and the record, of its layout, outlives the call.
        let status = unsafe { (self.calls.link_pci)(*device, link, &mut info) };
        let remote_bus_id = check(self.calls, status).ok().and_then(|()| info.bus_id());
        let mut kind = c_uint::MAX;
        let status = self.calls.link_remote.map(|call| {
            // SAFETY: the handle is the library's, and the number outlives the call.
            unsafe { call(*device, link, &mut kind) }
        });
        let remote = match (status.map(|status| check(self.calls, status)), kind) {
            (Some(Ok(())), REMOTE_GPU) => NvLinkRemote::Gpu,
            (Some(Ok(())), REMOTE_SWITCH) => NvLinkRemote::Switch,
            _ => NvLinkRemote::Unknown,
        };
        Some(NvLinkEnd { remote_bus_id, remote })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two GPUs: the first has links 0 and 5 to the second, and link 6 to a switch.
    struct TwoGpus;

    impl Management for TwoGpus {
        type Device = u32;

        fn devices(&self) -> Result<Vec<u32>, String> {
            Ok(vec![0, 1])
        }

        fn bus_id(&self, device: &u32) -> Result<String, String> {
            Ok(format!("00000000:{}B:00.0", device + 1))
        }

        fn compute_capability(&self, device: &u32) -> Option<ComputeCapability> {
            (*device == 0).then_some(ComputeCapability { major: 9, minor: 0 })
        }

        fn nvlink(&self, device: &u32, link: c_uint) -> Option<NvLinkEnd> {
            let to = |bus_id: &str, remote| {
                Some(NvLinkEnd { remote_bus_id: Some(bus_id.to_owned()), remote })
            };
            match (device, link) {
                (0, 0 | 5) => to("00000000:2B:00.0", NvLinkRemote::Gpu),
                (0, 6) => to("00000000:C4:00.0", NvLinkRemote::Switch),
                _ => None,
            }
        }
    }

    #[test]
    fn links_that_are_up_are_found() {
        let gpus = gpus_of(&TwoGpus).unwrap();
        let [first, second] = gpus.as_slice() else { panic!("{gpus:?}") };
        assert_eq!(first.bus_id, "00000000:1B:00.0");
        let kinds: Vec<_> = first.nvlinks.iter().map(|end| end.remote).collect();
        assert_eq!(kinds, [NvLinkRemote::Gpu, NvLinkRemote::Gpu, NvLinkRemote::Switch]);
        assert_eq!((second.compute_capability, second.nvlinks.len()), (None, 0));
    }

    #[test]
    fn places_are_read_up_to_their_zero() {
        let mut info = PciInfo::EMPTY;
        assert_eq!(info.bus_id(), None);
        for (to, from) in info.bus_id.iter_mut().zip(b"00000000:1B:00.0\0rest") {
            *to = c_char::from_ne_bytes([*from]);
        }
        assert_eq!(info.bus_id().as_deref(), Some("00000000:1B:00.0"));
    }

    #[test]
    fn a_library_that_is_another_is_refused() {
        let why = Nvml::open(OsStr::new("libc.so.6")).err();
        assert_eq!(why.as_deref(), Some("it has no nvmlInit_v2"));
        assert!(Nvml::open(OsStr::new("libnothing.so.1")).is_err());
    }
}
