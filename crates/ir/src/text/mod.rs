//! The readable text form of an algorithm: one step to a line.
//!
//! ```text
//! algorithm "hop"
//! collective allgather ranks 2 chunks 1
//! placement in place
//! protocol Simple
//! bytes 0..
//!
//! r0 scratch 0
//!   tb0 ch0 send r1 receive r1
//!     s0: o[0] -> r1
//!     s1: r1 -> o[1]
//! ```
//!
//! A step reads as `s3 after tb1 s2, tb4 s0: r4 + i[2] -> o[2], r5 x4`: step 3 waits for two steps
//! of other thread blocks, adds four slots from `i[2]` on to the next message from rank 4, and
//! stores the sum from `o[2]` on and sends it to rank 5. `docs/IR.md` has the grammar.
//!
//! Guarantees: `parse(&print(a)) == Ok(a)` for every algorithm, well formed or not; the text
//! depends on nothing but the algorithm, and a changed step changes one line. The parser reads line
//! by line, takes any white space and `//` comments, and locates every complaint. It checks the
//! form only; [`validate`](crate::validate()) checks the algorithm.

mod parse;
mod print;
mod scan;

pub use parse::parse;
pub use print::print;
pub use scan::TextError;

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: &str = r#"algorithm "two \"quotes\" and a \u{a}"
collective custom "next" ranks 2 chunks 1 input 2 output 1
contract
  given r0.i[0]
  given r1.i[1]
  promise r0.o[0] = r1.i[1]
  promise r1.o[0] = r0.i[0] + r0.i[0] + r1.i[1]
placement both
protocol LL128
bytes 8..=4096
threads 512

r0 scratch 4
  tb0 ch0 send r1, r2 receive r1
    s0: i[0] -> r1
    s1 after tb1 s0: r1 + i[1] -> o[0], r2 x4
    s2 after tb1 s0, tb1 s1: nop
  tb1 ch3
    s0: _ -> s[0] x0
    s1: i[0] + i[1] + s[3] -> _

r1 scratch 0
"#;

    #[test]
    fn prints_what_it_parses() {
        let parsed = parse(EVERYTHING).unwrap();
        assert_eq!(print(&parsed), EVERYTHING);
    }

    #[test]
    fn takes_any_white_space_and_comments() {
        let wide = EVERYTHING.replace(", ", "  ,\t").replace('\n', "  // note\n\n");
        assert_eq!(parse(&wide), parse(EVERYTHING));
    }

    fn check(from: &str, to: &str, expected: &str) {
        assert!(EVERYTHING.contains(from), "{from}");
        let error = parse(&EVERYTHING.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn complaints_say_where_and_what() {
        let cases = [
            ("x4", "x-4", "line 16, column 44: expected the end of the line, found `x-4`"),
            ("s2 a", "s3 a", "line 17, column 5: expected `s2`, the next in order, found `s3`"),
            (
                "tb1 ch3",
                "tb2 ch3",
                "line 18, column 3: expected `tb1`, the next in order, found `tb2`",
            ),
            ("tb1 ch3", "tb1 c3", "line 18, column 7: expected `ch` with a number, found `c3`"),
            ("r1 scratch", "r1 scrtch", "line 22, column 4: expected `scratch`, found `scrtch`"),
            (
                "scratch 4",
                "scratch 4294967296",
                "line 13, column 12: expected a number, found `4294967296`",
            ),
            ("scratch 4", "scratch 04", "line 13, column 12: expected a number, found `04`"),
            ("_ -> s[0]", "_ s[0]", "line 19, column 11: expected `->`, found `s[0]`"),
            ("i[0] -> r1", "i[0 -> r1", "line 15, column 13: expected `]`, found `->`"),
            (
                "i[0] -> r1",
                "k[0] -> r1",
                "line 15, column 9: expected a place (`i[0]`, `o[0]`, `s[0]`) or a link (`r0`), \
                 found `k[0]`",
            ),
            (
                "placement both",
                "placement",
                "line 8, column 10: expected one of `in place`, `out of place`, `both`, found the \
                 end of the line",
            ),
            (
                "protocol LL128",
                "protocol LL12",
                "line 9, column 10: expected one of `Simple`, `LL`, `LL128`, found `LL12`",
            ),
            (
                "\\u{a}",
                "\\n",
                "line 1, column 11: expected a string with no escapes but \\\", \\\\ and \\u{…}, \
                 found `\"two`",
            ),
            (
                "promise r1.o[0]",
                "promise r0.o[0]",
                "line 7, column 3: expected one promise for each slot, found `promise`",
            ),
            ("bytes 8", "byte 8", "line 10, column 1: expected `bytes`, found `byte`"),
        ];
        for (from, to, expected) in cases {
            check(from, to, expected);
        }
    }

    #[test]
    fn a_text_that_ends_early_says_what_is_missing() {
        let header: String = EVERYTHING.lines().take(7).map(|line| format!("{line}\n")).collect();
        let error = parse(&header).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 8, column 1: expected `placement`, found the end of the text"
        );
    }
}
