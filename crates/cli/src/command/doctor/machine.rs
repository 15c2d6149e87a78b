//! The machine at hand.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use msccl_doctor::facts::{Gpu, GpuFacts, LimitFacts, SharedMemoryFacts};
use msccl_gpu::{Device, Driver, Error};
use rustix::process::{Resource, getrlimit};

use super::sources::Sources;

/// The machine at hand.
pub struct ThisMachine {
    /// The Python to ask, if one is named.
    pub python: Option<String>,
}

impl Sources for ThisMachine {
    fn root(&self) -> PathBuf {
        PathBuf::from("/")
    }

    fn variables(&self) -> Vec<(String, String)> {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn gpus(&self) -> GpuFacts {
        match Driver::load() {
            Err(why) => GpuFacts::Unusable(why.to_string()),
            Ok(driver) => of_driver(driver)
                .unwrap_or_else(|error| GpuFacts::Unusable(format!("the driver says: {error}"))),
        }
    }

    fn shared_memory(&self) -> Option<SharedMemoryFacts> {
        let found = rustix::fs::statvfs("/dev/shm").ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(SharedMemoryFacts {
            size_bytes: bytes(found.f_blocks),
            free_bytes: bytes(found.f_bavail),
        })
    }

    fn limits(&self) -> LimitFacts {
        LimitFacts {
            locked_bytes: getrlimit(Resource::Memlock).maximum,
            open_files_most: getrlimit(Resource::Nofile).maximum,
        }
    }

    fn ask_python(&self, script: &str) -> Option<String> {
        let named: Vec<&str> = self.python.as_deref().into_iter().collect();
        let programs = if named.is_empty() { vec!["python3", "python"] } else { named };
        programs.into_iter().find_map(|program| printed(program, script))
    }

    fn own_folder(&self) -> Option<PathBuf> {
        Some(std::env::current_exe().ok()?.canonicalize().ok()?.parent()?.to_owned())
    }
}

/// What `program` prints that is given `script`, if it ends well.
fn printed(program: &str, script: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.args(["-c", script]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

fn of_driver(driver: &'static Driver) -> Result<GpuFacts, Error> {
    let devices: Vec<Device> = (0..driver.device_count())
        .map(|ordinal| driver.device(ordinal))
        .collect::<Result<_, _>>()?;
    let gpu = |device: &Device| {
        let capability = device.compute_capability()?;
        Ok(Gpu { name: device.name()?, capability: (capability.major, capability.minor) })
    };
    let gpus = devices.iter().map(gpu).collect::<Result<_, Error>>()?;
    let mut without_access = Vec::new();
    for from in &devices {
        for to in devices.iter().filter(|to| *to != from) {
            if !from.can_access_peer(*to)? {
                without_access.push((from.ordinal(), to.ordinal()));
            }
        }
    }
    Ok(GpuFacts::Usable { driver: driver.version().to_string(), gpus, without_access })
}
