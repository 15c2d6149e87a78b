//! What would serve a call, for people who ask without making one.

use std::sync::Arc;

use msccl_collective::{DataType, Rank, Reduction};
use msccl_registry::{Registry, Wanted};

use super::{Alternative, Machine, Request, Selector};
use crate::cpu;
use crate::cuda;
use crate::settings::Wish;

/// A call that somebody asks about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// The collective.
    pub wanted: Wanted,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// The type of every element.
    pub data_type: DataType,
    /// How contributions combine; `None` where they do not.
    pub reduction: Option<Reduction>,
    /// Elements of one block.
    pub count: u64,
    /// Whether the ranks have a GPU each; otherwise they run on host threads.
    pub on_gpus: bool,
}

/// The algorithms at hand for `question` in the order of preference: the first that serves does. For
/// ranks with a GPU each the answer is that of GPUs like the H200.
pub fn explain(registry: &Arc<Registry>, question: &Question, wish: &Wish) -> Vec<Alternative> {
    let Question { wanted, in_place, data_type, reduction, count, on_gpus } = *question;
    let ranks = registry.shape().ranks;
    let (machine, capacity) = match on_gpus {
        true => (Machine::Gpus, cuda::nominal_capacity(ranks)),
        false => (Machine::Host, cpu::capacity(ranks)),
    };
    let selector = Selector::new(registry.clone(), Rank(0), capacity, machine, wish.clone());
    selector.explain(&Request { wanted, in_place, data_type, reduction, count })
}

#[cfg(test)]
mod tests {
    use msccl_registry::{File, Shape};

    use super::*;

    fn check(bytes: u64, wish: &Wish, first: &str) {
        let text = "algorithm mine(ranks N = 8) implements allreduce(chunks 1) bytes 512..4096 {
            for r in 0..N { output@r = sum(q in 0..N: input@q) }
        }";
        let content = Ok(text.as_bytes().to_vec());
        let files = [File { name: "mine.msccl".to_owned(), content }];
        let registry = Arc::new(Registry::new(Shape { ranks: 8, per_node: 8 }, &files));
        let question = Question {
            wanted: Wanted::AllReduce,
            in_place: false,
            data_type: DataType::F32,
            reduction: Some(Reduction::Sum),
            count: bytes / 4,
            on_gpus: true,
        };
        let told = explain(&registry, &question, wish);
        let serves = told.iter().find(|of| of.verdict.is_ok()).unwrap();
        assert_eq!(serves.name, first, "{bytes} bytes: {told:#?}");
        assert!(told[0].loaded && told.len() > 3, "{told:#?}");
    }

    #[test]
    fn sizes_and_wishes_decide() {
        let none = Wish::default();
        check(256, &none, "allreduce/one_shot");
        check(1024, &none, "mine.msccl");
        check(4096, &none, "allreduce/one_shot");
        check(1 << 30, &none, "allreduce/ring");
        let algorithm = Some("double_binary_tree".to_owned());
        check(1 << 30, &Wish { algorithm, ..none }, "allreduce/double_binary_tree");
    }
}
