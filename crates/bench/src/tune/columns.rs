//! Rows of words and figures as lines.

/// Head and `rows` as lines, cells below one another; columns in which no row has anything but `-`
/// are left out. Heads begin with `<` where cells are words, with `>` where they are figures.
pub(super) fn aligned<const COLUMNS: usize>(
    heads: [&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) -> Vec<String> {
    let shown = |column: &usize| rows.iter().any(|row| row[*column] != "-");
    let columns: Vec<usize> = (0..COLUMNS).filter(shown).collect();
    let head = heads.map(|column| column[1..].to_owned());
    let lines: Vec<_> = [&head].into_iter().chain(rows).collect();
    let width =
        |column: usize| lines.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let line = |row: &[String; COLUMNS]| {
        let cell = |&column: &usize| {
            if heads[column].starts_with('<') {
                format!("{:<1$}", row[column], width(column))
            } else {
                format!("{:>1$}", row[column], width(column))
            }
        };
        columns.iter().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(|row| line(row)).collect()
}

/// What stands where there is nothing.
pub(super) fn none() -> String {
    "-".to_owned()
}

/// How much longer `them_us` is than `us`.
pub(super) fn behind(them_us: f64, us: f64) -> String {
    format!("{:+.1}%", 100.0 * (them_us / us - 1.0))
}
