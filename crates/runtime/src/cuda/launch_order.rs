//! The order in which kernels of all communicators begin on a device: the one in which this process
//! launched them (`NCCL_LAUNCH_ORDER_IMPLICIT`).
//!
//! Kernels of two communicators have room side by side (`capacity`), so ranks may begin theirs in
//! orders of their own. Of three the first two may fill a device, and another two the next one;
//! then all wait, for ever. With a launch order the kernel of a call begins after that of the call
//! launched before it has. If all ranks make their calls in the same order, then of all calls that
//! are not done the first one has begun, or finds room, on every rank: nothing that came later is
//! in its way, and what came before is done.
//!
//! # Guarantees
//!
//! On a device, outside of captures, no kernel that waits for peers begins before all thread blocks
//! of those launched before it by this process have begun; with a driver before CUDA 12.3, before
//! those are done. The same holds within one capture. Not ordered: graphs among one another, and
//! graphs with calls outside of them.
//!
//! The driver reports a kernel's start only on a best-effort basis. If the kernel may begin while
//! the one before it ends (programmatic dependent launch), it reports the kernel's end instead
//! (`docs/results/2026-11-23-h200.md`, "Turns"). So where there is a launch order nothing
//! begins early.

use std::sync::{Arc, Mutex, PoisonError};

use msccl_gpu::{Context, DriverVersion, Event};

use super::per_device::PerDevice;
use super::stream_order::CallSite;
use crate::error::Error;

/// The launch order of a device.
pub(super) struct LaunchOrder {
    context: Context,
    /// Whether the driver reports when a kernel has begun. If not, ranks of a communicator must not
    /// share the device: one would wait for the end of the other's kernel.
    pub reports_starts: bool,
    last: Mutex<LastLaunch>,
}

/// The last launches.
struct LastLaunch {
    /// The stream of the last one outside of captures.
    stream: Option<u64>,
    /// When that one has begun, or is done if the driver does not report that.
    begun: Event,
    captured: Option<CapturedLaunch>,
}

/// The last launch that was captured.
struct CapturedLaunch {
    /// By which capture.
    capture: u64,
    stream: u64,
    begun: Event,
}

/// Those of all devices.
static ORDERS: PerDevice<LaunchOrder> = PerDevice::new();

impl LaunchOrder {
    /// Those of the device of `context`.
    pub fn of(context: &Context) -> Result<Arc<Self>, Error> {
        ORDERS.of(context, || Self::new(context))
    }

    fn new(context: &Context) -> Result<Self, Error> {
        let version = context.device().driver().version();
        let last = LastLaunch { stream: None, begun: Event::ordering(context)?, captured: None };
        Ok(Self {
            context: context.clone(),
            reports_starts: version >= DriverVersion { major: 12, minor: 3 },
            last: Mutex::new(last),
        })
    }

    /// Launches a kernel at `site` by `launch`, which has the driver mark the event, if it is given
    /// one, when the kernel has begun.
    pub fn take(
        &self,
        site: CallSite<'_>,
        launch: impl FnOnce(Option<&Event>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(capture) = site.capture else {
            follow(site, last.stream, &last.begun)?;
            self.mark(site, &last.begun, launch)?;
            last.stream = Some(site.raw);
            return Ok(());
        };
        if let Some(last) = last.captured.as_ref().filter(|last| last.capture == capture) {
            follow(site, Some(last.stream), &last.begun)?;
        }
        // What a capture has marked nobody outside may wait for.
        let begun = Event::ordering(&self.context)?;
        self.mark(site, &begun, launch)?;
        last.captured = Some(CapturedLaunch { capture, stream: site.raw, begun });
        Ok(())
    }

    /// Has `launch` mark `begun`, or marks it behind that.
    fn mark(
        &self,
        site: CallSite<'_>,
        begun: &Event,
        launch: impl FnOnce(Option<&Event>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.reports_starts {
            return launch(Some(begun));
        }
        launch(None)?;
        Ok(site.stream().record(begun)?)
    }
}

/// Lets what comes at `site` wait until the last launch, in `stream`, has `begun`.
fn follow(site: CallSite<'_>, stream: Option<u64>, begun: &Event) -> Result<(), Error> {
    match stream.is_some_and(|stream| !site.follows(stream)) {
        true => Ok(site.stream().wait(begun)?),
        false => Ok(()),
    }
}
