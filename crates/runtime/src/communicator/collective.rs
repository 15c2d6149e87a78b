//! One collective on its way to the engine: what serves it, and what is done before and after.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use msccl_collective::{CallPlacement, Reduction};
use msccl_select::{CallShape, Combined, Decision, PlacementFallback};

use super::Communicator;
use super::carried::Carried;
use super::observation::observed;
use crate::call::{Blocks, Buffers, CollectiveCall, Scalar};
use crate::engine::{
    BlockSignals, CallRequest, CarriedCall, CarriedReduction, DecidedCall, OwnBlock, ScaleBy,
    Scaling,
};
use crate::error::Error;
use crate::event::Event;
use crate::recent::Recent;
use crate::walk::reciprocal;

/// The shapes of the last calls of a communicator, and what serves them: calls often come with the
/// same few shapes, and then nothing is looked up.
pub type RecentDecisions = Recent<(CallShape, Arc<Decision>), 4>;

/// Elements of a part of an all-reduce are a multiple of that.
const PART_UNIT: u64 = 256;

impl Communicator {
    /// Executes a collective.
    pub(super) fn collective(
        &self,
        call: &CollectiveCall,
        number: u64,
        recent: &mut RecentDecisions,
    ) -> Result<(), Error> {
        let signals = self.inner.block_signals.swap(0, Ordering::Relaxed);
        let own_block = match self.inner.omits_own_block.swap(false, Ordering::Relaxed) {
            true => OwnBlock::Omitted,
            false => OwnBlock::Copied,
        };
        if call.shape.count == 0 {
            return self.empty(call, signals);
        }
        if let Some(carried) = self.carried(call, signals)? {
            return self.carry(call, &carried, signals, own_block, number);
        }
        if signals != 0 {
            return self.signalled(call, signals, number, recent);
        }
        let call = self.scaled(call)?;
        if self.ranks() == 1 {
            return self.alone(&call);
        }
        let decision = self.decide(&call, recent)?;
        let CallShape { data_type, reduction, .. } = call.shape;
        if reduction == Some(Reduction::Avg) && !decision.averages {
            return self.average_apart(&call, number);
        }
        let (reduction, buffers) = (reduction.unwrap_or(Reduction::Sum), call.buffers);
        let request = self.request(&call);
        let decided = DecidedCall { decision, data_type, reduction, buffers, number, request };
        observed(&self.inner.settings, call.tag, &decided, || match decision.fallback {
            PlacementFallback::None => self.inner.engine.collective(&decided),
            PlacementFallback::InPlace => self.run_in_place(&call, &decided),
            PlacementFallback::OutOfPlace => self.run_out_of_place(&call, &decided),
        })
    }

    /// Has copy engines carry `call`.
    fn carry(
        &self,
        call: &CollectiveCall,
        carried: &Carried,
        signals: u64,
        own_block: OwnBlock,
        number: u64,
    ) -> Result<(), Error> {
        let Carried { decision, combined, outputs, signals: by_copies } = carried;
        let call = &self.scaled(call)?;
        let (inner, shape) = (&self.inner, &call.shape);
        let buffers = match decision.fallback {
            PlacementFallback::None | PlacementFallback::InPlace => call.buffers,
            PlacementFallback::OutOfPlace => self.input_apart(call)?,
        };
        let decided = DecidedCall {
            decision,
            data_type: shape.data_type,
            reduction: shape.reduction.unwrap_or(Reduction::Sum),
            buffers,
            number,
            request: self.request(call),
        };
        let shared_state = &inner.shared_state;
        if let Some(combined) = combined {
            let ranks = u64::from(self.ranks());
            let (part_elements, all_elements, outputs) = match combined {
                Combined::Own => (shape.count, shape.count * ranks, None),
                Combined::All => {
                    // Parts begin as aligned as buffers do.
                    let part = shape.count.div_ceil(ranks).next_multiple_of(PART_UNIT);
                    (part, shape.count, Some(&outputs[..]))
                }
            };
            let reduction =
                CarriedReduction { decided, part_elements, all_elements, outputs, shared_state };
            return observed(&inner.settings, call.tag, &decided, || {
                inner.engine.carry_reduction(&reduction)
            });
        }
        let signals = match (signals, by_copies) {
            (0, _) => BlockSignals::None,
            (_, Some(signals)) => BlockSignals::ByCopies(signals),
            (address, None) => BlockSignals::AtEnd { address, blocks: self.output_blocks(call) },
        };
        observed(&inner.settings, call.tag, &decided, || {
            inner.engine.carry(&CarriedCall { decided, outputs, signals, own_block, shared_state })
        })
    }

    /// A call of no elements, whose blocks are always there.
    fn empty(&self, call: &CollectiveCall, signals: u64) -> Result<(), Error> {
        let (engine, stream) = (&self.inner.engine, call.buffers.stream);
        engine.pass(stream)?;
        match signals {
            0 => Ok(()),
            _ => engine.set_signals(signals, self.output_blocks(call), 1, stream),
        }
    }

    /// Executes `call` and sets the `signals` of its blocks when all are there.
    fn signalled(
        &self,
        call: &CollectiveCall,
        signals: u64,
        number: u64,
        recent: &mut RecentDecisions,
    ) -> Result<(), Error> {
        let (blocks, stream) = (self.output_blocks(call), call.buffers.stream);
        self.inner.engine.set_signals(signals, blocks, 0, stream)?;
        self.collective(call, number, recent)?;
        self.inner.engine.set_signals(signals, blocks, 1, stream)
    }

    /// Blocks of the output of `call` on this rank.
    fn output_blocks(&self, call: &CollectiveCall) -> u64 {
        call.blocks(self.rank(), self.ranks()).output
    }

    /// What the caller of `call` asked for.
    fn request(&self, call: &CollectiveCall) -> CallRequest {
        let CallShape { kind, placement, count, .. } = call.shape;
        let bytes = call.shape.bytes(self.ranks());
        CallRequest { collective: kind.name(), placement, count, bytes }
    }

    /// What serves `call`: as the last time, if one of the last calls was of the same shape.
    fn decide<'a>(
        &self,
        call: &CollectiveCall,
        recent: &'a mut RecentDecisions,
    ) -> Result<&'a Decision, Error> {
        let shape = &call.shape;
        let choose = || {
            let (decision, is_new) = self.inner.selector.choose(shape)?;
            if is_new {
                self.log_decision(call, &decision);
            }
            Ok::<_, Error>((*shape, decision))
        };
        let (_, decision) = recent.find_or_make(|(of, _)| of == shape, choose)?;
        Ok(decision)
    }

    /// Executes `call`, which is out of place, by an algorithm that runs in place.
    fn run_in_place(&self, call: &CollectiveCall, decided: &DecidedCall<'_>) -> Result<(), Error> {
        let Buffers { send, receive, stream } = decided.buffers;
        let (block, engine) = (call.shape.block_bytes(), &self.inner.engine);
        let own = block * u64::from(self.rank().0);
        let Blocks { input, output } = call.blocks(self.rank(), self.ranks());
        let at =
            |send, receive| DecidedCall { buffers: Buffers { send, receive, stream }, ..*decided };
        if input <= output {
            // Only an all-gather reads less than it writes: the own block.
            let to = if input < output { receive + own } else { receive };
            engine.copy(send, to, block * input, stream)?;
            return engine.collective(&at(to, receive));
        }
        // The caller's input stays as it is. What was scaled lies in a copy already.
        let to = engine.scratch(block * input)?;
        if send != to {
            engine.copy(send, to, block * input, stream)?;
        }
        engine.collective(&at(to, to + own))?;
        engine.copy(to + own, receive, block * output, stream)
    }

    /// Executes `call`, which is in place, by an algorithm that runs out of place.
    fn run_out_of_place(
        &self,
        call: &CollectiveCall,
        decided: &DecidedCall<'_>,
    ) -> Result<(), Error> {
        let buffers = self.input_apart(call)?;
        self.inner.engine.collective(&DecidedCall { buffers, ..*decided })
    }

    /// Copies the input of `call`, so that nothing that is written to the output changes it.
    fn input_apart(&self, call: &CollectiveCall) -> Result<Buffers, Error> {
        let Buffers { send, stream, .. } = call.buffers;
        let engine = &self.inner.engine;
        let bytes = call.shape.block_bytes() * call.blocks(self.rank(), self.ranks()).input;
        let to = engine.scratch(bytes)?;
        engine.copy(send, to, bytes, stream)?;
        Ok(Buffers { send: to, ..call.buffers })
    }

    /// An average by an algorithm that does not say at which steps it could be formed: inputs are
    /// scaled before it, or outputs divided after it.
    fn average_apart(&self, call: &CollectiveCall, number: u64) -> Result<(), Error> {
        let Some(ranks) = NonZeroU32::new(self.ranks()) else { return Ok(()) };
        let (data_type, mut apart) = (call.shape.data_type, RecentDecisions::default());
        let shape = CallShape { reduction: Some(Reduction::Sum), ..call.shape };
        let sum = CollectiveCall { shape, ..*call };
        if data_type.is_float() {
            let scalar = Scalar::Immediate(u64::from_le_bytes(reciprocal(data_type, ranks)));
            let sum = CollectiveCall { scalar: Some(scalar), ..sum };
            return self.collective(&sum, number, &mut apart);
        }
        self.collective(&sum, number, &mut apart)?;
        let elements = shape.count * call.blocks(self.rank(), self.ranks()).output;
        if elements == 0 {
            return Ok(());
        }
        let Buffers { receive, stream, .. } = call.buffers;
        let by = ScaleBy::Divisor(ranks);
        let scaling = Scaling { from: receive, to: receive, elements, data_type, by };
        self.inner.engine.scale(&scaling, stream)
    }

    /// Logs what serves a shape of call, once for every variant that serves it.
    pub(super) fn log_decision(&self, call: &CollectiveCall, decision: &Decision) {
        let (inner, call) = (&self.inner, self.described(call));
        for reason in &decision.passed_over {
            inner.log(&Event::PassedOver { call: call.clone(), reason: reason.clone() });
        }
        inner.log(&Event::Serves { call, by: decision.describe() });
    }

    /// `call` in logs.
    pub(super) fn described(&self, call: &CollectiveCall) -> String {
        let shape = &call.shape;
        format!("{call} {} ({} bytes)", shape.placement, shape.bytes(self.ranks()))
    }

    /// The call with its inputs scaled, if it asks for that: it then reads what was set aside.
    fn scaled(&self, call: &CollectiveCall) -> Result<CollectiveCall, Error> {
        let Some(scalar) = call.scalar else { return Ok(*call) };
        let Buffers { send, stream, .. } = call.buffers;
        let blocks = call.blocks(self.rank(), self.ranks()).input;
        let engine = &self.inner.engine;
        let to = engine.scratch(blocks * call.shape.block_bytes())?;
        let CallShape { data_type, count, .. } = call.shape;
        let (elements, by) = (count * blocks, ScaleBy::Scalar(scalar));
        engine.scale(&Scaling { from: send, to, elements, data_type, by }, stream)?;
        // What was set aside lies nowhere in the output.
        let shape = CallShape { placement: CallPlacement::OutOfPlace, ..call.shape };
        let buffers = Buffers { send: to, ..call.buffers };
        Ok(CollectiveCall { shape, buffers, ..*call })
    }

    /// A collective of one rank: what it contributes is the result.
    fn alone(&self, call: &CollectiveCall) -> Result<(), Error> {
        let Buffers { send, receive, stream } = call.buffers;
        if send == receive {
            return self.inner.engine.pass(stream);
        }
        self.inner.engine.copy(send, receive, call.shape.block_bytes(), stream)
    }
}
