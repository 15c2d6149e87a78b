//! The driver: loaded once, or a typed reason why not. A door for `unsafe`.

#![expect(unsafe_code, reason = "loads the driver and calls its functions")]

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use crate::calls::Calls;
use crate::device::Device;
use crate::error::{CuResult, Error, Unavailable};
use crate::handle::Out;
use crate::library::Library;

/// The name under which an installed driver is found.
const LIBRARY: &str = "libcuda.so.1";

/// A CUDA driver that has started and sees at least one device.
///
/// It lives until the process ends, so everything made from it may keep a reference.
pub struct Driver {
    calls: Calls,
    version: DriverVersion,
    devices: u32,
}

/// The newest CUDA version that a driver supports, such as 13.0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DriverVersion {
    /// 13 of 13.0.
    pub major: u32,
    /// 0 of 13.0.
    pub minor: u32,
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Driver(CUDA {}, {} devices)", self.version, self.devices)
    }
}

impl Driver {
    /// The installed driver. The first call loads it; later calls give the same answer, good or
    /// bad.
    pub fn load() -> Result<&'static Self, Unavailable> {
        static DRIVER: OnceLock<Result<&'static Driver, Unavailable>> = OnceLock::new();
        // SAFETY: whoever installs a library under this name says that it is a driver.
        DRIVER.get_or_init(|| unsafe { Self::load_from(Path::new(LIBRARY)) }).clone()
    }

    /// The driver in the library `path`, loaded anew by each call and never unloaded.
    ///
    /// For tests and for drivers in unusual places.
    ///
    /// # Safety
    ///
    /// If there is a library, it is a driver: its functions have the signatures of the CUDA driver
    /// interface, and it may be loaded into this process.
    pub unsafe fn load_from(path: &Path) -> Result<&'static Self, Unavailable> {
        let library = path.display().to_string();
        // SAFETY: promised by the caller.
        let calls = match unsafe { Library::open(path.as_os_str()) } {
            Ok(opened) => Calls::find(&opened),
            Err(reason) => return Err(Unavailable::NoLibrary { library, reason }),
        };
        let driver = Self::start(calls).map_err(|error| match error {
            Error::MissingSymbol { call } => Unavailable::MissingSymbol { library, call },
            error if error.is(CuResult::STUB_LIBRARY) => Unavailable::StubLibrary { library },
            error if error.is(CuResult::NO_DEVICE) => Unavailable::NoDevice,
            error => Unavailable::Failed(error),
        })?;
        if driver.devices == 0 {
            return Err(Unavailable::NoDevice);
        }
        Ok(Box::leak(Box::new(driver)))
    }

    /// Starts the driver and asks what must be known about it.
    fn start(calls: Calls) -> Result<Self, Error> {
        calls.init(0)?;
        let (mut version, mut devices) = (0, 0);
        calls.driver_version(&mut version)?;
        calls.device_count(&mut devices)?;
        let version = version.unsigned_abs();
        let version = DriverVersion { major: version / 1000, minor: version % 1000 / 10 };
        Ok(Self { calls, version, devices: devices.unsigned_abs() })
    }

    /// The newest CUDA version that the driver supports.
    pub fn version(&self) -> DriverVersion {
        self.version
    }

    /// How many devices this process sees, at least one.
    pub fn device_count(&self) -> u32 {
        self.devices
    }

    /// The device numbered `ordinal` among those this process sees.
    pub fn device(&'static self, ordinal: u32) -> Result<Device, Error> {
        let mut raw = 0;
        // A number beyond `c_int` becomes one that the driver refuses.
        self.calls.device_get(&mut raw, i32::try_from(ordinal).unwrap_or(-1))?;
        Ok(Device::new(self, raw))
    }

    /// The device whose context is current on this thread, if there is one.
    pub fn current_device(&'static self) -> Result<Option<Device>, Error> {
        let mut context = Out::empty();
        self.calls.context_current(&mut context)?;
        if context.address() == 0 {
            return Ok(None);
        }
        let mut raw = 0;
        self.calls.context_device(&mut raw)?;
        Ok(Some(Device::new(self, raw)))
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }
}
