mod algorithms;
use std::time::Instant;
use msccl_collective::*;
use msccl_ir::Target;
use msccl_runtime::host::*;
#[test]
fn measure() {
    for (n, bytes) in [(8u32, 1usize<<20), (8, 16<<20), (64, 1<<20)] {
        let t=Instant::now();
        let v = msccl_verify::verify(algorithms::ring(n,1), &Target::native()).unwrap();
        let tv=t.elapsed(); let t=Instant::now();
        let e = Executor::new(&v).unwrap();
        let te=t.elapsed();
        for dt in [DataType::F32, DataType::F16, DataType::F8E4M3, DataType::I64] {
        let t=Instant::now();
        let c = check(&e, &Trial{data_type:dt,reduction:Reduction::Sum,count:bytes/dt.size_bytes(),in_place:true,seed:1,workers:Workers::Available,timeout:None}).unwrap();
        println!("{n} ranks {bytes} {dt}: verify {tv:?} new {te:?} check {:?} run {} us messages {} rounds {}", t.elapsed(), c.report.elapsed_us, c.report.messages, c.report.rounds);
        }
    }
    let v = msccl_verify::verify(algorithms::one_shot(64,1), &Target::native()).unwrap();
    let e = Executor::new(&v).unwrap();
    let c = check(&e, &Trial{data_type:DataType::F32,reduction:Reduction::Sum,count:1<<14,in_place:true,seed:1,workers:Workers::Available,timeout:None}).unwrap();
    println!("one shot 64: {} us", c.report.elapsed_us);
}
