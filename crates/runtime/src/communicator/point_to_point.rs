//! The sends and receives of one group, taken apart: copies within this rank, and transfers.

use msccl_collective::Rank;
use msccl_plan::Direction;
use msccl_plan::exchange::Transfer;

use crate::call::{AdmittedCall, TransferCall};
use crate::error::Error;

/// What a group's point-to-point calls come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Exchange {
    /// From this rank to itself.
    pub copies: Vec<Copy>,
    /// With other ranks, in the order of the calls.
    pub transfers: Vec<Transfer>,
}

/// A copy within this rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Copy {
    pub from: u64,
    pub to: u64,
    pub bytes: u64,
}

/// The exchange of `calls` on `rank`; collectives among them are passed over. The k-th send to this
/// rank itself meets the k-th receive from it.
///
/// # Errors
///
/// A send to this rank itself meets a receive of another size. That each meets one, [`admit`] makes
/// sure.
pub(super) fn exchange_of(calls: &[AdmittedCall], rank: Rank) -> Result<Exchange, Error> {
    let mut exchange = Exchange::default();
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for TransferCall { transfer, .. } in calls.iter().filter_map(AdmittedCall::transfer) {
        match (transfer.peer == rank, transfer.way) {
            (false, _) if transfer.bytes == 0 => {}
            (false, _) => exchange.transfers.push(*transfer),
            (true, Direction::Out) => sends.push(transfer),
            (true, Direction::In) => receives.push(transfer),
        }
    }
    for (send, receive) in sends.into_iter().zip(receives) {
        let (sent, received) = (send.bytes, receive.bytes);
        if sent != received {
            let text = format!("{rank} sends {sent} bytes to itself and receives {received}");
            return Err(Error::invalid_usage(text));
        }
        let (from, to) = (send.address, receive.address);
        if sent != 0 && from != to {
            exchange.copies.push(Copy { from, to, bytes: sent });
        }
    }
    Ok(exchange)
}

/// Whether every send to `rank` itself has its receive among `calls`.
pub(super) fn admit(calls: &[AdmittedCall], rank: Rank) -> Result<(), Error> {
    let (mut sends, mut receives) = (0, 0);
    for TransferCall { transfer, .. } in calls.iter().filter_map(AdmittedCall::transfer) {
        match transfer.way {
            Direction::Out if transfer.peer == rank => sends += 1,
            Direction::In if transfer.peer == rank => receives += 1,
            Direction::Out | Direction::In => {}
        }
    }
    if sends == receives {
        return Ok(());
    }
    let text = format!(
        "{rank} sends {sends} and receives {receives} messages to and from itself; they must be \
         equal within one group"
    );
    Err(Error::invalid_usage(text))
}

#[cfg(test)]
mod tests {
    use msccl_collective::DataType;

    use super::*;
    use crate::call::{Buffers, Call, Operation};

    fn call(operation: Operation, count: u64, address: u64) -> AdmittedCall {
        let buffers = Buffers { send: address, receive: address, stream: 0 };
        let call = Call { operation, data_type: DataType::I32, count, buffers };
        call.admit(Rank(1), 3).unwrap()
    }

    #[test]
    fn own_messages_are_copied_and_empty_ones_dropped() {
        let me = Rank(1);
        let calls = [
            call(Operation::Send(me), 2, 100),
            call(Operation::Send(Rank(0)), 3, 200),
            call(Operation::Receive(Rank(2)), 0, 300),
            call(Operation::Receive(me), 2, 400),
        ];
        admit(&calls, me).unwrap();
        let exchange = exchange_of(&calls, me).unwrap();
        assert_eq!(exchange.copies, [Copy { from: 100, to: 400, bytes: 8 }]);
        let transfer = Transfer { peer: Rank(0), way: Direction::Out, address: 200, bytes: 12 };
        assert_eq!(exchange.transfers, [transfer]);
    }

    #[test]
    fn own_messages_must_match() {
        let me = Rank(1);
        let calls = [call(Operation::Send(me), 2, 100), call(Operation::Receive(me), 3, 200)];
        assert!(exchange_of(&calls, me).is_err());
        assert!(admit(&calls[..1], me).is_err());
    }
}
