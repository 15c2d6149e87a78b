#[path = "../../runtime/tests/algorithms/mod.rs"]
mod algorithms;
use std::time::Instant;
#[test]
fn measure() {
    for n in [64,256] {
    let a=algorithms::ring(n,1);
    let t=Instant::now();
    let c = msccl_simulate::timeline::CostModel::nvswitch(msccl_collective::Protocol::Simple);
    let tl=msccl_simulate::timeline(&a,&msccl_ir::Target::native(),&c,1<<20).unwrap();
    println!("ring {n}: {} steps timeline {:?} {} us", a.step_count(), t.elapsed(), tl.total_us);
    let t=Instant::now(); let s=msccl_simulate::timeline::svg(&tl); println!("svg {} bytes {:?}", s.len(), t.elapsed());
    if n==64 {
    let t=Instant::now();
    let r=msccl_simulate::random_run(&a, msccl_simulate::Setting{depth:4,chunks_per_message:1,in_place:true,rounds:1}, 3).unwrap();
    println!("random {:?} {:?}", r==msccl_simulate::Ending::Right, t.elapsed());}
    }
}
