//! What NCCL does not have: trying out what could serve a call, for those who make tuning tables
//! (`include/msccl.h`).

use std::ffi::{c_char, c_int};

use msccl_collective::{CallPlacement, CollectiveKind, Rank};
use msccl_runtime::{CallShape, Choice};

use crate::abi::{CommHandle, Out, OutArray, constant, pointer};
use crate::arguments::rank_among;
use crate::comm::handles;
use crate::fault::Fault;
use crate::text_result;

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
        let communicator = handles::find_ready(comm, CHOICES)?.communicator;
        let name = pointer::text(collective);
        let arguments = TrialArguments { name, in_place, data_type, operator, root, count };
        let shape = arguments.shape(CHOICES, communicator.ranks())?;
        let choices = communicator.choices(&shape);
        let lines: String = choices.iter().map(|choice| format!("{choice}\n")).collect();
        text_result::give((CHOICES, "text"), text, capacity, &lines)
    }

    /// How many thread blocks such a call has that is served by `choice`, such a line, on the rank
    /// that has most.
    fn mscclCommChoiceBlocks | pmscclCommChoiceBlocks(
        comm: CommHandle, collective: *const c_char, in_place: c_int, data_type: c_int,
        operator: c_int, root: c_int, count: usize, choice: *const c_char, blocks: Out<c_int>
    ) {
        let communicator = handles::find_ready(comm, BLOCKS)?.communicator;
        let name = pointer::text(collective);
        let arguments = TrialArguments { name, in_place, data_type, operator, root, count };
        let shape = arguments.shape(BLOCKS, communicator.ranks())?;
        let choice = pointer::text(choice).ok_or_else(|| Fault::null(BLOCKS, "choice"))?;
        let choice = choice.parse::<Choice>();
        let choice = choice.map_err(|why| Fault::argument(format!("{BLOCKS} : {why}")))?;
        if blocks.is_null() {
            return Err(Fault::null(BLOCKS, "blocks"));
        }
        let found = communicator.blocks(&choice, &shape)?;
        blocks.set(c_int::try_from(found).unwrap_or(c_int::MAX));
        Ok(())
    }

    /// Serves every collective from now on by `choice`, such a line, or fails; null ends that.
    fn mscclCommPin | pmscclCommPin(comm: CommHandle, choice: *const c_char) {
        let communicator = handles::find_ready(comm, PIN)?.communicator;
        let choice = pointer::text(choice).map(|text| text.parse::<Choice>()).transpose();
        communicator.pin(choice.map_err(|why| Fault::argument(format!("{PIN} : {why}")))?);
        Ok(())
    }
}

/// What sort of calls is asked about.
struct TrialArguments {
    name: Option<String>,
    in_place: c_int,
    data_type: c_int,
    operator: c_int,
    root: c_int,
    count: usize,
}

impl TrialArguments {
    /// The shape of such calls over `ranks` ranks; `function` is who asks.
    fn shape(self, function: &str, ranks: u32) -> Result<CallShape, Fault> {
        let Self { name, in_place, data_type, operator, root, count } = self;
        let wrong = |what: String| Fault::argument(format!("{function} : {what}"));
        let known = constant::data_type(data_type);
        let data_type = known.ok_or_else(|| wrong(format!("invalid type {data_type}")))?;
        let name = name.ok_or_else(|| Fault::null(function, "collective"))?;
        let kind = name.parse::<CollectiveKind>().map_err(wrong)?;
        // Operator and root count where the collective has them.
        let reduction = constant::reduction(operator).filter(|_| kind.reduces());
        if kind.reduces() && reduction.is_none() {
            return Err(wrong(format!("invalid operator {operator}")));
        }
        let rank = rank_among(ranks, root);
        if kind.root().is_some() && rank.is_none() {
            return Err(wrong(format!("there is no root {root} among {ranks} ranks")));
        }
        let kind = kind.rooted_at(rank.unwrap_or(Rank(0)));
        let placement = CallPlacement::from_in_place(in_place != 0);
        Ok(CallShape { kind, placement, data_type, reduction, count: count as u64 })
    }
}
