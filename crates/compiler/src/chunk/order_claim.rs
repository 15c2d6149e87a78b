//! What a program claims of the order in which it adds.

use msccl_collective::NamedOrder;
use msccl_syntax::{Diagnostic, Span};

/// The clause `order flat` or `order tree`: every promised sum is added in this order. The verifier
/// decides whether that holds of the compiled algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderClaim {
    /// The order.
    pub order: NamedOrder,
    /// The clause.
    pub span: Span,
}

impl OrderClaim {
    /// What the program has to do with `message`, which says that the claim does not hold.
    pub fn explain(&self, message: &str) -> Diagnostic {
        let how = match self.order {
            NamedOrder::Flat => {
                "add all contributions in one statement, by rank: `sum(q in 0..N: input@q[c])`"
            }
            NamedOrder::Tree => "`balanced_sum` of the module `balanced` adds in this order",
        };
        Diagnostic::error(self.span, message)
            .saying("claimed here")
            .hint(how)
            .hint("a ring adds each chunk in an order of its own")
            .hint("without the clause, `msccl verify` says in which order the algorithm adds")
    }
}
