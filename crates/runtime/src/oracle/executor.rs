//! The executor: made once from a proved algorithm, run for any number of calls.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use msccl_collective::{Buffer, Collective, DataType, Kind, Placement, Reduction, SizeRange};
use msccl_plan::cut::Cut;
use msccl_plan::{Plan, Program, decode};
use msccl_verify::Verified;

use super::bind::{OracleBinding, Unlinked};
use super::call::{OracleCall, OracleFailure, Report};
use super::pool::RunEnd;
use super::rank_memory::RankMemory;
use super::run::{OracleRun, Worker};
use super::stall::{Stall, StallKind};
use crate::walk::{Average, CallContext, Cursor, Slicing, arithmetic, divider, reciprocal, scaler};

/// A proved algorithm, ready to run on host threads.
pub struct Executor {
    collective: Collective,
    placement: Placement,
    sizes: SizeRange,
    programs: Vec<Program>,
    bound: OracleBinding,
    #[cfg(test)]
    guards_counts: bool,
}

impl Executor {
    /// Makes the plans of all ranks, decodes their words and joins them.
    ///
    /// # Errors
    ///
    /// A number in the algorithm that a plan cannot hold.
    pub fn new(verified: &Verified) -> Result<Self, Unlinked> {
        let algorithm = verified.algorithm();
        let plans = Plan::all(verified).map_err(Unlinked::because)?;
        let decoded = plans.iter().map(|plan| decode(plan.words()).map_err(Unlinked::because));
        let programs = decoded.collect::<Result<_, _>>()?;
        Self::join(&algorithm.collective, algorithm.placement, algorithm.sizes, programs)
    }

    /// The executor of `programs`, one per rank.
    fn join(
        collective: &Collective,
        placement: Placement,
        sizes: SizeRange,
        programs: Vec<Program>,
    ) -> Result<Self, Unlinked> {
        let bound = OracleBinding::new(&programs)?;
        Ok(Self {
            collective: collective.clone(),
            placement,
            sizes,
            programs,
            bound,
            #[cfg(test)]
            guards_counts: true,
        })
    }

    /// The executor without its refusal of counts, to see what they would do.
    #[cfg(test)]
    pub(crate) fn without_count_guard(mut self) -> Self {
        self.guards_counts = false;
        self
    }

    /// What the algorithm computes.
    pub fn collective(&self) -> &Collective {
        &self.collective
    }

    /// Which calls it serves.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Whether there is memory for the inputs and outputs of a call on `count` elements.
    ///
    /// # Errors
    ///
    /// There is not.
    pub(crate) fn fits(&self, count: usize, data_type: DataType) -> Result<(), OracleFailure> {
        let bytes = self.slicing(count, data_type).and_then(|slicing| {
            let ranks = self.programs.iter().map(|program| program.geometry);
            let mut buffers = ranks.flat_map(|of| [of.input_chunks, of.output_chunks]);
            buffers.try_fold(0_usize, |sum, chunks| sum.checked_add(slicing.user_bytes(chunks)?))
        });
        let fits = bytes.is_some_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
        if fits { Ok(()) } else { Err(too_large(count)) }
    }

    /// Runs one call.
    ///
    /// # Errors
    ///
    /// The call is not served: its placement, its size or the length of an input is wrong. Or it
    /// did not finish in time. A proved algorithm does not stall.
    pub fn run(&self, call: &OracleCall) -> Result<Report, OracleFailure> {
        if let Some(apart) = self.average_apart(call) {
            return self.run_apart(call, apart);
        }
        let too_large = || too_large(call.count);
        let slicing = self.slicing(call.count, call.data_type).ok_or_else(too_large)?;
        self.admit(call, &slicing)?;
        let memory = self.memory(call, &slicing).ok_or_else(too_large)?;
        let arithmetic = arithmetic(call.data_type, call.reduction);
        let run = self.programs.first().and_then(|program| {
            let average = Average::new(program, call.data_type, call.reduction);
            let terms = CallContext { slicing, arithmetic, average };
            OracleRun::new(&self.bound, terms, program.links.depth, memory)
        });
        self.execute(call, &run.ok_or_else(too_large)?)
    }

    /// By how many contributions averages of inputs or outputs are formed, if `call` asks for an
    /// average that steps cannot form; all outputs must be sums.
    fn average_apart(&self, call: &OracleCall) -> Option<NonZeroU32> {
        let is_sum = match self.collective.kind {
            Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce { .. } => true,
            Kind::AllGather
            | Kind::AllToAll
            | Kind::Broadcast { .. }
            | Kind::Gather { .. }
            | Kind::Scatter { .. }
            | Kind::Custom(_) => false,
        };
        let lacks = |program: &Program| !program.averages(call.data_type);
        let is_apart =
            is_sum && call.reduction == Reduction::Avg && self.programs.iter().any(lacks);
        NonZeroU32::new(self.collective.ranks).filter(|_| is_apart)
    }

    /// Runs a sum whose inputs are scaled before it or whose outputs are divided after it.
    fn run_apart(
        &self,
        call: &OracleCall,
        contributions: NonZeroU32,
    ) -> Result<Report, OracleFailure> {
        let mut sum = OracleCall { reduction: Reduction::Sum, ..call.clone() };
        if call.data_type.is_float() {
            let scale = scaler(call.data_type);
            let scalar = reciprocal(call.data_type, contributions);
            sum.inputs.iter_mut().for_each(|input| scale(input, &scalar));
            return self.run(&sum);
        }
        let mut report = self.run(&sum)?;
        let divide = divider(call.data_type);
        report.outputs.iter_mut().for_each(|output| divide(output, contributions));
        Ok(report)
    }

    /// Runs the thread blocks over `run`.
    fn execute(&self, call: &OracleCall, run: &OracleRun<'_>) -> Result<Report, OracleFailure> {
        let blocks = self.bound.blocks.len();
        let cursors: Vec<_> = (0..blocks).map(|_| Mutex::new(Cursor::default())).collect();
        let turn = |block: usize, worker: &mut Worker| {
            // Never contended: the pool gives a task to one worker at a time.
            let mut cursor = cursors[block].lock().unwrap_or_else(PoisonError::into_inner);
            run.advance(block, &mut cursor, worker)
        };
        let start = Instant::now();
        let deadline = call.timeout.and_then(|timeout| start.checked_add(timeout));
        let workers = call.workers.count(blocks);
        let (end, workers) = run.pool.run(workers, deadline, Worker::default, turn);
        let elapsed_us = start.elapsed().as_secs_f64() * 1e6;
        let kind = match end {
            RunEnd::Finished => {
                return Ok(Report {
                    outputs: self.outputs(run),
                    elapsed_us,
                    messages: workers.iter().map(|worker| worker.messages).sum(),
                    message_bytes: workers.iter().map(|worker| worker.bytes).sum(),
                    rounds: run.terms.slicing.rounds as usize,
                    workers: workers.len(),
                });
            }
            RunEnd::Standstill => StallKind::Standstill,
            RunEnd::TimedOut => StallKind::TimedOut,
        };
        let blocked = cursors.into_iter().enumerate().filter_map(|(block, cursor)| {
            run.blocked(block, &cursor.into_inner().unwrap_or_else(PoisonError::into_inner))
        });
        Err(OracleFailure::Stalled(Stall { kind, blocked: blocked.collect() }))
    }

    /// Whether the plan `program` serves calls on blocks of `count` elements.
    fn serves(&self, program: &Program, count: usize) -> bool {
        #[cfg(test)]
        if !self.guards_counts {
            return true;
        }
        program.serves(count)
    }

    fn slicing(&self, count: usize, data_type: DataType) -> Option<Slicing> {
        let program = self.programs.first()?;
        let cut = Cut::new(program, count as u64, data_type.size_bytes() as u64, 1)?;
        Slicing::new(program, &cut)
    }

    /// Checks that the algorithm serves the call, and that the inputs are as long as it needs.
    fn admit(&self, call: &OracleCall, slicing: &Slicing) -> Result<(), OracleFailure> {
        let refuse = |reason: String| Err(OracleFailure::Refused(reason));
        let served = match call.in_place {
            true => self.placement.serves_in_place(),
            false => self.placement.serves_out_of_place(),
        };
        if !served {
            let way = if call.in_place { "in place" } else { "out of place" };
            return refuse(format!("a call {way}: the algorithm runs {}", self.placement));
        }
        if let Some(program) = self.programs.iter().find(|of| !self.serves(of, call.count)) {
            let chunks = program.geometry.block_chunks;
            return refuse(format!(
                "{} elements: the algorithm serves only counts that {chunks} divides, because some \
                 value passes through a later chunk of a block than the one it is for, and later \
                 chunks are shorter where they do not divide a block",
                call.count
            ));
        }
        let averages =
            |of: &&Program| call.reduction != Reduction::Avg || of.averages(call.data_type);
        if let Some(program) = self.programs.iter().find(|of| !averages(of)) {
            return refuse(program.no_average(call.data_type).to_owned());
        }
        let call_bytes = slicing.user_bytes(self.collective.loop_chunks()).unwrap_or(usize::MAX);
        if !self.sizes.contains(call_bytes as u64) {
            return refuse(format!("{call_bytes} bytes: the algorithm serves {}", self.sizes));
        }
        self.admit_inputs(call, slicing).map_err(OracleFailure::Refused)
    }

    /// Checks that there is an input for every rank, as long as it needs.
    fn admit_inputs(&self, call: &OracleCall, slicing: &Slicing) -> Result<(), String> {
        if call.inputs.len() != self.programs.len() {
            let (expected, found) = (self.programs.len(), call.inputs.len());
            return Err(format!("expected the inputs of {expected} ranks, found {found}"));
        }
        for (program, input) in self.programs.iter().zip(&call.inputs) {
            let expected = slicing.user_bytes(program.geometry.input_chunks);
            if expected != Some(input.len()) {
                let (rank, found) = (program.rank, input.len());
                let expected = expected.unwrap_or(usize::MAX);
                return Err(format!("input of {rank}: expected {expected} bytes, found {found}"));
            }
        }
        Ok(())
    }

    /// The memory of all ranks, with the inputs in place; `None` if it exceeds the address space.
    fn memory(&self, call: &OracleCall, slicing: &Slicing) -> Option<Vec<RankMemory>> {
        let ranks = self.programs.iter().zip(&call.inputs);
        ranks
            .map(|(program, input)| RankMemory::new(program, input, call.in_place, slicing))
            .collect()
    }

    /// The outputs of all ranks.
    fn outputs(&self, run: &OracleRun<'_>) -> Vec<Vec<u8>> {
        let ranks = self.programs.iter().zip(&run.memory);
        let output = |(program, memory): (&Program, &RankMemory)| {
            let (buffer, start) = memory.part(Buffer::Output);
            let bytes = run.terms.slicing.user_bytes(program.geometry.output_chunks).unwrap_or(0);
            buffer.to_vec(start..start + bytes)
        };
        ranks.map(output).collect()
    }
}

fn too_large(count: usize) -> OracleFailure {
    OracleFailure::Refused(format!("buffers for {count} elements exceed the memory"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use msccl_collective::{Channel, Custom, Protocol, Rank, Slot};
    use msccl_ir::{Packing, StepKind};
    use msccl_plan::{Alias, Counts, Geometry, LinkLimits, Operand, Step, ThreadBlock};

    use super::*;
    use crate::oracle::Workers;

    /// Two ranks that exchange their input chunks through one thread block each; `steps` are
    /// indices into: receive from the peer, send to the peer. No step runs beside another on the
    /// same memory.
    fn exchange(steps: &[usize], depth: u32) -> Executor {
        let program = |rank: u32| Program {
            rank: Rank(rank),
            ranks: 2,
            protocol: Protocol::Simple,
            placement: Placement::Both,
            alias: Alias::Same,
            geometry: Geometry {
                block_chunks: 2,
                input_chunks: 2,
                output_chunks: 2,
                scratch_chunks: 0,
            },
            threads: None,
            links: LinkLimits {
                depth,
                message_bytes: 16,
                slice_bytes: 16,
                packing: Packing::Fitting,
                count_limit: 8,
            },
            average: None,
            counts: Counts::Any,
            thread_blocks: vec![ThreadBlock {
                channel: Channel(0),
                receives: vec![Rank(1 - rank)],
                sends: vec![Rank(1 - rank)],
                deliveries: Vec::new(),
                steps: steps.iter().map(|&step| exchange_step(step)).collect(),
            }],
        };
        let collective = Collective { kind: Kind::AllReduce, ranks: 2, chunks: 2 };
        let programs = vec![program(0), program(1)];
        Executor::join(&collective, Placement::Both, SizeRange::ALL, programs).unwrap()
    }

    fn exchange_step(step: usize) -> Step {
        let local = |buffer| Operand::Local(Slot::new(buffer, 0));
        let (kind, source, destination) = match step {
            0 => (StepKind::Recv, Operand::Link(0), local(Buffer::Output)),
            _ => (StepKind::Send, local(Buffer::Input), Operand::Link(1)),
        };
        let (sources, destinations) = (vec![source], vec![destination]);
        let (completes, signals, waits, count, bundled) = (false, false, Vec::new(), 2, false);
        let (raw, far) = (Vec::new(), Vec::new());
        Step { kind, completes, signals, waits, sources, raw, destinations, count, bundled, far }
    }

    fn run(executor: &Executor, timeout: Option<Duration>) -> Result<Report, OracleFailure> {
        executor.run(&OracleCall {
            data_type: DataType::I32,
            reduction: Reduction::Sum,
            count: 16,
            in_place: false,
            inputs: vec![(0..64).collect(), (64..128).collect()],
            workers: Workers::Exactly(2),
            timeout,
        })
    }

    fn stall(executor: &Executor) -> String {
        match run(executor, None) {
            Err(OracleFailure::Stalled(stall)) => stall.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_exchange_exchanges() {
        // Two rounds of two messages each; the first round's are taken before the second's are
        // sent.
        let report = run(&exchange(&[1, 0], 2), None).unwrap();
        assert_eq!(report.outputs, [(64..128).collect::<Vec<u8>>(), (0..64).collect()]);
        assert_eq!((report.rounds, report.messages, report.message_bytes), (2, 8, 128));
    }

    #[test]
    fn receiving_first_stalls_and_names_the_senders() {
        let expected = "no thread block can go on:\n  \
             r0 tb0 s0 waits for a message from r1 on ch0 (message 0, round 0)\n  \
             r1 tb0 s0 waits for a message from r0 on ch0 (message 0, round 0)";
        assert_eq!(stall(&exchange(&[0, 1], 2)), expected);
    }

    #[test]
    fn a_link_too_shallow_stalls_and_names_the_receivers() {
        let stall = stall(&exchange(&[1, 0], 1));
        let first = "r0 tb0 s0 waits for room on its link to r1 on ch0";
        assert!(stall.contains(first), "{stall}");
        assert!(stall.contains("(message 1, round 0)"), "{stall}");
    }

    #[test]
    fn a_run_beyond_its_time_says_so() {
        let Err(OracleFailure::Stalled(stall)) = run(&exchange(&[1, 0], 2), Some(Duration::ZERO))
        else {
            panic!("the run finished in no time")
        };
        assert_eq!(stall.kind, StallKind::TimedOut);
    }

    #[test]
    fn an_average_of_a_custom_collective_without_a_completing_step_is_refused() {
        let mut executor = exchange(&[1, 0], 2);
        let name = "exchange".to_owned();
        let custom = Custom { name, input_chunks: 2, output_chunks: 2, contract: None };
        executor.collective.kind = Kind::Custom(Arc::new(custom));
        let average = Some(msccl_plan::Average { of: 2, completes: false, raw: true });
        executor.programs.iter_mut().for_each(|program| program.average = average);
        let (data_type, reduction, workers) = (DataType::I8, Reduction::Avg, Workers::Available);
        let inputs = vec![vec![0; 4]; 2];
        let (in_place, count, timeout) = (false, 4, None);
        let call = OracleCall { data_type, reduction, count, in_place, inputs, workers, timeout };
        let Err(OracleFailure::Refused(reason)) = executor.run(&call) else {
            panic!("it was served")
        };
        let expected = "does not support avg of integers: no single set of steps \
                        produces the final sums";
        assert_eq!(reason, expected);
        assert!(executor.run(&OracleCall { data_type: DataType::F8E4M3, ..call }).is_ok());
    }
}
