//! Orders of additions, for columns of tables and for programs.

use msccl_registry::Fingerprint;
use msccl_verify::{AdditionOrder, AdditionOrders, OrderShape};
use serde::Serialize;

/// Most characters of an order without a name that a column shows in full.
const MOST_OF_CELL: usize = 24;

/// What a column says of `orders`: `flat`, `tree`, `flat and tree`, the text of another order or,
/// if that is long, its fingerprint; `several`; `-` if nothing is added.
pub fn cell(orders: &AdditionOrders) -> String {
    match orders {
        AdditionOrders::NoSums => "-".to_owned(),
        AdditionOrders::Several(_) => "several".to_owned(),
        AdditionOrders::One(order) => match order.shape() {
            OrderShape::Flat | OrderShape::Tree | OrderShape::FlatAndTree => {
                order.shape().name().to_owned()
            }
            OrderShape::Other => text_or_fingerprint(order),
        },
    }
}

fn text_or_fingerprint(order: &AdditionOrder) -> String {
    let text = order.to_string();
    if text.chars().count() <= MOST_OF_CELL {
        return text;
    }
    Fingerprint::of_order(order).to_string()
}

/// In which orders contributions are added.
#[derive(Serialize)]
pub struct AdditionOrdersJson {
    /// How many there are at least.
    count: usize,
    /// The order, if there is one alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<String>,
    /// `flat`, `tree`, `flat and tree` or `other`.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
}

impl AdditionOrdersJson {
    /// `orders` for programs; nothing if nothing is added.
    pub fn of(orders: &AdditionOrders) -> Option<Self> {
        match orders {
            AdditionOrders::NoSums => None,
            AdditionOrders::One(order) => Some(Self {
                count: 1,
                order: Some(order.to_string()),
                shape: Some(order.shape().name()),
                fingerprint: Some(Fingerprint::of_order(order).to_string()),
            }),
            AdditionOrders::Several(count) => {
                Some(Self { count: *count, order: None, shape: None, fingerprint: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_names_one_order_or_says_that_there_are_several() {
        let one = |order| cell(&AdditionOrders::One(order));
        let cells =
            [2, 8].map(|ranks| (one(AdditionOrder::flat(ranks)), one(AdditionOrder::tree(ranks))));
        let both = "flat and tree".to_owned();
        assert_eq!(cells[0], (both.clone(), both));
        assert_eq!(cells[1], ("flat".to_owned(), "tree".to_owned()));
        assert_eq!(cell(&AdditionOrders::Several(2)), "several");
        assert_eq!(cell(&AdditionOrders::NoSums), "-");
    }
}
