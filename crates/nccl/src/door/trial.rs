//! What NCCL does not have: trying out what could serve a call, for those who make tuning tables
//! (`include/msccl.h`).

use std::ffi::{c_char, c_int};

use msccl_collective::{Rank, Reduction};
use msccl_runtime::{Choice, Combine, Operation};

use crate::abi::{CommHandle, Out, constant, pointer};
use crate::comm::handles;
use crate::fault::Fault;

const CHOICES: &str = "CommChoices";
const PIN: &str = "CommPin";

door! {
    /// Every way to serve such calls, one a line as in the last five columns of a tuning table, first
    /// what does serve them.
    fn mscclCommChoices | pmscclCommChoices(
        comm: CommHandle, collective: *const c_char, in_place: c_int, data_type: c_int,
        operator: c_int, root: c_int, count: usize, text: Out<u8>, capacity: usize
    ) {
        let found = handles::find(comm, CHOICES)?;
        let communicator = found.ready().map_err(|fault| fault.during(CHOICES))?;
        let data_type = constant::data_type(data_type)
            .ok_or_else(|| Fault::argument(format!("{CHOICES} : invalid type {data_type}")))?;
        let ranks = communicator.ranks();
        let operation = operation(pointer::text(collective), operator, root, ranks)?;
        let choices = communicator.choices(&operation, in_place != 0, data_type, count as u64);
        let lines: String = choices.iter().map(|choice| format!("{choice}\n")).collect();
        give(text, capacity, &lines)
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

/// The collective `name` on `ranks` ranks, with that operator and root where it has them.
fn operation(
    name: Option<String>,
    operator: c_int,
    root: c_int,
    ranks: u32,
) -> Result<Operation, Fault> {
    let name = name.ok_or_else(|| Fault::null(CHOICES, "collective"))?;
    let reduction = constant::reduction(operator);
    let combine = Combine::Plain(reduction.unwrap_or(Reduction::Sum));
    let rank = u32::try_from(root).ok().filter(|rank| *rank < ranks);
    let peer = Rank(rank.unwrap_or(0));
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
    let fault = |text: String| Err(Fault::argument(format!("{CHOICES} : {text}")));
    match all.into_iter().find(|operation| operation.name() == name) {
        None => {
            let names = all.map(|operation| operation.name()).join(", ");
            fault(format!("expected a collective ({names}), found `{name}`"))
        }
        Some(found) if found.combine().is_some() && reduction.is_none() => {
            fault(format!("invalid operator {operator}"))
        }
        Some(found) if found.peer().is_some() && rank.is_none() => {
            fault(format!("there is no root {root} among {ranks} ranks"))
        }
        Some(found) => Ok(found),
    }
}

/// Writes `text` and a zero byte to a place that has `capacity` bytes.
fn give(place: Out<u8>, capacity: usize, text: &str) -> Result<(), Fault> {
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
