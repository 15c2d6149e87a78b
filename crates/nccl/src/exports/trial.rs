//! What NCCL does not have: trying out what could serve a call, for those who make tuning tables
//! (`include/msccl.h`).

use std::ffi::{c_char, c_int};

use msccl_collective::{DataType, Rank, Reduction};
use msccl_runtime::{Choice, Combine, Operation};

use crate::abi::{CommHandle, Out, OutArray, constant, pointer};
use crate::comm::handles;
use crate::fault::Fault;

const CHOICES: &str = "CommChoices";
const BLOCKS: &str = "CommChoiceBlocks";
const PIN: &str = "CommPin";

exported! {
    /// Every way to serve such calls, one a line as in the last five columns of a tuning table,
    /// first what does serve them.
    fn mscclCommChoices | pmscclCommChoices(
        comm: CommHandle, collective: *const c_char, in_place: c_int, data_type: c_int,
        operator: c_int, root: c_int, count: usize, text: OutArray<u8>, capacity: usize
    ) {
        if capacity > 0 {
            text.set_all(&[0]);
        }
        let found = handles::find(comm, CHOICES)?;
        let communicator = found.ready().map_err(|fault| fault.during(CHOICES))?;
        let arguments = TrialArguments { name: pointer::text(collective), data_type, operator, root };
        let (operation, data_type) = arguments.of(CHOICES, communicator.ranks())?;
        let choices = communicator.choices(&operation, in_place != 0, data_type, count as u64);
        let lines: String = choices.iter().map(|choice| format!("{choice}\n")).collect();
        give(text, capacity, &lines)
    }

    /// How many thread blocks such a call has that is served by `choice`, such a line, on the rank
    /// that has most.
    fn mscclCommChoiceBlocks | pmscclCommChoiceBlocks(
        comm: CommHandle, collective: *const c_char, in_place: c_int, data_type: c_int,
        operator: c_int, root: c_int, count: usize, choice: *const c_char, blocks: Out<c_int>
    ) {
        let found = handles::find(comm, BLOCKS)?;
        let communicator = found.ready().map_err(|fault| fault.during(BLOCKS))?;
        let arguments = TrialArguments { name: pointer::text(collective), data_type, operator, root };
        let (operation, data_type) = arguments.of(BLOCKS, communicator.ranks())?;
        let choice = pointer::text(choice).ok_or_else(|| Fault::null(BLOCKS, "choice"))?;
        let choice = choice.parse::<Choice>();
        let choice = choice.map_err(|why| Fault::argument(format!("{BLOCKS} : {why}")))?;
        if blocks.is_null() {
            return Err(Fault::null(BLOCKS, "blocks"));
        }
        let (in_place, count) = (in_place != 0, count as u64);
        let found = communicator.blocks(&choice, &operation, in_place, data_type, count)?;
        blocks.set(c_int::try_from(found).unwrap_or(c_int::MAX));
        Ok(())
    }

    /// Serves every collective from now on by `choice`, such a line, or fails; null ends that.
    fn mscclCommPin | pmscclCommPin(comm: CommHandle, choice: *const c_char) {
        let found = handles::find(comm, PIN)?;
        let communicator = found.ready().map_err(|fault| fault.during(PIN))?;
        let choice = pointer::text(choice).map(|text| text.parse::<Choice>()).transpose();
        communicator.pin(choice.map_err(|why| Fault::argument(format!("{PIN} : {why}")))?);
        Ok(())
    }
}

/// What sort of calls is asked about.
struct TrialArguments {
    name: Option<String>,
    data_type: c_int,
    operator: c_int,
    root: c_int,
}

impl TrialArguments {
    /// Such calls over `ranks` ranks, and the type of their elements; `function` is who asks.
    fn of(self, function: &str, ranks: u32) -> Result<(Operation, DataType), Fault> {
        let Self { name, data_type, operator, root } = self;
        let wrong = |what: String| Fault::argument(format!("{function} : {what}"));
        let known = constant::data_type(data_type);
        let data_type = known.ok_or_else(|| wrong(format!("invalid type {data_type}")))?;
        let name = name.ok_or_else(|| Fault::null(function, "collective"))?;
        let rank = u32::try_from(root).ok().filter(|rank| *rank < ranks);
        let reduction = constant::reduction(operator);
        let peer = Rank(rank.unwrap_or(0));
        let operation =
            operation(&name, peer, reduction.unwrap_or(Reduction::Sum)).map_err(wrong)?;
        // Operator and root count where the collective has them.
        if operation.combine().is_some() && reduction.is_none() {
            return Err(wrong(format!("invalid operator {operator}")));
        }
        if operation.peer().is_some() && rank.is_none() {
            return Err(wrong(format!("there is no root {root} among {ranks} ranks")));
        }
        Ok((operation, data_type))
    }
}

/// The collective `name`, with that root and reduction where it has them.
fn operation(name: &str, peer: Rank, reduction: Reduction) -> Result<Operation, String> {
    let combine = Combine::Plain(reduction);
    let all = [
        Operation::AllReduce(combine),
        Operation::AllGather,
        Operation::ReduceScatter(combine),
        Operation::AllToAll,
        Operation::Broadcast(peer),
        Operation::Reduce(peer, combine),
        Operation::Gather(peer),
        Operation::Scatter(peer),
    ];
    let found = all.into_iter().find(|operation| operation.name() == name);
    found.ok_or_else(|| {
        let names = all.map(|operation| operation.name()).join(", ");
        format!("expected a collective ({names}), found `{name}`")
    })
}

/// Writes `text` and a zero byte to a place that has `capacity` bytes.
fn give(place: OutArray<u8>, capacity: usize, text: &str) -> Result<(), Fault> {
    if place.is_null() {
        return Err(Fault::null(CHOICES, "text"));
    }
    let bytes: Vec<u8> = text.bytes().chain([0]).collect();
    if bytes.len() > capacity {
        let needed = bytes.len();
        return Err(Fault::argument(format!(
            "{CHOICES} : expected room for {needed} bytes, found {capacity}"
        )));
    }
    place.set_all(&bytes);
    Ok(())
}
