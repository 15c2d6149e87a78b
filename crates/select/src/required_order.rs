//! In which order reductions must be added, if the user asks for one.
//!
//! The verifier knows the order of every algorithm, so this is a promise: a reduction is served by
//! algorithms that are proved to add in this order, or it is an error.

use std::fmt;
use std::str::FromStr;

use msccl_collective::NamedOrder;
use msccl_verify::{AdditionOrder, AdditionOrders};

/// The order in which contributions must be added.
///
/// ```
/// use msccl_select::RequiredOrder;
///
/// assert_eq!("flat".parse(), Ok(RequiredOrder::Flat));
/// assert_eq!(RequiredOrder::Tree.to_string(), "tree");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum RequiredOrder {
    /// Whatever is fastest: the bits of a result may depend on the size of the call.
    #[default]
    Any,
    /// All ranks, from the lowest to the highest, rounded once: [`AdditionOrder::flat`].
    Flat,
    /// A balanced binary tree over the ranks: [`AdditionOrder::tree`].
    Tree,
}

/// That a text names no order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownOrder;

impl RequiredOrder {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Any, Self::Flat, Self::Tree];

    /// The name of the order that is required, if one is.
    pub fn named(self) -> Option<NamedOrder> {
        match self {
            Self::Any => None,
            Self::Flat => Some(NamedOrder::Flat),
            Self::Tree => Some(NamedOrder::Tree),
        }
    }

    /// The order over `ranks` ranks (at least one), if one is required.
    pub fn required(self, ranks: u32) -> Option<AdditionOrder> {
        self.named().map(|name| AdditionOrder::named(name, ranks))
    }

    /// Why an algorithm that adds in `orders` over `ranks` ranks is not what is asked for, if so.
    pub fn refuses(self, orders: &AdditionOrders, ranks: u32) -> Option<String> {
        let required = self.required(ranks)?;
        let found = match orders {
            AdditionOrders::NoSums => return None,
            AdditionOrders::One(order) if *order == required => return None,
            AdditionOrders::One(order) => order.to_string(),
            AdditionOrders::Several(count) => format!("{count} orders or more"),
        };
        Some(format!("it adds in {found}, and the order must be {self}, {required}"))
    }
}

impl fmt::Display for RequiredOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.named().map_or("any", NamedOrder::name))
    }
}

impl FromStr for RequiredOrder {
    type Err = UnknownOrder;

    fn from_str(text: &str) -> Result<Self, UnknownOrder> {
        let mut all = Self::ALL.into_iter();
        all.find(|order| order.to_string().eq_ignore_ascii_case(text)).ok_or(UnknownOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_order_that_is_required_is_accepted() {
        let one = AdditionOrders::One;
        let (flat, tree) = (one(AdditionOrder::flat(4)), one(AdditionOrder::tree(4)));
        let accepts = |required: RequiredOrder, orders: &AdditionOrders| {
            required.refuses(orders, 4).is_none()
        };
        assert!(accepts(RequiredOrder::Any, &AdditionOrders::Several(4)));
        assert!(accepts(RequiredOrder::Flat, &flat) && !accepts(RequiredOrder::Flat, &tree));
        assert!(accepts(RequiredOrder::Tree, &tree) && !accepts(RequiredOrder::Tree, &flat));
        assert!(accepts(RequiredOrder::Tree, &AdditionOrders::NoSums));
        assert_eq!(
            RequiredOrder::Flat.refuses(&AdditionOrders::Several(4), 4).as_deref(),
            Some("it adds in 4 orders or more, and the order must be flat, 0+1+…+3"),
        );
        // Of two ranks there is one order.
        let two = one(AdditionOrder::tree(2));
        assert_eq!(RequiredOrder::Flat.refuses(&two, 2), None);
    }

    #[test]
    fn texts_name_orders() {
        for order in RequiredOrder::ALL {
            assert_eq!(order.to_string().to_uppercase().parse(), Ok(order));
        }
        assert_eq!("ring".parse::<RequiredOrder>(), Err(UnknownOrder));
    }
}
