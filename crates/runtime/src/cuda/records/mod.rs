//! Records of the kernels of a rank: who writes them, and the thread that reads them.
//!
//! A call that is to be recorded is launched as a [recording kernel](kernels::RecordingKernels);
//! where there is none for it, it runs as always and leaves no records. A call that is captured
//! while the rank records leaves records whenever its graph runs; others leave none.
//!
//! Recording may begin and end while the rank runs, as the switch says; calls run as always where
//! nothing is recorded.
//!
//! One thread of the rank reads [rings](rings::Rings), and what the proxy to other nodes has noted,
//! and writes the recording until the rank ends.

mod clock;
mod kernels;
mod rings;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use msccl_fabric::Group;
use msccl_gpu::{Context, CuResult};
use msccl_kernels::recording::RecordingKernel;
use msccl_trace::recording::ClockSample;

use self::clock::DeviceClock;
use self::kernels::RecordingKernels;
use self::rings::{ReadExtent, Rings};
use super::control_block::{ControlBlock, record_tracks};
use super::kernels::{Kernels, Launchable};
use crate::error::{Error, ErrorKind};
use crate::event::{Event, Log};
use crate::proxy_records::ProxyRecords;
use crate::recording::{RankRecording, RecordedEngine, SwitchedRecording, now_ns};
use crate::settings::Settings;

/// How often records are read. A thread block that takes part in a small call every 3 µs fills its
/// ring in 6 ms; what is lost then is counted.
const PERIOD: Duration = Duration::from_millis(2);

/// How often the clock of records is read: it does not run evenly beside the host's.
const CLOCK_PERIOD: Duration = Duration::from_millis(500);

/// How often what the proxy has noted is written: each track that has something takes a call of the
/// system.
const PROXY_PERIOD: Duration = Duration::from_millis(20);

/// What of a rank is recorded.
pub(super) struct KernelRecords {
    kernels: RecordingKernels,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

/// What leaves records.
pub(super) struct Recorded {
    /// Of the kernels.
    pub control_block: Arc<ControlBlock>,
    /// The proxy, if there is one.
    pub proxy: Option<Arc<ProxyRecords>>,
}

/// What the rank and its reader share.
struct Shared {
    context: Context,
    /// The clock of records.
    clock: DeviceClock,
    /// Its last answer.
    last_sample: Mutex<ClockSample>,
    recorded: Recorded,
    recording: Mutex<SwitchedRecording>,
    ends: Mutex<bool>,
    ended: Condvar,
    log: Arc<dyn Log>,
}

impl KernelRecords {
    /// Makes ready to record this rank of `group`, if `settings` say that it does, or may later.
    /// `may_load` if kernels can be loaded now. Where that fails it is logged, and calls run all
    /// the same.
    pub fn begin(
        group: &Arc<Group>,
        context: &Context,
        kernels: &Arc<Kernels>,
        recorded: Recorded,
        settings: &Settings,
        may_load: bool,
    ) -> Option<Self> {
        if settings.recordings.recordings().is_none() && !settings.records_later {
            return None;
        }
        let log = &settings.log;
        let begun = move || {
            let kernels = RecordingKernels::new(context, kernels, &settings.specialised, log)?;
            if may_load {
                kernels.load_common();
            }
            let clock = kernels.get(RecordingKernel::Clock).ok_or_else(not_loaded)?;
            let clock = DeviceClock::new(context, clock)?;
            let sample = clock.sample()?.ok_or_else(no_answer)?;
            let tracks = record_tracks(recorded.control_block.blocks());
            let table = recorded.control_block.ring_table()?;
            let rings = Rings::new(context, table, tracks, sample.device_ns)?;
            let device = context.device();
            let engine = RecordedEngine::Gpu {
                name: device.name().unwrap_or_default(),
                bus_id: device.pci_bus_id().unwrap_or_default(),
            };
            let mut recording = SwitchedRecording::new(group, settings, engine);
            recording.begun().into_iter().for_each(|recording| recording.clock(sample));
            let last_sample = Mutex::new(sample);
            let shared = Arc::new(Shared {
                context: context.clone(),
                clock,
                last_sample,
                recorded,
                recording: Mutex::new(recording),
                ends: Mutex::new(false),
                ended: Condvar::new(),
                log: log.clone(),
            });
            shared.switch_proxy();
            Ok(Self { reader: Some(shared.clone().spawn(rings)?), kernels, shared })
        };
        let say = |why: &Error| {
            let text = format!("MSCCL_TRACE: calls on this GPU are not recorded: {why}");
            log.event(&Event::Unmet(text));
        };
        begun().inspect_err(say).ok()
    }

    /// Gives the recording `kernel` for a call, if there is one, and has the call noted by `note`.
    /// The kernel is loaded if that `may_load`.
    pub fn record(
        &self,
        kernel: RecordingKernel,
        may_load: bool,
        note: impl FnOnce(&mut RankRecording),
    ) -> Option<Arc<Launchable>> {
        let mut recording = self.shared.recording();
        let begun = recording.begun()?;
        let found = match may_load {
            true => self.kernels.get_or_load(kernel),
            false => self.kernels.get(kernel),
        }?;
        note(begun);
        Some(found)
    }
}

/// The kernels that record are not there, as was logged; or they could not be loaded, since ranks
/// of other communicators of this process might be kept waiting.
fn not_loaded() -> Error {
    Error::new(ErrorKind::System, "the kernels that record are not loaded")
}

fn no_answer() -> Error {
    Error::internal("the GPU does not answer with its clock")
}

/// Whether the process is ending, so that the driver takes no calls any more.
fn is_shut_down(context: &Context) -> bool {
    let answer = context.enter().map(drop);
    matches!(answer, Err(msccl_gpu::Error::Driver { code: CuResult::DEINITIALIZED, .. }))
}

fn unknown_clock(error: &Error) -> Event {
    Event::Unmet(format!("MSCCL_TRACE: the clock of the GPU is unknown: {error}"))
}

impl Shared {
    fn recording(&self) -> MutexGuard<'_, SwitchedRecording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(self: Arc<Self>, rings: Rings) -> Result<JoinHandle<()>, Error> {
        let named = thread::Builder::new().name("msccl-records".to_owned());
        let spawned = named.spawn(move || self.read_until_end(rings));
        spawned.map_err(|error| Error::internal(format!("cannot start a thread: {error}")))
    }

    /// Reads again and again, and once more when the rank ends.
    fn read_until_end(&self, mut rings: Rings) {
        let read = || -> Result<(), Error> {
            let (mut ends, mut clock_read, mut proxy_written) =
                (false, Instant::now(), Instant::now());
            while !ends {
                ends = self.wait();
                // A recording that ends has all that was written until now.
                if self.recording().is_outdated() {
                    self.read(&mut rings, ReadExtent::All)?;
                    self.write_proxy();
                }
                let has_changed = self.recording().follow();
                if has_changed {
                    self.switch_proxy();
                }
                if ends || has_changed || clock_read.elapsed() > CLOCK_PERIOD {
                    self.note_clock();
                    clock_read = Instant::now();
                }
                self.read(&mut rings, if ends { ReadExtent::All } else { ReadExtent::Due })?;
                if ends || proxy_written.elapsed() > PROXY_PERIOD {
                    self.write_proxy();
                    proxy_written = Instant::now();
                }
            }
            Ok(())
        };
        // A process that ends without having ended its communicators has shut down the driver.
        if let Err(error) = { read }()
            && !is_shut_down(&self.context)
        {
            let text = format!("MSCCL_TRACE: records of kernels cannot be read: {error}");
            self.log.event(&Event::Unmet(text));
        }
    }

    /// Puts what is new in the rings into the recording.
    fn read(&self, rings: &mut Rings, extent: ReadExtent) -> Result<(), Error> {
        let table = self.recorded.control_block.ring_table()?;
        for fresh in rings.read(table, extent, self.device_now_ns())? {
            let mut recording = self.recording();
            // What is written for nobody is read all the same, to make room.
            let Some(recording) = recording.begun() else { continue };
            if fresh.lost != 0 {
                recording.lost(fresh.track, fresh.lost);
            }
            recording.records(fresh.track, &fresh.records);
        }
        Ok(())
    }

    /// Lets the proxy note what it does if that is written.
    fn switch_proxy(&self) {
        self.recorded.proxy.iter().for_each(|proxy| proxy.switch(&mut self.recording()));
    }

    /// Puts what the proxy has noted into the recording.
    fn write_proxy(&self) {
        self.recorded.proxy.iter().for_each(|proxy| proxy.write(&mut self.recording()));
    }

    /// Reads the clock of records, if the GPU answers and kernels do not stay for ever.
    fn note_clock(&self) {
        if self.recorded.control_block.has_failed() || self.recording().begun().is_none() {
            return;
        }
        match self.clock.sample() {
            Ok(None) => {}
            Ok(Some(sample)) => {
                *self.last_sample.lock().unwrap_or_else(PoisonError::into_inner) = sample;
                self.recording().begun().into_iter().for_each(|of| of.clock(sample));
            }
            Err(_) if is_shut_down(&self.context) => {}
            Err(error) => self.log.event(&unknown_clock(&error)),
        }
    }

    /// About where the clock of records is.
    fn device_now_ns(&self) -> u64 {
        let known = *self.last_sample.lock().unwrap_or_else(PoisonError::into_inner);
        known.device_ns + now_ns().saturating_sub(known.after_ns)
    }

    /// Waits for the next time to read; whether that is the last one.
    fn wait(&self) -> bool {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(ends, PERIOD, |ends| !*ends);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for KernelRecords {
    fn drop(&mut self) {
        *self.shared.ends.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ended.notify_all();
        // A reader that panicked has left what it had read.
        let _ = self.reader.take().map(JoinHandle::join);
    }
}
