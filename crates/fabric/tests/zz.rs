#![allow(clippy::unwrap_used)]
#[path="fabric/world.rs"] mod world;
use world::*;
#[test] fn time() {
  for n in [2,8,64] {
    let t=std::time::Instant::now();
    let r=run(n,&settings(),|g|{ let j=t.elapsed(); let b=std::time::Instant::now(); for _ in 0..100 {g.all_gather(&[0;256]).unwrap();} (j,b.elapsed()/100)});
    eprintln!("{n}: join max {:?} allgather {:?} total {:?}", r.iter().map(|x|x.0).max(), r.iter().map(|x|x.1).max(), t.elapsed());
  }
}
