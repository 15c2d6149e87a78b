//! What serves calls, and whether ranks choose alike.

mod nodes;
mod order;
mod snapshot;

use msccl_registry::Shape;

use msccl_collective::DataType;

use super::*;

/// How ranks of `registry` run a call with a root, in words: each decides for itself, the root
/// for the placement that it alone knows.
fn decisions(
    registry: &Arc<Registry>,
    kind: CollectiveKind,
    in_place: bool,
    count: u64,
    links: Option<Links>,
) -> Vec<String> {
    let ranks = registry.shape().ranks;
    // Few thread blocks, so that instances are cut down.
    let capacity = Capacity { blocks: 24, ..Capacity::nominal(Machine::Gpus, registry.shape()) };
    let decide = |rank: Rank| {
        let (machine, overrides) = (Machine::Gpus, Overrides { links, ..Overrides::default() });
        let selector = Selector::new(registry.clone(), rank, capacity, machine, overrides, None);
        let in_place = in_place && kind.root() == Some(rank);
        let placement = CallPlacement::from_in_place(in_place);
        let (data_type, reduction) = (DataType::F32, Some(Reduction::Sum));
        let request = CallShape { kind, placement, data_type, reduction, count };
        let (decision, _) = selector.choose(&request).unwrap();
        let Decision { prepared, protocol, links, threads, cut, .. } = &*decision;
        format!("{} {protocol} {links} {threads:?} {cut:?}", prepared.name)
    };
    (0..ranks).map(Rank).map(decide).collect()
}

/// Threads in a block of an all-to-all of so many f32 for each of two ranks, where operands are
/// aligned and where not.
fn threads(overrides: Overrides, count: u64) -> [u32; 2] {
    let registry = Arc::new(Registry::new(Shape { ranks: 2, per_node: 2 }, &[]));
    let (capacity, machine) = (Capacity::nominal(Machine::Gpus, registry.shape()), Machine::Gpus);
    let selector = Selector::new(registry, Rank(0), capacity, machine, overrides, None);
    let (kind, reduction) = (CollectiveKind::AllToAll, None);
    let placement = CallPlacement::OutOfPlace;
    let request = CallShape { kind, placement, data_type: DataType::F32, reduction, count };
    let (decision, _) = selector.choose(&request).unwrap();
    [decision.threads.aligned, decision.threads.unaligned]
}

#[test]
fn misaligned_operands_have_all_threads_unless_fewer_are_said() {
    let usual = Overrides::default();
    assert_eq!(threads(usual.clone(), 1 << 18), [256, 512]);
    let most = Overrides { threads_max: Some(300), ..usual.clone() };
    assert_eq!(threads(most, 1 << 18), [256, 320]);
    let said = Overrides { threads: Some(128), ..usual.clone() };
    assert_eq!(threads(said, 1 << 18), [128, 128]);
    let [small, unaligned] = threads(usual, 1 << 8);
    assert_eq!(small, unaligned, "packets are as fast");
}

/// All ranks decide alike, whatever the root knows; by whose decisions.
#[track_caller]
fn check_root(registry: &Arc<Registry>, kind: CollectiveKind) -> Vec<String> {
    let cases = [
        (1, None),
        (1000, Some(Links::Direct)),
        (100_003, None),
        (200_007, Some(Links::Direct)),
        (10_000_000, Some(Links::Direct)),
    ];
    let decide = |(count, links)| {
        let mut all = decisions(registry, kind, true, count, links);
        all.extend(decisions(registry, kind, false, count, links));
        all.dedup();
        assert_eq!(all.len(), 1, "{kind:?} of {count}: {all:#?}");
        all.remove(0)
    };
    cases.into_iter().map(decide).collect()
}

#[test]
fn ranks_agree_whatever_the_root_knows() {
    for ranks in [2, 4, 8] {
        let registry = Arc::new(Registry::new(Shape { ranks, per_node: ranks }, &[]));
        for kind in CollectiveKind::with_root(Rank(ranks - 1)) {
            check_root(&registry, kind);
        }
    }
}

#[test]
fn ranks_agree_on_a_loaded_program_whatever_the_root_knows() {
    let programs = [
        (
            "broadcast",
            "for r in 0..N-1 { output@((R + r + 1) % N) = output@((R + r) % N) }",
            CollectiveKind::Broadcast(Rank(1)),
        ),
        (
            "gather",
            "for r in 0..N if r != R { output@R[r] = input@r } output@R[R] = input@R",
            CollectiveKind::Gather(Rank(1)),
        ),
    ];
    for (name, body, kind) in programs {
        let clauses = if name == "broadcast" { "in place" } else { "" };
        let text = format!(
            "algorithm mine(ranks N = 4, R = 1) implements {name}(root R, chunks 1) {clauses} {{ \
             {body} }}"
        );
        let file = msccl_registry::File { name: "mine".to_owned(), content: Ok(text.into_bytes()) };
        let registry = Arc::new(Registry::new(Shape { ranks: 4, per_node: 4 }, &[file]));
        assert_eq!(registry.refused(), []);
        let decisions = check_root(&registry, kind);
        assert!(decisions.iter().all(|of| of.starts_with("mine ")), "{decisions:#?}");
    }
}
