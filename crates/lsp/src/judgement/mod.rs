//! From a text to what is wrong with it: the same questions in the same order as the command
//! `msccl check` asks, of every algorithm and launch.
//!
//! ```text
//! parse ──▶ evaluate, promise, compile (each launch) ──▶ first report
//!                                                   └──▶ prove (each launch) ──▶ second report
//! ```
//!
//! Between any two steps the run looks whether it is still needed.

mod facts;
mod faults;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use msccl_compiler::chunk::{ChunkDag, OrderClaim, check_promise};
use msccl_compiler::evaluate::{Launch, Loader, evaluate};
use msccl_compiler::schedule::Origins;
use msccl_compiler::{Compiled, compile_chunks};
use msccl_ir::{Algorithm, Target};
use msccl_syntax::{Diagnostic, FileId, SourceMap, Span, ast, condensed, parse};
use msccl_topology::cluster::Cluster;
use msccl_topology::cluster::counts::GpuCounts;
use msccl_topology::cluster::ranks::RankTopology;
use msccl_verify::verify_claim;

use crate::host::Host;
use crate::launch::{LaunchError, RequestedLaunch, Settings, launches};

pub use facts::Proof;
pub use faults::{Finding, Place};

/// Whether a run is still needed. Copies are about the same run.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

/// The run is no longer needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancelled;

impl Cancellation {
    /// Says that it is not.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody said so.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}

/// What is to be judged.
pub struct Question {
    /// The name of the text among the sources.
    pub name: Arc<str>,
    /// The text.
    pub text: Arc<str>,
    /// Texts that are open, by name: they count, not the files.
    pub open: Arc<HashMap<Arc<str>, Arc<str>>>,
    /// What the editor's settings say.
    pub settings: Settings,
    /// For how many ranks lenses chose to judge, by algorithm.
    pub chosen: HashMap<String, u32>,
    /// Files and machines.
    pub host: Arc<dyn Host>,
}

/// How far a judgement got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Nothing is proved yet; a second report follows.
    Compiled,
    /// This is all.
    Final,
}

/// What was found out.
pub struct Judgement {
    /// How far it got.
    pub stage: Stage,
    /// The texts, to which all places refer.
    pub sources: SourceMap,
    /// The text in question among them.
    pub file: FileId,
    /// What is wrong, or hardly meant.
    pub findings: Vec<Finding>,
    /// What became of each launch of each algorithm.
    pub algorithms: Vec<Judged>,
}

/// What became of one launch of an algorithm.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The launch.
    pub launch: RequestedLaunch,
    /// Where the name of the algorithm stands.
    pub name_span: Span,
    /// What moves, if it has a meaning.
    pub moves: Option<Arc<ChunkDag>>,
    /// The verdict.
    pub verdict: Verdict,
}

/// A verdict on a launch.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The verifier did not run, or has not answered.
    Open,
    /// It does what it promises.
    Proved(Box<Proof>),
    /// It does not.
    Refused {
        /// Which kind of fault, or what is wrong with the program.
        kind: String,
        /// In one sentence.
        message: String,
    },
}

/// Judges a text; the first report, if there are two, goes to `compiled`.
///
/// # Errors
///
/// It is no longer needed.
pub fn judge(
    question: &Question,
    cancellation: &Cancellation,
    compiled: &mut dyn FnMut(Judgement),
) -> Result<Judgement, Cancelled> {
    let mut sources = SourceMap::new();
    let file = sources.add(&*question.name, &*question.text);
    let tree = match parse(&sources, file) {
        Ok(tree) => tree,
        Err(found) => {
            let findings = found.into_iter().map(Finding::of_text).collect();
            let algorithms = Vec::new();
            return Ok(Judgement { stage: Stage::Final, sources, file, findings, algorithms });
        }
    };
    let run = Run { question, cancellation, file };
    let chosen = |name: &str| question.chosen.get(name).copied();
    let (launches, errors) = launches(&question.text, &tree, &question.settings, chosen);
    let mut findings: Vec<_> = errors.iter().map(|error| misunderstood(file, error)).collect();
    let mut candidates = Vec::new();
    for launch in launches {
        cancellation.check()?;
        candidates.push(run.compile(&mut sources, &tree, launch));
    }
    if candidates.is_empty() {
        findings.extend(run.without_algorithm(&mut sources));
    }
    let prove = question.settings.prove && candidates.iter().any(|it| it.program.is_ok());
    if prove {
        compiled(report(Stage::Compiled, &sources, file, &findings, &candidates));
        for candidate in &mut candidates {
            cancellation.check()?;
            candidate.prove();
        }
        cancellation.check()?;
    }
    Ok(report(Stage::Final, &sources, file, &findings, &candidates))
}

/// A report of what is known so far.
fn report(
    stage: Stage,
    sources: &SourceMap,
    file: FileId,
    findings: &[Finding],
    candidates: &[Candidate],
) -> Judgement {
    let several = |launch: &RequestedLaunch| {
        let same = candidates.iter().filter(|it| it.judged.launch.algorithm == launch.algorithm);
        same.count() > 1
    };
    let mut findings = findings.to_vec();
    for candidate in candidates {
        let launch = &candidate.judged.launch;
        for finding in &candidate.findings {
            let known =
                findings.iter().any(|known: &Finding| known.diagnostic == finding.diagnostic);
            if !known {
                let words = Some(launch.words()).filter(|_| several(launch));
                findings.push(Finding { launch: words, ..finding.clone() });
            }
        }
    }
    let algorithms = candidates.iter().map(|candidate| candidate.judged.clone()).collect();
    Judgement { stage, sources: sources.clone(), file, findings, algorithms }
}

fn misunderstood(file: FileId, error: &LaunchError) -> Finding {
    let LaunchError { bytes, message } = error;
    let span = Span { file, start: bytes.start as u32, end: bytes.end as u32 };
    Finding::of_text(Diagnostic::warning(span, message.clone()))
}

/// A launch on its way.
struct Candidate {
    judged: Judged,
    findings: Vec<Finding>,
    /// What to prove; `Err` if there is nothing.
    program: Result<Program, ()>,
}

/// A compiled program.
struct Program {
    algorithm: Algorithm,
    origins: Origins,
    claim: Option<OrderClaim>,
    target: Target,
    cluster: Option<Cluster>,
}

/// What all launches of one text have in common.
struct Run<'a> {
    question: &'a Question,
    cancellation: &'a Cancellation,
    file: FileId,
}

impl Run<'_> {
    fn compile(
        &self,
        sources: &mut SourceMap,
        tree: &ast::File,
        launch: RequestedLaunch,
    ) -> Candidate {
        let name_span = name_of(tree, &launch.algorithm).unwrap_or(self.whole(0));
        let verdict = Verdict::Open;
        let judged = Judged { launch, name_span, moves: None, verdict };
        let mut candidate = Candidate { judged, findings: Vec::new(), program: Err(()) };
        match self.requested(&candidate.judged.launch) {
            Err(message) => {
                let diagnostic = Diagnostic::error(name_span, message.clone());
                candidate.refuse("machine", vec![diagnostic], Finding::of_text);
            }
            Ok((launch, target, cluster)) => {
                self.compile_for(sources, &launch, target, cluster, &mut candidate);
            }
        }
        candidate
    }

    fn compile_for(
        &self,
        sources: &mut SourceMap,
        launch: &Launch,
        target: Target,
        cluster: Option<Cluster>,
        candidate: &mut Candidate,
    ) {
        let loader = OpenTexts { question: self.question };
        let chunks = match evaluate(sources, self.file, &loader, launch) {
            Ok(chunks) => chunks,
            Err(found) => return candidate.refuse("program", found, Finding::of_text),
        };
        candidate.findings.extend(chunks.warnings.iter().cloned().map(Finding::of_text));
        candidate.judged.moves = Some(Arc::new(chunks.clone()));
        if self.cancellation.is_cancelled() {
            return;
        }
        if let Err(found) = check_promise(&chunks) {
            return candidate.refuse("wrong-result", condensed(found), Finding::of_promise);
        }
        let claim = chunks.order_claim;
        let target = target.on_nodes(chunks.per_node);
        match compile_chunks(chunks, &target) {
            Ok(Compiled { chunks: _, instructions: _, schedule }) => {
                let (algorithm, origins) = (schedule.algorithm, schedule.origins);
                candidate.program = Ok(Program { algorithm, origins, claim, target, cluster });
            }
            Err(found) => candidate.refuse("limits", condensed(found), Finding::of_limits),
        }
    }

    /// What the compiler is given.
    fn requested(
        &self,
        launch: &RequestedLaunch,
    ) -> Result<(Launch, Target, Option<Cluster>), String> {
        let RequestedLaunch { algorithm, ranks, per_node, topology, target, params } = launch;
        let cluster = topology.as_ref().map(|what| self.question.host.cluster(what)).transpose()?;
        let gpus = cluster.as_ref().map(GpuCounts::of).unwrap_or_default();
        let ranks = ranks.or(gpus.all);
        let name = target.as_deref().unwrap_or("native");
        let target = Target::by_name(name)
            .ok_or_else(|| format!("expected the target `native` or `msccl`, found `{name}`"))?;
        let launch = Launch {
            algorithm: Some(algorithm.clone()),
            ranks,
            per_node: per_node.or(gpus.per_node_of(ranks)),
            topology: cluster.as_ref().map(|cluster| Arc::new(RankTopology::of(cluster))),
            params: params.clone(),
            ..Launch::default()
        };
        Ok((launch, target, cluster))
    }

    /// A module: its definitions are looked at, and that it has no algorithm is no mistake.
    fn without_algorithm(&self, sources: &mut SourceMap) -> Vec<Finding> {
        let loader = OpenTexts { question: self.question };
        let Err(found) = evaluate(sources, self.file, &loader, &Launch::default()) else {
            return Vec::new();
        };
        let nothing = self.whole(0);
        let is_mistake = |diagnostic: &Diagnostic| {
            let place = diagnostic.labels.first().map(|label| label.span);
            place != Some(nothing)
        };
        found.into_iter().filter(is_mistake).map(Finding::of_text).collect()
    }

    /// The first bytes of the file.
    fn whole(&self, end: u32) -> Span {
        Span { file: self.file, start: 0, end }
    }
}

impl Candidate {
    fn refuse(
        &mut self,
        kind: &str,
        found: Vec<Diagnostic>,
        finding: impl Fn(Diagnostic) -> Finding,
    ) {
        let message = found.first().map(|first| first.message.clone()).unwrap_or_default();
        self.judged.verdict = Verdict::Refused { kind: kind.to_owned(), message };
        self.findings.extend(found.into_iter().map(finding));
    }

    /// Asks the verifier.
    fn prove(&mut self) {
        let Ok(program) = std::mem::replace(&mut self.program, Err(())) else { return };
        let Program { algorithm, origins, claim, target, cluster } = program;
        let order = claim.map(|claim| claim.order);
        match verify_claim(algorithm, &target, order) {
            Ok(verified) => {
                self.findings.extend(faults::unread(&verified, &origins));
                let proof = Proof::of(&verified, cluster.as_ref());
                self.judged.verdict = Verdict::Proved(Box::new(proof));
            }
            Err(refusal) => {
                let first = refusal.faults.first();
                let kind = first.map(|fault| fault.kind.name().to_owned()).unwrap_or_default();
                let message = first.map(|fault| fault.message.clone()).unwrap_or_default();
                self.judged.verdict = Verdict::Refused { kind, message };
                let whole = self.judged.name_span;
                self.findings.extend(faults::of_refusal(&refusal, &origins, claim, whole));
            }
        }
    }
}

/// Where the name of an algorithm stands.
fn name_of(tree: &ast::File, name: &str) -> Option<Span> {
    let names = tree.items.iter().filter_map(|item| match item {
        ast::Item::Algorithm(item) => Some(&item.name),
        ast::Item::Function(_) | ast::Item::Collective(_) => None,
    });
    names.into_iter().find(|it| it.text == name).map(|it| it.span)
}

/// Files, as far as they are not open.
struct OpenTexts<'a> {
    question: &'a Question,
}

impl Loader for OpenTexts<'_> {
    fn load(&self, importer: &str, path: &str) -> Result<(String, String), String> {
        let Question { open, host, .. } = self.question;
        let (name, text) = host.load(importer, path)?;
        let text = open.get(name.as_str()).map_or(text, |open| open.to_string());
        Ok((name, text))
    }
}
