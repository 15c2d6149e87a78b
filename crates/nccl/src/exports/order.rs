//! The order of additions of one communicator (`include/msccl.h`).

use std::ffi::c_char;

use msccl_runtime::RequiredOrder;

use crate::abi::{CommHandle, pointer};
use crate::comm::handles;
use crate::fault::Fault;

const REQUIRE_ORDER: &str = "CommRequireOrder";

exported! {
    /// Adds every reduction of the communicator in this order from now on: `any`, `flat` or `tree`,
    /// as `MSCCL_ORDER` has them.
    fn mscclCommRequireOrder | pmscclCommRequireOrder(comm: CommHandle, order: *const c_char) {
        let communicator = handles::find_ready(comm, REQUIRE_ORDER)?.communicator;
        let text = pointer::text(order).ok_or_else(|| Fault::null(REQUIRE_ORDER, "order"))?;
        let order = text.parse::<RequiredOrder>().map_err(|_| {
            let expected = "expected any, flat or tree";
            Fault::argument(format!("{REQUIRE_ORDER} : {expected}, found `{text}`"))
        })?;
        communicator.require_order(order)?;
        Ok(())
    }
}
