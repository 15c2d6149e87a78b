//! A custom collective's contract, as elements that interpreters ignore.
//!
//! ```xml
//! <contract>
//!   <given gpu="0" index="0"/>
//!   <promise gpu="1" index="0" from="0" at="0"/>
//! </contract>
//! ```
//!
//! says that input slot 0 of rank 0 is given, and that output slot 0 of rank 1 must hold exactly
//! that. A slot that is promised a sum has one `<promise>` for each contribution.

use std::io;

use msccl_collective::{Collective, Contract, Kind};

use super::markup::{Markup, Value};
use super::vocabulary::{CONTRACT, given, promise};

/// Writes the contract, if there is one.
pub(super) fn write(
    collective: &Collective,
    markup: &mut Markup<impl io::Write>,
) -> io::Result<()> {
    let Kind::Custom(custom) = &collective.kind else { return Ok(()) };
    let Some(Contract { given: at_start, promised }) = &custom.contract else { return Ok(()) };
    markup.open(1, CONTRACT, &[], &[])?;
    for slot in at_start {
        let values = [slot.rank.0, slot.index].map(Value::from);
        markup.single(2, given::NAME, &given::TABLE, &values)?;
    }
    for (&(rank, index), sum) in promised {
        for part in sum {
            let values = [rank.0, index, part.rank.0, part.index].map(Value::from);
            markup.single(2, promise::NAME, &promise::TABLE, &values)?;
        }
    }
    markup.close(1, CONTRACT)
}
