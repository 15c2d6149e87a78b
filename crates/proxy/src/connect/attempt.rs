//! Attempts of two ranks to make rails over RDMA, one after another. Each is for pairs of ports
//! that [`super::pairs`] names.

use std::collections::VecDeque;
use std::sync::Arc;

use super::handshake::{Offers, RdmaOffer, RdmaPort};
use super::pairs::PortPair;
use crate::endpoint::Memory;
use crate::rail::Rail;
use crate::rdma::{Devices, Half, Refusal};

/// This rank's ends of rails, which it offers to the peer.
pub(super) struct RailAttempt {
    /// For each, the index of the peer's port, and the end or why it cannot be made.
    ends: Vec<(usize, Result<Half, String>)>,
}

/// Rails that are being connected.
pub(super) struct Meeting {
    /// With the peer's ends, and the names of their devices.
    waiting: VecDeque<(Half, RdmaOffer, String)>,
    rails: Vec<Box<dyn Rail>>,
}

impl RailAttempt {
    /// Ends for `memory` on the ports of `pairs`.
    pub(super) fn begin(devices: &Devices, memory: &Arc<dyn Memory>, pairs: &[PortPair]) -> Self {
        let end = |&(here, there): &PortPair| (there, devices.half(here, memory));
        Self { ends: pairs.iter().map(end).collect() }
    }

    /// What the peer must know.
    pub(super) fn offers(&self) -> Offers {
        let offer = |end: &Result<Half, String>| match end {
            Ok(half) => Ok(RdmaOffer { address: half.address().to_vec() }),
            Err(why) => Err(why.clone()),
        };
        Offers { rdma: self.ends.iter().map(|(_, end)| offer(end)).collect() }
    }

    /// Why ends cannot be made.
    pub(super) fn troubles(&self) -> impl Iterator<Item = &String> {
        self.ends.iter().filter_map(|(_, end)| end.as_ref().err())
    }

    /// The rails of which both ends can be made. The peer offers `theirs`, and has these `ports`.
    /// The text says why there are no rails.
    pub(super) fn meet(self, theirs: Offers, ports: &[RdmaPort]) -> Result<Meeting, String> {
        let (mut waiting, mut troubles) = (VecDeque::new(), Vec::new());
        for ((there, end), offer) in self.ends.into_iter().zip(theirs.rdma) {
            match (end, offer, ports.get(there)) {
                (Ok(half), Ok(offer), Some(port)) => {
                    waiting.push_back((half, offer, port.device.clone()));
                }
                (Err(why), _, _) => troubles.push(why),
                (_, Err(why), _) => troubles.push(format!("the peer: {why}")),
                (Ok(_), Ok(_), None) => troubles.push("the peer has no such port".to_owned()),
            }
        }
        match waiting.is_empty() {
            true => Err(troubles.join("; ")),
            false => Ok(Meeting { waiting, rails: Vec::new() }),
        }
    }
}

impl Meeting {
    /// Connects the remaining rails. After a refusal the call can be repeated.
    pub(super) fn go_on(&mut self) -> Result<(), Refusal> {
        while let Some((mut half, offer, device)) = self.waiting.pop_front() {
            if let Err(refusal) = half.connect(&offer.address, &device) {
                self.waiting.push_front((half, offer, device));
                return Err(refusal);
            }
            self.rails.push(half.into_rail(&device));
        }
        Ok(())
    }

    /// The connected rails.
    pub(super) fn into_rails(self) -> Vec<Box<dyn Rail>> {
        self.rails
    }
}
