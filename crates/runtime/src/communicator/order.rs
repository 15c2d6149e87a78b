//! The order of additions of one communicator, where it differs from what the settings say.

use msccl_collective::Rank;
use msccl_select::RequiredOrder;

use super::Communicator;
use super::agreement::loaded_in_order;
use super::join::order_in_words;
use crate::error::Error;
use crate::event::Event;

impl Communicator {
    /// From now on every reduction of this communicator is added in `order`, and so is every one of
    /// communicators that are made from it. All ranks call it between the same calls, and wait for
    /// one another; calls that were submitted earlier, and graphs of them, stay as they are.
    ///
    /// # Errors
    ///
    /// Ranks name different orders, or a loaded algorithm adds in another one: on every rank, and
    /// the communicator stays as it was. As for [`Communicator::join`], if a rank does not come.
    pub fn require_order(&self, order: RequiredOrder) -> Result<(), Error> {
        let inner = &self.inner;
        let own = order.to_string();
        let all = inner.group.all_gather(own.as_bytes())?;
        if let Some((rank, theirs)) = all.iter().enumerate().find(|(_, it)| **it != *own.as_bytes())
        {
            let (me, rank) = (inner.group.rank(), Rank::from(rank));
            let theirs = String::from_utf8_lossy(theirs);
            return Err(Error::invalid_usage(format!(
                "ranks require different orders of additions: {me}: {order}; {rank}: {theirs}; \
                 name the same order on all ranks"
            )));
        }
        loaded_in_order(inner.selector.registry(), order)?;
        inner.selector.require_order(order);
        self.forget_decisions();
        if inner.group.rank() == Rank(0) {
            let words = order_in_words(inner.group.ranks(), order, Some("the program requires it"));
            words.into_iter().for_each(|words| inner.log(&Event::Order(words)));
        }
        Ok(())
    }
}
