//! Random programs: what is compiled is proved, and what is proved computes the program.

use msccl_compiler::chunk::{ChunkDag, instances};
use msccl_compiler::compile_chunks;
use msccl_ir::Target;
use msccl_testkit::random::ops::programs;
use msccl_tests::witness::execute;
use msccl_verify::verify;
use proptest::prelude::*;

/// Compiles, proves and runs `program` on `target`.
fn check(program: ChunkDag, target: &Target) -> Result<(), TestCaseError> {
    let compiled = match compile_chunks(program, target) {
        Ok(compiled) => compiled,
        Err(diagnostics) => return Err(TestCaseError::fail(format!("{diagnostics:?}"))),
    };
    let dump = compiled.instructions.dump();
    let verified = verify(compiled.schedule.algorithm, target)
        .map_err(|refusal| TestCaseError::fail(format!("{target}: {refusal}\n{dump}")))?;
    execute(&verified, &[3]).map_err(|story| TestCaseError::fail(format!("{story}\n{dump}")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_programs_are_proved_and_run_on_the_native_target(program in programs(40)) {
        check(program, &Target::native())?;
    }

    #[test]
    fn random_programs_are_proved_and_run_on_the_msccl_target(program in programs(40)) {
        check(program, &Target::msccl())?;
    }

    #[test]
    fn random_programs_in_instances_are_proved_and_run(program in programs(20), k in 2u32..4) {
        let program = instances(program, k).unwrap();
        check(program.clone(), &Target::native())?;
        check(program, &Target::msccl())?;
    }
}
