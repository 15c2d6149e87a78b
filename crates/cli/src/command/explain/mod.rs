//! `msccl explain`: which algorithm would serve a call, and why not another.

mod decisions;
mod human;
mod json;
mod order;

use std::sync::Arc;

use msccl_collective::{
    CallPlacement, Collective, CollectiveKind, DataType, Kind, Rank, Reduction,
};
use msccl_environment::{DevicePreference, Preferences, Reader};
use msccl_registry::{File, Registry, Shape};
use msccl_runtime::{
    Alternative, CallShape, KernelClass, Overrides, Question, ServiceSummary, Specialisation,
    SpecialiseMode, Tuning, specialised_kernel,
};

use msccl_select::{CarriedSummary, Hardware, explain_carried};

use crate::args::{ExplainArgs, Format, NodesArgs, PlaceName, Word};
use crate::calibration::hardware;
use crate::collective;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input;
use crate::output::Output;
use crate::progress::Progress;
use crate::size::ByteSize;

/// Calls over more ranks are estimated only if a machine is given: it takes too long.
const ESTIMATED_RANKS_MAX: u32 = 64;

/// Explains one call, or the calls of all sizes.
pub fn explain(args: &ExplainArgs, output: &mut Output) -> Result<Exit> {
    let Words { kinds, size, mut files } = Words::of(args)?;
    let preferences = preferences(output);
    files.extend(preferences.files());
    let tuning = tuning(args.tuning.as_deref(), &preferences, output)?;
    let shape = shape(args.ranks, &args.nodes)?;
    let cluster = args.machine.cluster(args.nodes.nodes, output)?;
    let calibration = args.machine.calibration.as_deref();
    // Where nothing was measured, times are what decides.
    let is_quick = size.is_some() && shape.ranks <= ESTIMATED_RANKS_MAX;
    let estimates = cluster.is_some() || calibration.is_some() || shape.nodes() > 1 && is_quick;
    let hardware = estimates.then(|| hardware(cluster, calibration, shape));
    let hardware = hardware.transpose()?;
    let progress = Progress::start("proving", output.is_quiet());
    let library = Library {
        registry: Arc::new(Registry::new(shape, &files)),
        place: args.device.unwrap_or_else(|| place(preferences.device)),
        small: preferences.low_latency(),
        special: preferences.specialised(),
        order_reason: preferences.order_reason,
        overrides: preferences.overrides,
        tuning,
        terms: Terms::of(args),
        hardware,
    };
    let answer = library.answer(&kinds, size)?;
    drop(progress);
    library.registry.warnings().iter().for_each(|warning| output.warn(warning));
    match args.report.format {
        Format::Human => human::print(&library, &answer, output),
        Format::Json => output.json(&json::to_json(&library, &answer)),
    }
    Ok(exit(&library, &files))
}

/// The ranks and their nodes.
pub(super) fn shape(ranks: u32, nodes: &NodesArgs) -> Result<Shape> {
    let NodesArgs { per_node, nodes } = *nodes;
    let fill = |count: u32, of: &str| {
        if ranks.is_multiple_of(count) {
            return Ok(ranks / count);
        }
        let advice = format!("choose a divisor of {ranks}");
        Err(Failure::new(format!("{ranks} ranks do not fill {of}; {advice}")))
    };
    let per_node = match (per_node, nodes) {
        (Some(per_node), _) => fill(per_node, &format!("nodes of {per_node}")).map(|_| per_node)?,
        (None, Some(nodes)) => fill(nodes, &format!("{nodes} nodes"))?,
        (None, None) => ranks,
    };
    Ok(Shape { ranks, per_node })
}

/// What the environment requests, as the library reads it. What in it makes no sense, or is not
/// followed, is a warning.
pub(super) fn preferences(output: &mut Output) -> Preferences {
    let mut reader = Reader::new(&msccl_environment::lookup);
    let preferences = Preferences::read(&mut reader);
    preferences.unsupported.iter().for_each(|value| output.warn(value));
    reader.value_errors().iter().for_each(|value_error| output.warn(value_error));
    preferences
}

/// The table that is named on the command line, otherwise by the environment.
pub(super) fn tuning(
    path: Option<&str>,
    preferences: &Preferences,
    output: &mut Output,
) -> Result<Option<Tuning>> {
    if let Some(path) = path {
        return msccl_environment::read_tuning(path).map(Some).map_err(Failure::new);
    }
    Ok(preferences.tuning().unwrap_or_else(|value_error| {
        output.warn(value_error);
        None
    }))
}

/// The job in question may run elsewhere, so GPUs that are not here count.
fn place(overrides: DevicePreference) -> PlaceName {
    match overrides {
        DevicePreference::Any | DevicePreference::Cuda => PlaceName::Cuda,
        DevicePreference::Host => PlaceName::Host,
    }
}

/// Of the files, not of the answer: there always is one.
fn exit(library: &Library, files: &[File]) -> Exit {
    let unreadable = files.iter().any(|file| file.content.is_err());
    match (unreadable, library.registry.refused()) {
        (true, _) => Exit::Unusable,
        (false, []) => Exit::Success,
        (false, _) => Exit::Refused,
    }
}

/// What the words of the command line say.
struct Words {
    /// One collective, or all.
    kinds: Vec<Kind>,
    size: Option<ByteSize>,
    files: Vec<File>,
}

impl Words {
    fn of(args: &ExplainArgs) -> Result<Self> {
        let (mut kinds, mut sizes, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for word in &args.words {
            match word {
                Word::Collective(kind) => kinds.push(kind.clone()),
                Word::Size(size) => sizes.push(*size),
                Word::File(path) => files.push(file(path)),
            }
        }
        if kinds.len() > 1 || sizes.len() > 1 {
            let text =
                "more than one collective or size; name one of each, or leave it out for all";
            return Err(Failure::new(text));
        }
        if kinds.is_empty() {
            kinds = collective::all().collect();
        }
        let root = Rank(args.root);
        if args.root >= args.ranks {
            let last = Rank(args.ranks - 1);
            return Err(Failure::new(format!("there is no root {root}; ranks are r0 to {last}")));
        }
        let kinds = kinds.into_iter().map(|kind| collective::with_root(kind, root)).collect();
        Ok(Self { kinds, size: sizes.pop(), files })
    }
}

/// The file at `path`, read.
pub(super) fn file(path: &str) -> File {
    let name = if path == input::STDIN { input::STDIN_NAME } else { path };
    File { name: name.to_owned(), content: input::bytes(path) }
}

/// The compute capability of the GPUs that jobs are taken to have.
const H200: u32 = 90;

/// What the calls in question have in common.
struct Terms {
    in_place: bool,
    data_type: DataType,
    reduction: Reduction,
    root: Rank,
}

impl Terms {
    fn of(args: &ExplainArgs) -> Self {
        let ExplainArgs { in_place, data_type, op, root, .. } = *args;
        Self { in_place, data_type, reduction: op, root: Rank(root) }
    }
}

/// A library as it would be in the job in question.
struct Library {
    registry: Arc<Registry>,
    overrides: Overrides,
    /// Why reductions must have one order, if no variable of ours says so.
    order_reason: Option<String>,
    small: bool,
    special: Specialisation,
    tuning: Option<Tuning>,
    place: PlaceName,
    terms: Terms,
    /// The machine of estimates, if any are asked.
    hardware: Option<Hardware>,
}

/// A call, and what could serve it.
struct Explained {
    collective: Collective,
    count: u64,
    size: ByteSize,
    /// Best first.
    alternatives: Vec<Alternative>,
    /// The kernel of the first that serves.
    kernel: Kernel,
    /// What copy engines carry instead, if they do.
    carried: Option<CarriedSummary>,
}

/// What kind of kernel serves a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kernel {
    /// None: host threads do, or nothing, or the kernel was not requested.
    None,
    /// The interpreter, as always for such calls, or because specialised kernels are switched off.
    Interpreter,
    /// The interpreter, as long as the cache lacks the specialised kernel.
    NotCached,
    /// The specialised kernel, which the cache has.
    Specialised,
    /// A low-latency kernel.
    LowLatency,
}

/// What was requested.
enum Answer {
    Call(Explained),
    Table(Vec<decisions::Decision>),
}

impl Library {
    fn ranks(&self) -> u32 {
        self.registry.shape().ranks
    }

    /// What was requested; without a size, all of them.
    fn answer(&self, kinds: &[Kind], size: Option<ByteSize>) -> Result<Answer> {
        match (size, kinds) {
            (Some(size), [kind]) => {
                let call = self.call(kind, size);
                let kernel = self.kernel(&call);
                Ok(Answer::Call(Explained { kernel, ..call }))
            }
            (Some(_), _) => {
                let text = "a size alone says too little; name a collective, such as allreduce";
                Err(Failure::new(text))
            }
            (None, kinds) => Ok(Answer::Table(decisions::of(self, kinds))),
        }
    }

    /// What could serve a call of `kind` whose larger buffer has `size`, rounded up to whole
    /// elements.
    fn call(&self, kind: &Kind, size: ByteSize) -> Explained {
        let data_type = self.terms.data_type;
        let collective = Collective { kind: kind.clone(), ranks: self.ranks(), chunks: 1 };
        let blocks = u64::from(collective.loop_chunks());
        let element_bytes = blocks * data_type.size_bytes() as u64;
        let count = size.0.div_ceil(element_bytes);
        let question = self.question(&collective, count);
        let Self { registry, overrides, tuning, .. } = self;
        let hardware = self.hardware.as_ref();
        let explain = |question| {
            msccl_runtime::explain(registry, &question, overrides, tuning.as_ref(), hardware)
        };
        let alternatives = question.map(explain).unwrap_or_default();
        let carried = question
            .and_then(|question| explain_carried(registry, &question, overrides, tuning.as_ref()));
        let (size, kernel) = (ByteSize(count.saturating_mul(element_bytes)), Kernel::None);
        Explained { collective, count, size, alternatives, kernel, carried }
    }

    /// A call of `count` elements a block, if it is one of the library.
    fn question(&self, collective: &Collective, count: u64) -> Option<Question> {
        let Terms { in_place, data_type, reduction, root: _ } = self.terms;
        let shape = CollectiveKind::of(&collective.kind).map(|kind| CallShape {
            kind,
            placement: CallPlacement::from_in_place(in_place),
            data_type,
            reduction: collective.reduces().then_some(reduction),
            count,
        });
        shape.map(|shape| Question { shape, on_gpus: self.place == PlaceName::Cuda })
    }

    /// What kind of kernel serves the call.
    fn kernel(&self, call: &Explained) -> Kernel {
        let Self { registry, overrides, tuning, small, special, .. } = self;
        let question = self.question(&call.collective, call.count).filter(|of| of.on_gpus);
        let (Some(question), Some((_, service))) = (question, call.served()) else {
            return Kernel::None;
        };
        if *small && service.kernel == KernelClass::LowLatency {
            return Kernel::LowLatency;
        }
        if special.mode == SpecialiseMode::Never {
            return Kernel::Interpreter;
        }
        match specialised_kernel(registry, &question, overrides, tuning.as_ref(), *small) {
            None => Kernel::Interpreter,
            Some(kernel) if kernel.is_kept(H200, special) => Kernel::Specialised,
            Some(_) => Kernel::NotCached,
        }
    }
}

impl Explained {
    /// What serves the call: the first that can.
    fn served(&self) -> Option<(&Alternative, ServiceSummary)> {
        self.alternatives.iter().find_map(|one| Some((one, *one.verdict.as_ref().ok()?)))
    }
}
