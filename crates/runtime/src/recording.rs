//! Recordings of calls: what the thread blocks of a rank do, written while they do it.
//!
//! A recording is a stream that a front end opens ([`Recordings`]), one for each rank of each
//! communicator; [`msccl_trace`] says what stands in it. An engine names each call before its first
//! record ([`RankRecording::call`]), with which the plan and the shape of the call are described
//! once, and hands over the records of thread blocks ([`RankRecording::records`]).
//!
//! A stream that fails ends the recording. It is logged once, and calls go on. An observer that
//! wants to know when thread blocks begin and end learns it from the same records, with a stream or
//! without one.

mod shapes;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use msccl_collective::{CallPlacement, DataType, Protocol};
use msccl_fabric::Group;
use msccl_plan::Direction;
use msccl_plan::cut::Cut;
use msccl_plan::exchange::Transfer;
use msccl_registry::Fingerprint;
use msccl_trace::record::PackedRecord;
use msccl_trace::recording::{
    Call, CallCut, CallShapeDescription, ClockSample, Engine, Header, KernelDescription,
    LaunchKind, Moment, NamedTrack, Recorder, Transfer as TransferDescription, TransferDirection,
    Work,
};
use msccl_trace::{PlanName, StepGrouping, describe};
use rustc_hash::FxHashMap;
use rustix::time::{ClockId, clock_gettime};

use self::shapes::{KnownShapes, ShapeKey, TransferKey};
use crate::engine::{CallRequest, DecidedCall};
use crate::event::{Event, Log};
use crate::observer::{BlockSpans, CallObserver};
use crate::recordings::Recordings;
use crate::settings::Settings;

/// The recording of one rank.
pub(crate) struct RankRecording {
    /// None once its stream has failed.
    recorder: Option<Recorder<Box<dyn Write + Send>>>,
    log: Arc<dyn Log>,
    engine: RecordedEngine,
    plans: FxHashMap<Fingerprint, u32>,
    shapes: KnownShapes<ShapeKey>,
    /// Sends and receives.
    exchanges: KnownShapes<Vec<TransferKey>>,
    /// The number of the next shape.
    next_shape: u32,
    /// Records of each track so far.
    written: Vec<u64>,
    /// The same of tracks that are no thread blocks, by number; those here are described.
    named: FxHashMap<u32, u64>,
    /// Who wants to know when thread blocks begin and end, and what is known of that.
    observer: Option<Arc<dyn CallObserver>>,
    spans: BlockSpans,
}

/// What executes the calls of the rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RecordedEngine {
    /// Host threads, whose clock is the host's.
    Host,
    /// A GPU; its owner notes readings of its clock.
    Gpu {
        /// As [`Engine::Gpu`] has it.
        name: String,
        /// The same.
        bus_id: String,
    },
}

/// The kernel that executes a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RecordedKernel {
    /// As [`KernelDescription::kind`].
    pub kind: &'static str,
    /// Of its links.
    pub protocol: Protocol,
    /// As [`KernelDescription::delivery`].
    pub delivery: &'static str,
    /// Threads of a thread block.
    pub threads: u32,
}

impl RecordedKernel {
    /// Host threads have one kind of wires, whatever the protocol of the algorithm.
    pub const HOST_THREADS: Self =
        Self { kind: "host threads", protocol: Protocol::Simple, delivery: "staged", threads: 1 };

    pub fn describe(&self) -> KernelDescription {
        let Self { kind, protocol, delivery, threads } = *self;
        let (kind, delivery) = (kind.to_owned(), delivery.to_owned());
        KernelDescription { kind, protocol: protocol.to_string(), delivery, threads }
    }
}

/// Sends and receives, as an engine executes them.
pub(crate) struct RecordedExchange {
    /// What executes them.
    pub kernel: KernelDescription,
    /// As records number them.
    pub transfers: Vec<TransferDescription>,
}

impl RankRecording {
    /// Begins the recording of this rank of `group` where `settings` have it now. Without a place
    /// for it, or if that fails, only the observer of blocks learns of records, if there is one.
    pub fn begin(group: &Group, settings: &Settings, engine: RecordedEngine) -> Self {
        let header = header(group, &engine);
        let open = |recordings: Arc<dyn Recordings>| {
            let stream = recordings.open(group.id(), group.rank())?;
            Recorder::new(stream, &header, recordings.limit_bytes())
        };
        let opened = settings.recordings.recordings().map(open);
        let mut recording = Self {
            recorder: None,
            log: Arc::clone(&settings.log),
            engine,
            plans: FxHashMap::default(),
            shapes: KnownShapes::default(),
            exchanges: KnownShapes::default(),
            next_shape: 0,
            written: Vec::new(),
            named: FxHashMap::default(),
            observer: settings.observer.clone(),
            spans: BlockSpans::default(),
        };
        recording.recorder = opened.and_then(|opened| recording.unless_failed(opened));
        recording.own_clock();
        recording
    }

    /// Whether records are written.
    pub fn is_written(&self) -> bool {
        self.recorder.is_some()
    }

    /// Whether anybody still learns of records.
    pub fn is_open(&self) -> bool {
        let wants_blocks = || self.observer.as_ref().is_some_and(|of| of.wants_blocks());
        self.recorder.is_some() || wants_blocks()
    }

    /// Notes a call that begins now, or is captured.
    pub fn call(&mut self, decided: &DecidedCall<'_>, kernel: RecordedKernel, launch: LaunchKind) {
        let shape = self.shape(decided, kernel);
        let call = Call { number: decided.number, shape, launch, enqueue_ns: now_ns() };
        self.write(|recorder| recorder.call(call));
    }

    /// Notes a reading of the clock of records.
    pub fn clock(&mut self, sample: ClockSample) {
        self.write(|recorder| recorder.clock(sample));
    }

    /// The clock of records on host threads is the host's own.
    fn own_clock(&mut self) {
        match self.engine {
            RecordedEngine::Host => {
                let now = now_ns();
                self.clock(ClockSample { before_ns: now, device_ns: now, after_ns: now });
            }
            RecordedEngine::Gpu { .. } => {}
        }
    }

    /// Notes the sends and receives of call number `number`, which begin now or are captured.
    /// `describe` says how they are executed, if none of this shape were before.
    pub fn transfers(
        &mut self,
        number: u64,
        transfers: &[Transfer],
        launch: LaunchKind,
        describe: impl FnOnce() -> RecordedExchange,
    ) {
        let key = |of: &Transfer| TransferKey { peer: of.peer, way: of.way, bytes: of.bytes };
        let key: Vec<_> = transfers.iter().map(key).collect();
        let known = self.exchanges.get(&key);
        let shape = known.unwrap_or_else(|| self.exchange(key, describe()));
        let call = Call { number, shape, launch, enqueue_ns: now_ns() };
        self.write(|recorder| recorder.call(call));
    }

    /// The number of a new shape of transfers, which it describes.
    fn exchange(&mut self, key: Vec<TransferKey>, exchange: RecordedExchange) -> u32 {
        let id = self.take_shape();
        let total =
            |way| -> u64 { key.iter().filter(move |of| of.way == way).map(|of| of.bytes).sum() };
        let bytes = total(Direction::Out).max(total(Direction::In));
        let RecordedExchange { kernel, transfers } = exchange;
        let shape = CallShapeDescription {
            id,
            collective: "exchange".to_owned(),
            data_type: DataType::U8.to_string(),
            reduction: None,
            count: bytes,
            bytes,
            placement: CallPlacement::OutOfPlace.to_string(),
            reason: "sends and receives".to_owned(),
            work: Work::Exchange { kernel, transfers },
        };
        self.write(|recorder| recorder.call_shape(&shape));
        self.exchanges.insert(key, id);
        id
    }

    /// The number of a new shape.
    fn take_shape(&mut self) -> u32 {
        let id = self.next_shape;
        self.next_shape += 1;
        id
    }

    /// Notes `records` of `track`, the next of it.
    pub fn records(&mut self, track: usize, records: &[PackedRecord]) {
        if let Some(observer) = &self.observer {
            self.spans.take(track, records, |span| observer.block(&span));
        }
        let written = self.written_of(track);
        let first = *written;
        *written += records.len() as u64;
        self.write(|recorder| recorder.records(track as u32, first, records));
    }

    /// Notes that `count` records of `track` were overwritten before anybody read them.
    pub fn lost(&mut self, track: usize, count: u64) {
        self.spans.lose(track);
        *self.written_of(track) += count;
        self.write(|recorder| recorder.lost(track as u32, count));
    }

    /// Notes `records` of `track`, which is no thread block, the next of it.
    pub fn named_records(&mut self, track: &NamedTrack, records: &[PackedRecord]) {
        if records.is_empty() {
            return;
        }
        let first = self.named_so_far(track);
        self.named.insert(track.track, first + records.len() as u64);
        self.write(|recorder| recorder.records(track.track, first, records));
    }

    /// Notes that the next `count` records of `track`, which is no thread block, are lost.
    pub fn named_lost(&mut self, track: &NamedTrack, count: u64) {
        let first = self.named_so_far(track);
        self.named.insert(track.track, first + count);
        self.write(|recorder| recorder.lost(track.track, count));
    }

    /// Records of `track` so far; it is described if it is new.
    fn named_so_far(&mut self, track: &NamedTrack) -> u64 {
        if let Some(written) = self.named.get(&track.track) {
            return *written;
        }
        self.write(|recorder| recorder.named_track(track));
        0
    }

    fn written_of(&mut self, track: usize) -> &mut u64 {
        if self.written.len() <= track {
            self.written.resize(track + 1, 0);
        }
        &mut self.written[track]
    }

    /// The number of the shape of `decided`, which `kernel` executes; described if it is new.
    fn shape(&mut self, decided: &DecidedCall<'_>, kernel: RecordedKernel) -> u32 {
        let DecidedCall { decision, data_type, reduction, buffers: _, number: _, request } =
            *decided;
        let (algorithm, instances) = (decision.prepared.fingerprint, decision.cut.instances);
        let key = ShapeKey { request, kernel, data_type, reduction, algorithm, instances };
        if let Some(id) = self.shapes.get(&key) {
            return id;
        }
        let (id, plan) = (self.take_shape(), self.plan(decided));
        self.shapes.insert(key, id);
        let CallRequest { collective, placement, count, bytes } = request;
        let adds = decision.prepared.computes;
        let why = decision
            .passed_over
            .iter()
            .fold(decision.describe(), |all, one| format!("{all}; {one}"));
        let shape = CallShapeDescription {
            id,
            collective: collective.to_owned(),
            data_type: data_type.to_string(),
            reduction: adds.then(|| reduction.to_string()),
            count,
            bytes,
            placement: placement.to_string(),
            reason: why,
            work: Work::Plan { plan, kernel: kernel.describe(), cut: call_cut(&decision.cut) },
        };
        self.write(|recorder| recorder.call_shape(&shape));
        id
    }

    /// The number of the plan of `decided`, described if it is new.
    fn plan(&mut self, decided: &DecidedCall<'_>) -> u32 {
        let prepared = &decided.decision.prepared;
        if let Some(id) = self.plans.get(&prepared.fingerprint) {
            return *id;
        }
        let id = self.plans.len() as u32;
        self.plans.insert(prepared.fingerprint, id);
        let source = prepared.source.as_ref();
        let name = PlanName {
            id,
            algorithm: &prepared.name,
            source: source.map(|source| source.name.as_str()),
        };
        let grouping = match self.engine {
            RecordedEngine::Host => StepGrouping::Single,
            RecordedEngine::Gpu { .. } => StepGrouping::Bundles,
        };
        let plan = describe(name, prepared.plan.program(), grouping, |at| {
            source.and_then(|source| source.line(at))
        });
        self.write(|recorder| recorder.plan(&plan));
        id
    }

    /// Writes, unless that has failed before.
    fn write(
        &mut self,
        write: impl FnOnce(&mut Recorder<Box<dyn Write + Send>>) -> io::Result<()>,
    ) {
        let written = self.recorder.as_mut().map(write).unwrap_or(Ok(()));
        if self.unless_failed(written).is_none() {
            self.recorder = None;
        }
    }

    /// What came of writing; a failure is logged.
    fn unless_failed<T>(&self, written: io::Result<T>) -> Option<T> {
        let failed = |error: &io::Error| {
            let text = format!("calls are not recorded (MSCCL_TRACE): {error}");
            self.log.event(&Event::Unmet(text));
        };
        written.inspect_err(failed).ok()
    }
}

impl Drop for RankRecording {
    fn drop(&mut self) {
        self.own_clock();
        let finished = self.recorder.take().map_or(Ok(()), |of| of.finish().map(drop));
        self.unless_failed(finished);
    }
}

/// The recording of a rank, which begins and ends as the switch of its settings says.
pub(crate) struct SwitchedRecording {
    group: Arc<Group>,
    settings: Settings,
    engine: RecordedEngine,
    /// As it was when the recording began or ended.
    changes: u64,
    recording: Option<RankRecording>,
}

impl SwitchedRecording {
    /// Of this rank of `group`, as `settings` have it now and later.
    pub fn new(group: &Arc<Group>, settings: &Settings, engine: RecordedEngine) -> Self {
        let (group, settings) = (Arc::clone(group), settings.clone());
        let changes = settings.recordings.changes();
        let mut switched = Self { group, settings, engine, changes, recording: None };
        switched.begin();
        switched
    }

    /// Whether the switch was set, and [`SwitchedRecording::follow`] has not followed.
    pub fn is_outdated(&self) -> bool {
        self.settings.recordings.changes() != self.changes
    }

    /// Begins or ends the recording, if the switch was set; whether it was.
    pub fn follow(&mut self) -> bool {
        let is_outdated = self.is_outdated();
        if is_outdated {
            self.changes = self.settings.recordings.changes();
            self.begin();
        }
        is_outdated
    }

    /// The recording, if one has begun and not ended.
    pub fn begun(&mut self) -> Option<&mut RankRecording> {
        self.recording.as_mut().filter(|recording| recording.is_open())
    }

    fn begin(&mut self) {
        // The one before is complete before another one begins, perhaps in the same place.
        self.recording = None;
        let begun = RankRecording::begin(&self.group, &self.settings, self.engine.clone());
        self.recording = Some(begun).filter(RankRecording::is_open);
    }
}

/// What begins a recording.
fn header(group: &Group, engine: &RecordedEngine) -> Header {
    let own = group.peer(group.rank());
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Header {
        host: own.map(|own| own.host_name.to_string()).unwrap_or_default(),
        process: std::process::id(),
        rank: group.rank().0,
        ranks: group.ranks(),
        communicator: format!("{:016x}", group.id()),
        name: String::new(),
        engine: match engine {
            RecordedEngine::Host => Engine::Host,
            RecordedEngine::Gpu { name, bus_id } => {
                Engine::Gpu { name: name.clone(), bus_id: bus_id.clone() }
            }
        },
        start: Moment { unix_ns: since_epoch.as_nanos() as u64, monotonic_ns: now_ns() },
    }
}

/// `CLOCK_MONOTONIC`, which is the clock of records on host threads.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

/// As a description has it.
pub(crate) fn transfer_direction(way: Direction) -> TransferDirection {
    match way {
        Direction::Out => TransferDirection::Out,
        Direction::In => TransferDirection::In,
    }
}

fn call_cut(cut: &Cut) -> CallCut {
    CallCut {
        chunk_bytes: cut.chunk_bytes,
        part_bytes: cut.part_bytes,
        slice_bytes: cut.slice_bytes,
        rounds: cut.rounds,
        instances: cut.instances,
        chunks_per_message: cut.chunks_per_message,
    }
}
