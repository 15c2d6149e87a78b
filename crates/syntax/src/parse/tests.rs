use super::*; use std::println;
#[test]
fn scratchpad() {
    let wrap = std::env::var("W").is_ok();
    for line in std::fs::read_to_string(std::env::var("F").unwrap()).unwrap().lines() {
    let mut sources = SourceMap::new();
    let text = if wrap { format!("algorithm a(ranks N) implements b() {{\n    {line}\n}}\n") } else { format!("{line}\n") };
    let file = sources.add("f", text);
    match parse(&sources, file) {
        Ok(_) => println!("######## OK {line}\n"),
        Err(ds) => println!("{}", sources.render_all(&ds)),
    }
    }
}
