//! One collective call as all ranks make it, and what their memory must hold afterwards.
//!
//! A rank's memory is an image: guards, input, guard, output, guard. The whole image is compared,
//! so a write outside the output is seen as well as a wrong result.

use std::ops::Range;

use msccl_collective::{CallPlacement, Collective, CollectiveKind, DataType, Rank, Reduction};
use msccl_runtime::oracle::{OracleCall, Workers};
use msccl_runtime::{Blocks, Buffers, Call, CallShape, Combine, Operation, Scalar, reference};

use crate::Trouble;
use crate::memory::ALIGNMENT;
use crate::oracle::Oracle;
use crate::random::Random;
use crate::values::{extreme, multiplied, rounded, scalar_bits};

/// Bytes before, between and after buffers, which nobody may write.
const GUARD: usize = ALIGNMENT;

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The collective.
    pub kind: CollectiveKind,
    /// How contributions combine, where they do.
    pub reduction: Reduction,
    /// The type of every element.
    pub data_type: DataType,
    /// Elements of one block.
    pub count: usize,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// By how many elements input and output are shifted from a good alignment.
    pub shift: [usize; 2],
    /// What contributions are.
    pub numbers: Numbers,
    /// Whether every rank's contribution is multiplied by its own scalar, and where that lies.
    pub scale: Option<Residence>,
    /// What inputs follow from.
    pub seed: u64,
}

/// What contributions are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// Such that nothing is rounded.
    Exact,
    /// Such that sums are rounded. What is right depends on the algorithm.
    Rounded,
    /// The largest, the least and others: only averages do not overflow. What is right depends on
    /// the algorithm.
    Extreme,
}

/// Where a scalar lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Residence {
    /// In the call.
    Call,
    /// In the rank's memory.
    Memory,
}

/// What a rank's memory holds, and where in it the buffers lie.
#[derive(Clone)]
pub struct Image {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where the input begins.
    pub send: usize,
    /// Where the output begins.
    pub receive: usize,
    /// Where the rank's scalar lies.
    scalar: usize,
    /// What the call may change beside the output.
    pub free: Range<usize>,
}

impl Case {
    /// A small call out of place, of exact numbers; the beginning of others.
    pub fn of(kind: CollectiveKind) -> Self {
        Self {
            kind,
            reduction: Reduction::Sum,
            data_type: DataType::F32,
            count: 1000,
            in_place: false,
            shift: [0, 0],
            numbers: Numbers::Exact,
            scale: None,
            seed: 1,
        }
    }

    /// How contributions combine as they are; `None` if they are scaled before.
    pub fn plain(&self) -> Option<Combine> {
        self.scale.is_none().then_some(Combine::Plain(self.reduction))
    }

    /// What a rank asks for that combines in that way.
    pub fn operation(&self, combine: Combine) -> Operation {
        match self.kind {
            CollectiveKind::AllReduce => Operation::AllReduce(combine),
            CollectiveKind::AllGather => Operation::AllGather,
            CollectiveKind::ReduceScatter => Operation::ReduceScatter(combine),
            CollectiveKind::AllToAll => Operation::AllToAll,
            CollectiveKind::Broadcast(root) => Operation::Broadcast(root),
            CollectiveKind::Reduce(root) => Operation::Reduce(root, combine),
            CollectiveKind::Gather(root) => Operation::Gather(root),
            CollectiveKind::Scatter(root) => Operation::Scatter(root),
        }
    }

    /// The call of `rank`, whose memory begins at `base`.
    pub fn call(&self, rank: Rank, base: u64, image: &Image, stream: u64) -> Call {
        let combine = match self.scale {
            None => Combine::Plain(self.reduction),
            Some(Residence::Call) => {
                Combine::Scaled(Scalar::Immediate(scalar_bits(self.data_type, rank)))
            }
            Some(Residence::Memory) => Combine::Scaled(Scalar::At(base + image.scalar as u64)),
        };
        Call {
            operation: self.operation(combine),
            data_type: self.data_type,
            count: self.count as u64,
            buffers: Buffers {
                send: base + image.send as u64,
                receive: base + image.receive as u64,
                stream,
            },
        }
    }

    /// The shape of such calls, where contributions combine as they are.
    pub fn shape(&self) -> CallShape {
        let Self { kind, in_place, data_type, count, .. } = *self;
        CallShape {
            kind,
            placement: CallPlacement::from_in_place(in_place),
            data_type,
            reduction: kind.reduces().then_some(self.reduction),
            count: count as u64,
        }
    }

    /// The inputs of all ranks.
    pub fn inputs(&self, ranks: u32) -> Vec<Vec<u8>> {
        let collective = self.collective(ranks);
        let make = match self.numbers {
            Numbers::Exact => {
                let Self { data_type, reduction, count, seed, .. } = *self;
                return reference::inputs(&collective, data_type, reduction, count, seed);
            }
            Numbers::Rounded => rounded,
            Numbers::Extreme => extreme,
        };
        let mut random = Random::new(self.seed);
        let ranks = collective.all_ranks();
        let blocks = ranks.map(|rank| collective.input_chunks(rank) as usize);
        blocks.map(|blocks| make(self.data_type, blocks * self.count, &mut random)).collect()
    }

    /// What the outputs must be. Where sums are rounded, `algorithm` and the oracle decide.
    pub fn outputs(
        &self,
        ranks: u32,
        inputs: &[Vec<u8>],
        algorithm: &str,
        oracle: &mut Oracle,
    ) -> Result<Vec<Vec<u8>>, Trouble> {
        let Self { data_type, reduction, count, in_place, .. } = *self;
        if self.numbers == Numbers::Exact {
            return Ok(self.exact_outputs(ranks, inputs));
        }
        let (workers, inputs) = (Workers::Available, inputs.to_vec());
        let job =
            OracleCall { data_type, reduction, count, in_place, inputs, workers, timeout: None };
        oracle.outputs(algorithm, self.kind, &job)
    }

    /// What the outputs must be where nothing is rounded.
    pub fn exact_outputs(&self, ranks: u32, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let Self { data_type, reduction, count, .. } = *self;
        let collective = self.collective(ranks);
        let mut outputs = vec![Vec::new(); ranks as usize];
        let scaled = |(rank, input): (usize, &Vec<u8>)| match self.scale {
            None => input.clone(),
            Some(_) => multiplied(data_type, input, Rank::from(rank)),
        };
        let inputs: Vec<_> = inputs.iter().enumerate().map(scaled).collect();
        let promised = reference::expected(&collective, data_type, reduction, count, &inputs);
        for part in promised {
            // The parts of an output come in order and leave nothing out.
            outputs[part.rank.index()].extend_from_slice(&part.bytes);
        }
        outputs
    }

    /// The memory of `rank` before the call.
    pub fn image(&self, rank: Rank, ranks: u32, input: &[u8]) -> Image {
        let size = self.data_type.size_bytes();
        let block = self.count * size;
        // Outputs of calls out of place lie at the same place on all ranks, whatever each reads. A
        // rank without input or output still names one, which nobody may touch.
        let of_all = (0..ranks).map(|rank| self.blocks(Rank(rank), ranks));
        let most =
            |[read, written]: [u64; 2], of: Blocks| [read.max(of.input), written.max(of.output)];
        let [read_bytes, written_bytes] =
            of_all.fold([1; 2], most).map(|blocks| blocks as usize * block);
        let at = |from: usize, shift: usize| from.next_multiple_of(ALIGNMENT) + shift * size;
        let own = rank.index() * block;
        let (send, receive, end, free) = if self.shares_memory(rank, ranks) {
            let base = at(GUARD, self.shift[0]);
            let end = base + read_bytes.max(written_bytes);
            match self.kind {
                CollectiveKind::AllGather | CollectiveKind::Gather(_) => {
                    (base + own, base, end, 0..0)
                }
                CollectiveKind::ReduceScatter | CollectiveKind::Scatter(_) => {
                    (base, base + own, end, base..end)
                }
                CollectiveKind::AllReduce
                | CollectiveKind::AllToAll
                | CollectiveKind::Broadcast(_)
                | CollectiveKind::Reduce(_) => (base, base, end, 0..0),
            }
        } else {
            let send = at(GUARD, self.shift[0]);
            let receive = at(send + read_bytes + GUARD, self.shift[1]);
            (send, receive, receive + written_bytes, 0..0)
        };
        let scalar = at(end + GUARD, 0);
        let mut random = Random::new(self.seed ^ u64::from(rank.0));
        let mut bytes = vec![0; scalar + size + GUARD];
        bytes.iter_mut().for_each(|byte| *byte = random.next() as u8);
        bytes[send..send + input.len()].copy_from_slice(input);
        let bits = scalar_bits(self.data_type, rank).to_le_bytes();
        bytes[scalar..scalar + size].copy_from_slice(&bits[..size]);
        Image { bytes, send, receive, scalar, free }
    }

    /// Whether input and output of `rank` share memory: it must have both.
    pub fn shares_memory(&self, rank: Rank, ranks: u32) -> bool {
        let Blocks { input, output } = self.blocks(rank, ranks);
        self.in_place && input != 0 && output != 0
    }

    fn blocks(&self, rank: Rank, ranks: u32) -> Blocks {
        let empty = Image { bytes: Vec::new(), send: 0, receive: 0, scalar: 0, free: 0..0 };
        self.call(rank, 0, &empty, 0).blocks(rank, ranks)
    }

    fn collective(&self, ranks: u32) -> Collective {
        let kind = self.kind.into();
        Collective { kind, ranks, chunks: 1 }
    }

    /// In a few words, for failures.
    pub fn describe(&self) -> String {
        let Self { kind, reduction, data_type, count, in_place, shift, numbers, scale, seed } =
            self;
        let place = if *in_place { "in place" } else { "out of place" };
        let numbers = match numbers {
            Numbers::Exact => "exact",
            Numbers::Rounded => "rounded",
            Numbers::Extreme => "extreme",
        };
        let [input, output] = shift;
        let scaled = match scale {
            None => "",
            Some(Residence::Call) => "scaled ",
            Some(Residence::Memory) => "scaled from memory ",
        };
        format!(
            "{kind:?} {scaled}{reduction} of {count} {data_type} {place}, shifted by {input} and \
             {output}, {numbers} numbers, seed {seed}"
        )
    }
}

impl Image {
    /// Compares what is there after the call with what must be.
    pub fn check(&self, found: &[u8], output: &[u8], element_bytes: usize) -> Result<(), Trouble> {
        let mut expected = self.bytes.clone();
        expected[self.free.clone()].copy_from_slice(&found[self.free.clone()]);
        let written = self.receive..self.receive + output.len();
        expected[written.clone()].copy_from_slice(output);
        if expected == found {
            return Ok(());
        }
        let differs = |at: &usize| expected[*at] != found[*at];
        let Some(first) = (0..expected.len()).find(differs) else { return Ok(()) };
        if !written.contains(&first) {
            let (was, is) = (expected[first], found[first]);
            let offset = first as i64 - self.receive as i64;
            return Err(format!(
                "byte {offset} relative to the output is not part of it and changed from \
                 {was:#04x} to {is:#04x}"
            )
            .into());
        }
        let element = (first - written.start) / element_bytes;
        let at =
            written.start + element * element_bytes..written.start + (element + 1) * element_bytes;
        let wrong = (written.step_by(element_bytes))
            .filter(|at| expected[*at..][..element_bytes] != found[*at..][..element_bytes]);
        Err(format!(
            "element {element} of the output: expected bytes {:02x?}, found {:02x?}; {} of {} \
             elements are wrong",
            &expected[at.clone()],
            &found[at],
            wrong.count(),
            output.len() / element_bytes,
        )
        .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ranks: u32) -> Vec<CollectiveKind> {
        CollectiveKind::all(Rank(ranks - 1)).to_vec()
    }

    #[test]
    fn images_are_in_place_where_the_call_says_so() {
        for kind in all(3) {
            for in_place in [true, false] {
                let case = Case { in_place, shift: [3, 5], ..Case::of(kind) };
                let inputs = case.inputs(3);
                for rank in [0, 1, 2] {
                    let image = case.image(Rank(rank), 3, &inputs[rank as usize]);
                    let call = case.call(Rank(rank), 4096, &image, 0);
                    let shares = case.shares_memory(Rank(rank), 3);
                    assert_eq!(call.is_in_place(Rank(rank)), shares, "{}", case.describe());
                }
            }
        }
    }

    #[test]
    fn outputs_are_compared_whole() {
        let case = Case { count: 4, ..Case::of(CollectiveKind::AllGather) };
        let inputs = case.inputs(2);
        let mut oracle = Oracle::new(2, &[]);
        let outputs = case.outputs(2, &inputs, "", &mut oracle).unwrap();
        assert_eq!(outputs[0], [&inputs[0][..], &inputs[1]].concat());
        let image = case.image(Rank(0), 2, &inputs[0]);
        let mut right = image.bytes.clone();
        right[image.receive..][..32].copy_from_slice(&outputs[0]);
        assert!(image.check(&right, &outputs[0], 4).is_ok());
        let check = |at: usize, expected: &str| {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            let describe = image.check(&wrong, &outputs[0], 4).unwrap_err().to_string();
            assert!(describe.contains(expected), "{describe}");
        };
        check(image.receive + 9, "element 2 of the output");
        check(image.receive + 32, "byte 32 relative to the output");
        check(image.send, "changed from");
    }
}
