//! Making communicators: joining, splitting, shrinking.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use msccl_collective::Rank;
use msccl_fabric::{Abort, Group, JoinRequest, UniqueId};
use msccl_registry::{File, Refused, Registry, Shape};
use msccl_select::{Machine, RequiredOrder, Selector};

use super::Communicator;
use super::agreement::exchange_settings;
use super::carried::AlignedWindows;
use super::collective::RecentDecisions;
use super::one_sided::SignalCounts;
use crate::cuda;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::host;
use crate::nodes::Nodes;
use crate::observer::{ObservedPlace, ObservedRank};
use crate::settings::{Extent, PlaceOfRank, Settings};
use crate::shared_state::SharedState;
use crate::shared_state::replicator::Replicator;
use crate::watch::{Watch, Watched};

/// Registries that are kept for the communicators to come.
const REGISTRIES_KEPT: usize = 8;

/// What a communicator is made of. Fields drop in order: first whoever watches, then what is
/// watched, at last the connections.
pub(crate) struct Inner {
    pub watch: Watch,
    pub engine: Arc<dyn Engine>,
    /// Only held: to the end, it publishes to other nodes what became of this one.
    pub _replicator: Option<Replicator>,
    pub shared_state: Arc<SharedState>,
    pub group: Arc<Group>,
    pub selector: Selector,
    pub settings: Settings,
    pub failure: Arc<OnceLock<Error>>,
    /// Held while calls are taken up, which keeps their order.
    pub submission: Mutex<RecentDecisions>,
    /// While it is suspended, how many bytes that has freed here; changed by whoever holds the
    /// submission.
    pub suspended: RwLock<Option<u64>>,
    /// Signals so far.
    pub signals: Mutex<SignalCounts>,
    /// Where the next collective sets signals of its blocks; 0, if nowhere.
    pub block_signals: AtomicU64,
    /// Whether the next collective may leave the rank's own block of its output as it likes.
    pub omits_own_block: AtomicBool,
    /// In which collectives find the outputs of peers.
    pub windows: AlignedWindows,
    /// Calls posted so far; changed by whoever holds the submission.
    calls: AtomicU64,
}

impl Inner {
    /// Numbers for `calls` calls, counted from 1; the first of them. Whoever calls it holds the
    /// turn.
    pub fn take_numbers(&self, calls: u64) -> u64 {
        let before = self.calls.load(Ordering::Relaxed);
        self.calls.store(before + calls, Ordering::Relaxed);
        before + 1
    }

    /// The communicator fails, if `error` is one that ends it: what a caller did wrong does not.
    /// The caller learns the first failure, of which what befell its call is most often a
    /// consequence.
    pub fn note(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::InvalidArgument | ErrorKind::InvalidUsage => error,
            ErrorKind::Cuda
            | ErrorKind::System
            | ErrorKind::Remote
            | ErrorKind::Aborted
            | ErrorKind::TimedOut
            | ErrorKind::Internal => {
                self.watch.fail(error.clone());
                self.failure.get().cloned().unwrap_or(error)
            }
        }
    }

    pub fn abort(&self, reason: &str) {
        self.watch.abort(reason);
        self.group.abort().raise(reason);
    }

    pub fn log(&self, event: &Event) {
        self.settings.log.event(event);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // While the watch still lives, so that whoever waits here in vain learns why. A failure
        // has been reported already; nobody is left to release what it keeps.
        self.engine.release_on_failure();
        let _ = self.engine.quiesce();
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator({:016x}, {} of {})", self.id(), self.rank(), self.ranks())
    }
}

impl Communicator {
    /// Joins the group of `ids` as `rank` of `ranks`, and returns when all ranks have.
    ///
    /// # Errors
    ///
    /// Ranks did not come or do not agree, the place does not exist, memory is exhausted.
    pub fn join(
        ids: &[UniqueId],
        rank: Rank,
        ranks: u32,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let started = Instant::now();
        let place = match settings.place {
            PlaceOfRank::Host => "host threads",
            PlaceOfRank::Gpu(_) => "GPUs",
        };
        let facts = vec![
            ("version of the library".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("place of the ranks".to_owned(), place.to_owned()),
        ];
        let join_request = JoinRequest { rank, ranks, facts, description: Vec::new() };
        let group = Group::join(ids, &join_request, &settings.fabric)?;
        Self::over(group, settings, started)
    }

    /// Splits the communicator by `color`; every rank must call it. Ranks of one color form a
    /// communicator, in which they stand in order of `key`, then of their rank here. No color, no
    /// communicator. `settings` replace those of this communicator, but for the place.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::join`].
    pub fn split(
        &self,
        color: Option<u32>,
        key: i32,
        settings: Option<&Settings>,
    ) -> Result<Option<Self>, Error> {
        let started = Instant::now();
        let settings = self.inherited(settings);
        let group = self.inner.group.split(color, key, &settings.fabric)?;
        group.map(|group| Self::over(group, &settings, started)).transpose()
    }

    /// A communicator without the ranks in `exclude`, which need not be alive; every other rank
    /// must call it with the same ranks. With `abort`, work under way here gives up first, and this
    /// communicator stays usable for nothing but its end.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::join`].
    pub fn shrink(
        &self,
        exclude: &[Rank],
        abort: bool,
        settings: Option<&Settings>,
    ) -> Result<Self, Error> {
        let started = Instant::now();
        if abort {
            self.revoke("shrunk")?;
        }
        let settings = self.inherited(settings);
        let group = self.inner.group.shrink(exclude, &settings.fabric)?;
        Self::over(group, &settings, started)
    }

    /// A communicator of the ranks of this one, which keep their numbers, and new ones, `ranks` in
    /// all. Every rank calls it, and one of them, at least, with the `id` by which new ranks
    /// [join](Communicator::join). This communicator stays as it is.
    ///
    /// # Errors
    ///
    /// No rank has an id, or two have different ones. As for [`Communicator::join`].
    pub fn grow(
        &self,
        id: Option<UniqueId>,
        ranks: u32,
        settings: Option<&Settings>,
    ) -> Result<Self, Error> {
        let settings = self.inherited(settings);
        let own = id.map_or_else(Vec::new, |id| id.to_bytes().to_vec());
        let all = self.inner.group.all_gather_to_join(&own, &settings.fabric)?;
        let mut ids = all.iter().filter(|bytes| !bytes.is_empty());
        let first = ids.next().ok_or_else(|| {
            Error::invalid_argument("no rank has an id by which new ranks come; one must make it")
        })?;
        if ids.any(|other| other != first) {
            let text = "ranks have different ids by which new ranks come; one alone must make it";
            return Err(Error::invalid_argument(text));
        }
        let bytes = first.as_slice().try_into();
        let bytes = bytes.map_err(|_| Error::internal("an id has a wrong length"))?;
        Self::join(&[UniqueId::from_bytes(bytes)?], self.rank(), ranks, &settings)
    }

    /// The settings of a communicator that is made from this one.
    fn inherited(&self, settings: Option<&Settings>) -> Settings {
        let own = &self.inner.settings;
        let mut settings = settings.cloned().unwrap_or_else(|| {
            let mut inherited = own.clone();
            // An abort ends one communicator, not its descendants.
            inherited.fabric.abort = Abort::new();
            inherited.observer = None;
            inherited
        });
        settings.place = own.place.clone();
        settings.overrides.order = self.inner.selector.order();
        settings
    }

    /// The communicator of a group whose ranks all are here.
    fn over(group: Group, settings: &Settings, started: Instant) -> Result<Self, Error> {
        let group = Arc::new(group);
        // What ranks exchange from here to the end shares one limit of time.
        group.begin_setup();
        let inner = Self::set_up(&group, settings).inspect_err(|error| group.give_up(error))?;
        inner.group.end_setup();
        let (rank, ranks) = (group.rank(), group.ranks());
        let (place, took) = (inner.engine.describe(), started.elapsed());
        inner.log(&Event::Ready { rank, ranks, place, took });
        Ok(Self { inner: Arc::new(inner) })
    }

    /// All that a communicator consists of; every rank calls it.
    fn set_up(group: &Arc<Group>, settings: &Settings) -> Result<Inner, Error> {
        let nodes = Arc::new(Nodes::of(group));
        let registry = registry(nodes.shape(), &settings.files);
        // Ranks compile and prove what was loaded in their own time; from here on they go together.
        group.meet(settings.fabric.join_timeout)?;
        announce(group, &nodes, settings);
        let shared_state = Arc::new(SharedState::join(group, nodes, settings.check)?);
        let engine = engine(group, shared_state.nodes(), settings)?;
        let selector = agreed_selector(group, &shared_state, registry, &*engine, settings)?;
        if matches!(settings.place, PlaceOfRank::Gpu(_)) {
            engine.specialise(&selector, settings);
            // Nobody launches anything while others still load, which may wait for what runs.
            group.meet(settings.fabric.join_timeout)?;
        }
        Inner::watched(group, shared_state, engine, selector, settings)
    }
}

impl Inner {
    /// The parts of a communicator, with whoever watches them and keeps other nodes informed.
    fn watched(
        group: &Arc<Group>,
        shared_state: Arc<SharedState>,
        engine: Arc<dyn Engine>,
        selector: Selector,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let failure = Arc::default();
        let watched = Watched {
            group: group.clone(),
            shared_state: shared_state.clone(),
            engine: engine.clone(),
            failure: Arc::clone(&failure),
            log: settings.log.clone(),
        };
        let replicator = Replicator::start(group, &shared_state)?;
        Ok(Self {
            watch: Watch::start(watched, settings.timeout)?,
            _replicator: replicator,
            engine,
            shared_state,
            group: Arc::clone(group),
            selector,
            settings: settings.clone(),
            failure,
            submission: Mutex::default(),
            suspended: RwLock::default(),
            signals: Mutex::default(),
            block_signals: AtomicU64::new(0),
            omits_own_block: AtomicBool::new(false),
            windows: AlignedWindows::default(),
            calls: AtomicU64::new(0),
        })
    }
}

/// Lets the observer, if there is one, know whom it observes.
fn announce(group: &Group, nodes: &Nodes, settings: &Settings) {
    let Some(observer) = &settings.observer else { return };
    let own = group.peer(group.rank());
    observer.joined(&ObservedRank {
        communicator: group.id(),
        rank: group.rank(),
        ranks: group.ranks(),
        nodes: nodes.count() as u32,
        host: own.map_or("", |own| &own.host_name),
        place: match settings.place {
            PlaceOfRank::Host => ObservedPlace::Host,
            PlaceOfRank::Gpu(_) => ObservedPlace::Gpu,
        },
    });
}

/// What executes the calls of this rank of `group`.
fn engine(
    group: &Arc<Group>,
    nodes: &Nodes,
    settings: &Settings,
) -> Result<Arc<dyn Engine>, Error> {
    Ok(match &settings.place {
        PlaceOfRank::Host => Arc::new(host::HostRank::join(group, nodes, settings)?),
        PlaceOfRank::Gpu(context) => {
            Arc::new(cuda::CudaRank::join(group, nodes, context, settings)?)
        }
    })
}

/// What chooses for this rank of `group`, when all ranks have found that they choose alike.
fn agreed_selector(
    group: &Group,
    shared_state: &SharedState,
    registry: Arc<Registry>,
    engine: &dyn Engine,
    settings: &Settings,
) -> Result<Selector, Error> {
    let selector = selector(Arc::clone(&registry), group.rank(), engine, settings);
    let unmet = unmet(&registry, &selector, settings);
    // Also where that ends it: whoever learns of it first has it in full.
    log_files(group, shared_state.nodes(), &registry, &selector, &unmet, settings);
    exchange_settings(group, &registry, settings, &unmet)?;
    Ok(selector)
}

/// What of the files and settings of these ranks serves none of their calls, a line each; the same
/// on all ranks, as far as they have the same files and settings.
fn unmet(registry: &Registry, selector: &Selector, settings: &Settings) -> Vec<String> {
    if settings.extent == Extent::Part {
        return Vec::new();
    }
    let mut lines = refused(registry.refused(), registry.shape().ranks);
    lines.extend(selector.idle());
    lines.extend(selector.unused_rows());
    lines.extend(selector.without_effect(settings.specialised.mode));
    lines
}

/// Files for other numbers of ranks than there are that get a line each. Folders may hold many.
const OTHER_RANKS_LISTED: usize = 3;

/// The files that are not used, a line each, but for many that are for other numbers of ranks than
/// `ranks`.
fn refused(refused: &[Refused], ranks: u32) -> Vec<String> {
    let (others, wrong): (Vec<_>, Vec<_>) = refused.iter().partition(|of| of.is_for_other_ranks);
    let mut lines: Vec<_> = wrong.into_iter().map(ToString::to_string).collect();
    if others.len() <= OTHER_RANKS_LISTED {
        lines.extend(others.into_iter().map(ToString::to_string));
    } else {
        let names = others.iter().take(OTHER_RANKS_LISTED).map(|of| of.name.as_str());
        let (names, count) = (names.collect::<Vec<_>>().join(", "), others.len());
        lines.push(format!(
            "{count} files are not used, since none of them is for {ranks} ranks: {names}, …"
        ));
    }
    lines
}

/// Logs on the first rank what files serve and what is `unmet`, and, on the first rank of each of
/// several nodes, which ranks live where.
fn log_files(
    group: &Group,
    nodes: &Nodes,
    registry: &Registry,
    selector: &Selector,
    unmet: &[String],
    settings: &Settings,
) {
    let log = |event: Event| settings.log.event(&event);
    // What part of a job can do with files was said of the job.
    if group.rank() == Rank(0) && settings.extent == Extent::Job {
        selector.services().into_iter().for_each(|line| log(Event::Loaded(line)));
        let warnings = registry.warnings().iter();
        warnings.for_each(|warning| log(Event::Loaded(warning.to_string())));
        unmet.iter().for_each(|line| log(Event::Unmet(line.clone())));
        order_in_words(group.ranks(), settings.overrides.order, settings.order_reason.as_deref())
            .map(Event::Order)
            .into_iter()
            .for_each(log);
    }
    if nodes.count() > 1 && nodes.leader(group.rank()) == group.rank() {
        log(Event::Nodes(nodes.describe(group)));
    }
}

/// In which order reductions over `ranks` ranks must add, and why, if it matters.
pub(super) fn order_in_words(
    ranks: u32,
    order: RequiredOrder,
    reason: Option<&str>,
) -> Option<String> {
    let required = order.required(ranks).filter(|_| ranks > 1)?;
    let reason = reason.map_or_else(String::new, |why| format!(" ({why})"));
    Some(format!("reductions add in the order {order}, {required}{reason}"))
}

/// What chooses for `rank`, within what its `engine` can hold and `settings` allow.
fn selector(
    registry: Arc<Registry>,
    rank: Rank,
    engine: &dyn Engine,
    settings: &Settings,
) -> Selector {
    let machine = match settings.place {
        PlaceOfRank::Host => Machine::Host,
        PlaceOfRank::Gpu(_) => Machine::Gpus,
    };
    let capacity = engine.capacity().limited(settings.overrides.blocks_max);
    let (overrides, tuning) = (settings.overrides.clone(), settings.tuning.clone());
    Selector::new(registry, rank, capacity, machine, overrides, tuning)
}

/// A registry that is kept, with what it was made from.
type Kept = (Shape, Vec<File>, Arc<Registry>);

/// The registry for communicators of `shape` with these files. Loaded algorithms are proved here,
/// those built in when a call first needs one: schedules grow with the square of the ranks, and
/// most programs call few collectives. What was proved for an earlier communicator of this process
/// need not be proved again.
fn registry(shape: Shape, files: &[File]) -> Arc<Registry> {
    static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let found = kept.iter().position(|(of, from, _)| *of == shape && from == files);
    let entry = match found {
        Some(position) => kept.remove(position),
        None => (shape, files.to_vec(), Arc::new(Registry::new(shape, files))),
    };
    let registry = entry.2.clone();
    kept.insert(0, entry);
    kept.truncate(REGISTRIES_KEPT);
    registry
}
