use super::*;
#[test]
fn scratchpad() {
    let text = std::fs::read_to_string(std::env::var("F").unwrap()).unwrap();
    let mut sources = SourceMap::new();
    let file = sources.add("f", text);
    let t = std::time::Instant::now();
    let r = parse(&sources, file);
    println!("took {:?}", t.elapsed());
    match r {
        Ok(file) => if std::env::var("Q").is_err() { println!("{file:#?}") },
        Err(ds) => for d in ds {
            let lc = sources.line_column(d.labels[0].span);
            println!("{}:{}: {} {:?}", lc.line, lc.column, d.message, d.hints);
        },
    }
}
