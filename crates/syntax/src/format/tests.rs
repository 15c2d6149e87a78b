use super::*; use std::println;
#[test]
fn scratchpad_format() {
    let text = std::fs::read_to_string(std::env::var("F").unwrap()).unwrap();
    let t = std::time::Instant::now();
    match format(&text) {
        Ok(out) => {
            eprintln!("{:?}", t.elapsed());
            if std::env::var("Q").is_err() { println!("{out}"); }
            assert_eq!(format(&out).unwrap(), out);
        }
        Err(d) => println!("{d:?}"),
    }
}
