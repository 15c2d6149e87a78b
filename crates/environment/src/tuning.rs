//! The file of a tuning table, read.

use std::path::Path;

use msccl_select::Tuning;

use super::files;

/// The table in the file at `path`.
///
/// # Errors
///
/// It cannot be read, or is no table; the text names the file.
pub fn read(path: &str) -> Result<Tuning, String> {
    let content = files::content(Path::new(path)).map_err(|why| format!("{path}: {why}"))?;
    Tuning::parse(path, &content).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_wrong_is_reported_with_the_line() {
        let name = format!("msccl-environment-{}.tuning", std::process::id());
        let path = std::env::temp_dir().join(name);
        let check = |text: &str, expected: Result<&str, &str>| {
            fs::write(&path, text).unwrap();
            let machine = read(path.to_str().unwrap()).map(|table| table.machine().to_owned());
            let expected = expected.map(str::to_owned);
            assert_eq!(machine, expected.map_err(|why| format!("{}{why}", path.display())));
        };
        let head = "msccl-tuning 1\nmachine ours\n";
        check(head, Ok("ours"));
        let row = "allreduce any any any LL 4 48 allreduce/ring\n";
        let why = " line 3: expected a multiple of 32 threads, found 48";
        check(&format!("{head}{row}"), Err(why));
        fs::remove_file(path).unwrap();
    }
}
