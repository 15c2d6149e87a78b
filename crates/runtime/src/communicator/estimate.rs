//! How long calls would take, by the cost model.

use super::Communicator;
use crate::call::{Admitted, AdmittedCall};

impl Communicator {
    /// How long `call`, which this communicator has admitted, takes in µs, by the cost model on the
    /// machine that is supposed of such ranks (`docs/ESTIMATES.md`); nothing of sends and receives,
    /// and where the model does not say. What serves the call is compiled and proved for it.
    pub fn estimate_us(&self, call: &AdmittedCall) -> Option<f64> {
        match &call.0 {
            Admitted::Collective(call) if call.shape.count == 0 || self.ranks() == 1 => Some(0.0),
            Admitted::Collective(call) => self.inner.selector.estimate_us(&call.shape),
            Admitted::Transfer(_) => None,
        }
    }
}
