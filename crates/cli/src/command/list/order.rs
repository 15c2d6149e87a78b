//! In which order the algorithms of a list add.
//!
//! Each is compiled and proved as `msccl verify` would, for the placement that its program says.

use msccl_collective::Collective;
use msccl_verify::AdditionOrders;
use serde::Serialize;

use super::Entry;
use crate::args::{LaunchArgs, ListArgs};
use crate::collective;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::order::{self, AdditionOrdersJson};
use crate::subject;
use crate::verdict::{self, Verdict};

/// In which orders an algorithm adds, or why that is not known: it is not proved.
pub type Order = std::result::Result<AdditionOrders, String>;

/// The order of `entry` for the ranks that `args` say.
pub fn of(entry: &Entry, args: &ListArgs) -> Order {
    if adds_nothing(&entry.collective) {
        return Ok(AdditionOrders::NoSums);
    }
    let launch = LaunchArgs {
        algorithm: Some(entry.name.clone()),
        ranks: args.ranks,
        per_node: args.per_node,
        ..LaunchArgs::default()
    };
    judged(&entry.file, &launch).map_err(|failure| first_message(&failure)).and_then(|verdict| {
        match verdict {
            Verdict::Proved(proved) => Ok(proved.verified.facts().addition_orders.clone()),
            Verdict::Refused(refused) => Err(format!("{}: {}", refused.kind, refused.message)),
        }
    })
}

fn judged(file: &str, launch: &LaunchArgs) -> Result<Verdict> {
    // Warnings are for those who look at one program.
    let loaded = subject::load(Input::read(file)?, launch, None, &mut |_| {})?;
    Ok(verdict::judge(loaded))
}

/// Whether `name` is a standard collective without reductions, so that no proof is needed.
fn adds_nothing(name: &str) -> bool {
    let kind = collective::named(name);
    kind.is_some_and(|kind| !Collective { kind, ranks: 2, chunks: 1 }.reduces())
}

/// What is wrong, in one line.
fn first_message(failure: &Failure) -> String {
    match failure {
        Failure::Message(message) => message.clone(),
        Failure::Diagnostics { rendered: _, located } => {
            located.first().map_or_else(String::new, |first| first.message.clone())
        }
    }
}

/// What the column says.
pub fn cell(order: &Order) -> String {
    match order {
        Ok(orders) => order::cell(orders),
        Err(_) => "not proved".to_owned(),
    }
}

/// An order for programs.
#[derive(Serialize)]
pub struct OrderJson {
    /// `null` if nothing is added, or it is not proved.
    addition_orders: Option<AdditionOrdersJson>,
    /// Why it is not proved for these ranks; `null` if it is.
    not_proved: Option<String>,
}

impl From<&Order> for OrderJson {
    fn from(order: &Order) -> Self {
        match order {
            Ok(orders) => {
                Self { addition_orders: AdditionOrdersJson::of(orders), not_proved: None }
            }
            Err(why) => Self { addition_orders: None, not_proved: Some(why.clone()) },
        }
    }
}
