fn main() {
    for f in std::env::args().skip(1) {
        let t = std::fs::read_to_string(&f).unwrap();
        let mut s = msccl_syntax::SourceMap::new();
        let id = s.add("f", t.clone());
        let a = std::time::Instant::now();
        let r = msccl_syntax::parse(&s, id);
        let b = a.elapsed();
        let a = std::time::Instant::now();
        let _ = msccl_syntax::format(&t);
        println!(
            "{f} {} KB ok={} parse {:?} format {:?}",
            t.len() / 1000,
            r.is_ok(),
            b,
            a.elapsed()
        );
    }
}
