//! Instances and coarsening.

use msccl_compiler::chunk::{check_promise, coarsen, instances};
use msccl_compiler::evaluate::Launch;

use super::{check_errors, dag, dag_for, ops};

#[test]
fn each_instance_moves_its_part_of_every_chunk() {
    let dag = dag("algorithm a(ranks N = 2) implements allgather(chunks 2) instances 2 {
             scratch t[2]
             output@1[0..2] = input@0 on channel 1, tb 3
             t@0[1] = input@0[1]
         }");
    assert_eq!(dag.collective.chunks, 4);
    assert_eq!(dag.instances, 2);
    assert_eq!(dag.scratch_chunks, [2, 0]);
    assert_eq!(
        ops(&dag),
        [
            "r1.o[0] = r0.i[0] on channel 2, send tb 6, receive tb 6",
            "r1.o[1] = r0.i[1] on channel 3, send tb 7, receive tb 7, instance 1",
            "r1.o[2] = r0.i[2] on channel 2, send tb 6, receive tb 6",
            "r1.o[3] = r0.i[3] on channel 3, send tb 7, receive tb 7, instance 1",
            "r0.s[0] = r0.i[2]",
            "r0.s[1] = r0.i[3] on instance 1",
        ]
    );
}

#[test]
fn blocks_stay_blocks() {
    let text = "algorithm a(ranks N = 3) implements alltoall(chunks 2) {
                    for r in 0..N, q in 0..N {
                        output@q[2 * r .. 2 * r + 2] = input@r[2 * q .. 2 * q + 2]
                    }
                }";
    for k in [1, 2, 5] {
        let dag = dag_for(text, &Launch { instances: Some(k), ..Launch::default() });
        assert_eq!(dag.ops.len(), if k == 1 { 9 } else { 18 * k as usize });
        assert_eq!(check_promise(&dag), Ok(()), "{k} instances");
    }
}

#[test]
fn custom_conditions_are_cut_along() {
    let text =
        "collective c() { given input@0[0..2]  promise output@1[1] = input@0[0] + input@0[1] }
        algorithm a(ranks N = 2) implements c() { output@1[1] = input@0[0] + input@0[1] }";
    let dag = dag_for(text, &Launch { instances: Some(3), ..Launch::default() });
    assert_eq!(dag.collective.to_string(), "c over 2 ranks, 6 → 6 chunks, 3 chunks a block");
    assert_eq!(check_promise(&dag), Ok(()));
}

#[test]
fn too_many_instances_are_refused() {
    check_errors(
        "algorithm a(ranks N = 2) implements broadcast(chunks 1_000_000) instances 1024 {
             output@1 = input@0
         }",
        "1:65 so many instances make more than 268435456 chunks or 67108864 ops",
    );
    let dag = dag("algorithm a(ranks N = 2) implements broadcast() { output@1 = input@0 }");
    assert!(instances(dag, u32::MAX).is_err());
}

#[test]
fn coarsening_joins_what_moves_together() {
    let coarse = |moves: &str| {
        let text =
            format!("algorithm a(ranks N = 2) implements allgather(chunks 12) {{ {moves} }}");
        let dag = coarsen(dag(&text));
        (dag.collective.chunks, ops(&dag))
    };
    let line = |text: &str| vec![text.to_owned()];
    assert_eq!(coarse("output@1[0..12] = input@0"), (1, line("r1.o[0] = r0.i[0]")));
    assert_eq!(coarse("output@1[18..24] = input@1[6..12]"), (2, line("r1.o[3] = r1.i[1]")));
    assert_eq!(coarse("output@1[13] = input@1[1]"), (12, line("r1.o[13] = r1.i[1]")));
    assert_eq!(coarse("output@1[12..16] = input@1[4..8]"), (3, line("r1.o[3] = r1.i[1]")));
}
