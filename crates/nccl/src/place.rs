//! Where a rank runs: on the device that is current on the calling thread, or on the host.
//!
//! Contexts are kept until the process ends: giving one back while the driver shuts down is a race.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};

use msccl_environment::DevicePreference;
use msccl_gpu::{CaptureModeGuard, Context, Driver};
use msccl_runtime::PlaceOfRank;

use crate::abi::Code;
use crate::fault::Fault;

/// The place of a rank that the calling thread makes: its current device. A thread that never
/// chose one has the first, as in CUDA's runtime.
///
/// # Errors
///
/// A GPU is insisted on and there is none, or the driver fails.
pub fn current(preference: DevicePreference) -> Result<PlaceOfRank, Fault> {
    let Some(driver) = driver(preference)? else { return Ok(PlaceOfRank::Host) };
    let device = driver.current_device()?.map_or(0, |device| device.ordinal());
    Ok(PlaceOfRank::Gpu(context(driver, device)?))
}

/// The place of a rank on the device `ordinal`; on the host, numbers mean nothing.
///
/// # Errors
///
/// As [`current`]; or there is no such device.
pub fn numbered(preference: DevicePreference, ordinal: i32) -> Result<PlaceOfRank, Fault> {
    let Some(driver) = driver(preference)? else { return Ok(PlaceOfRank::Host) };
    let devices = driver.device_count();
    match u32::try_from(ordinal) {
        Ok(known) if known < devices => Ok(PlaceOfRank::Gpu(context(driver, known)?)),
        _ => {
            let text = format!("device {ordinal} does not exist: this process sees {devices}");
            Err(Fault::argument(text))
        }
    }
}

/// The number of the device, or -1 on the host.
pub fn number(place: &PlaceOfRank) -> i32 {
    match place {
        PlaceOfRank::Host => -1,
        PlaceOfRank::Gpu(context) => context.device().ordinal().cast_signed(),
    }
}

/// The number that the management library gives to the device; that of [`number`] if it does not
/// know it.
pub fn management_number(place: &PlaceOfRank) -> i32 {
    let PlaceOfRank::Gpu(context) = place else { return number(place) };
    let own = context.device().pci_bus_id().ok().and_then(|text| bus_place(&text));
    let all = msccl_gpu::managed_gpus().unwrap_or_default();
    let found = all.iter().position(|gpu| own.is_some() && bus_place(&gpu.bus_id) == own);
    found.and_then(|place| i32::try_from(place).ok()).unwrap_or_else(|| number(place))
}

/// The domain and the rest of a place on the PCI bus: libraries write as many digits of the domain
/// as they like.
fn bus_place(text: &str) -> Option<(u32, String)> {
    let (domain, rest) = text.split_once(':')?;
    Some((u32::from_str_radix(domain, 16).ok()?, rest.to_ascii_lowercase()))
}

/// Where the device sits, in NCCL's way: without punctuation; `0` on the host.
pub fn bus_id(place: &PlaceOfRank) -> String {
    let id = match place {
        PlaceOfRank::Host => None,
        PlaceOfRank::Gpu(context) => context.device().pci_bus_id().ok(),
    };
    let id = id.unwrap_or_default().replace([':', '.'], "").to_lowercase();
    let digits = id.trim_start_matches('0');
    if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
}

/// The processors near the device, by the kernel's numbers; none on the host, or if the kernel does
/// not say.
pub fn processors(place: &PlaceOfRank) -> Vec<usize> {
    let PlaceOfRank::Gpu(context) = place else { return Vec::new() };
    let id = context.device().pci_bus_id().unwrap_or_default().to_lowercase();
    let list = fs::read_to_string(format!("/sys/bus/pci/devices/{id}/local_cpulist"));
    list.ok().and_then(|list| numbers(list.trim())).unwrap_or_default()
}

/// The numbers in a list such as `0-15,32-47`.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
    // More processors than any kernel knows are nonsense.
    let ranges = ranges.filter(|ranges| ranges.iter().all(|range| *range.end() < 1 << 16))?;
    Some(ranges.into_iter().flatten().collect())
}

/// While it lives, the driver takes calls of this thread that a capture under way, of whatever
/// thread, would forbid: what is made, freed and waited for here has nothing to do with the
/// caller's graph. Nothing on the host, and where the driver fails, as the calls to come will
/// show.
pub fn beside_captures(place: &PlaceOfRank) -> Option<CaptureModeGuard> {
    match place {
        PlaceOfRank::Host => None,
        PlaceOfRank::Gpu(context) => CaptureModeGuard::relaxed(context.device().driver()).ok(),
    }
}

/// The driver, if ranks are to run on GPUs.
fn driver(preference: DevicePreference) -> Result<Option<&'static Driver>, Fault> {
    if preference == DevicePreference::Host {
        return Ok(None);
    }
    match Driver::load() {
        Ok(driver) => Ok(Some(driver)),
        Err(_) if preference == DevicePreference::Any => Ok(None),
        Err(reason) => {
            let text = format!("MSCCL_DEVICE=cuda insists on a GPU, and there is none: {reason}");
            Err(Fault::new(Code::UnhandledCudaError, text))
        }
    }
}

fn context(driver: &'static Driver, ordinal: u32) -> Result<Context, Fault> {
    static CONTEXTS: Mutex<BTreeMap<u32, Context>> = Mutex::new(BTreeMap::new());
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = contexts.get(&ordinal) {
        return Ok(context.clone());
    }
    let context = driver.device(ordinal)?.context()?;
    contexts.insert(ordinal, context.clone());
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_always_there() {
        let place = current(DevicePreference::Host).unwrap();
        assert_eq!((number(&place), bus_id(&place).as_str()), (-1, "0"));
        assert!(processors(&place).is_empty());
        assert!(numbered(DevicePreference::Host, 77).is_ok());
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(numbers("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(numbers("7"), Some(vec![7]));
        for nonsense in ["", "a", "1-", "0-99999999999", "0-70000", "1,,2"] {
            assert_eq!(numbers(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn insisting_on_a_gpu_that_is_not_there_is_an_error() {
        match (Driver::load(), current(DevicePreference::Cuda)) {
            (Ok(_), place) => assert!(place.is_ok()),
            (Err(_), place) => {
                assert_eq!(place.unwrap_err().code, Code::UnhandledCudaError);
                assert_eq!(number(&current(DevicePreference::Any).unwrap()), -1);
            }
        }
    }
}
