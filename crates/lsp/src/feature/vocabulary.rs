//! What words of the language mean, in one sentence each. `docs/LANGUAGE.md` is the reference.

/// A word and what it means.
pub struct Entry {
    /// The word.
    pub word: &'static str,
    /// One sentence.
    pub meaning: &'static str,
}

const fn entry(word: &'static str, meaning: &'static str) -> Entry {
    Entry { word, meaning }
}

/// Words that begin a definition.
pub const ITEMS: [Entry; 4] = [
    entry("import", "Brings in the functions and collectives of a module or a file."),
    entry("fn", "Defines a function: `fn name(…) = value` or `fn name(…) { … }`."),
    entry("collective", "Defines a collective by what is given and what is promised."),
    entry("algorithm", "Defines an algorithm, and which collective it implements."),
];

/// Words that begin a statement.
pub const STATEMENTS: [Entry; 8] = [
    entry("let", "Names a value until the end of the block."),
    entry("for", "Runs its block for each element: `for r in 0..N, q in 0..N if q != r { … }`."),
    entry("if", "Runs a block, or chooses a value, by a condition known when it is compiled."),
    entry("on", "Places what moves on a channel or a thread block."),
    entry("scratch", "Makes a buffer of that many chunks on every rank: `scratch name[n]`."),
    entry("require", "Refuses to compile unless a condition holds: `require c, \"message\"`."),
    entry("given", "In a collective: the region holds input at the start."),
    entry("promise", "In a collective: what an output region holds at the end."),
];

/// Words within expressions.
pub const EXPRESSIONS: [Entry; 12] = [
    entry("input", "What each rank contributes: `input@rank[chunk]`."),
    entry("output", "Where each rank's result is left: `output@rank[chunk]`."),
    entry("sum", "Adds integers or regions: `sum(q in 0..N if q != r: input@q)`."),
    entry("then", "The value if the condition of `if` holds."),
    entry("else", "The value or the block if the condition of `if` does not hold."),
    entry("in", "What a name runs over; `in place`: input and output are one memory."),
    entry("by", "From one integer of a range to the next: `0..10 by 4`."),
    entry("and", "Whether both hold; the right side is evaluated only if needed."),
    entry("or", "Whether one holds; the right side is evaluated only if needed."),
    entry("not", "Whether it does not hold."),
    entry("true", "What holds."),
    entry("false", "What does not."),
];

/// Clauses of the head of an algorithm.
pub const CLAUSES: [Entry; 7] = [
    entry("in place", "The program is written for one memory for input and output."),
    entry("protocol", "How messages are laid out: `Simple`, `LL` or `LL128`."),
    entry("instances", "That many copies, each on its part of every chunk."),
    entry("interleaved", "That many parts of every chunk, which thread blocks handle by turns."),
    entry("bytes", "Sizes that it serves, up to and without the upper end: `bytes 0..1MiB`."),
    entry("threads", "Threads per thread block."),
    entry("order", "A claim that all sums are added in that order: `flat` or `tree`."),
];

/// Roles of parameters, and what follows `on`.
pub const CONTEXTUAL: [Entry; 9] = [
    entry("implements", "Which collective the algorithm computes."),
    entry("ranks", "The parameter that counts the ranks."),
    entry("per_node", "The parameter that counts the ranks of a node."),
    entry("chunks", "How many chunks a block has."),
    entry("root", "The rank with the large buffer."),
    entry("channel", "The channel of the links of what moves."),
    entry("tb", "The thread block, on every rank involved."),
    entry("send tb", "The thread block on the sending rank."),
    entry("receive tb", "The thread block on the receiving rank; also for local copies."),
];

/// The standard collectives.
pub const COLLECTIVES: [Entry; 8] = [
    entry("allreduce", "Every rank gets the sum of all inputs. Input K chunks, output K."),
    entry("allgather", "Every rank gets all inputs. Input K chunks, output N·K."),
    entry("reducescatter", "Rank r gets the sum of all blocks r. Input N·K chunks, output K."),
    entry("alltoall", "Rank r gets block r of every rank. Input and output N·K chunks."),
    entry("broadcast", "Every rank gets the root's input. Input K chunks at the root, output K."),
    entry("reduce", "The root gets the sum of all inputs. Input K chunks, output K at the root."),
    entry("gather", "The root gets all inputs. Input K chunks, output N·K at the root."),
    entry("scatter", "Rank r gets block r of the root. Input N·K chunks at the root, output K."),
];

/// Names after `protocol` and `order`.
pub const PROTOCOLS: [Entry; 3] = [
    entry("Simple", "For bandwidth: plain data, and flags beside it. The default."),
    entry("LL", "For latency: packets that carry their flags."),
    entry("LL128", "Between the two: lines of 128 bytes with one flag each."),
];

/// Names after `order`.
pub const ORDERS: [Entry; 2] = [
    entry("flat", "All ranks one after the other, rounded once."),
    entry("tree", "A balanced tree; every sum of two is rounded."),
];

/// The built-in functions.
const BUILTINS: [Entry; 28] = [
    entry("len", "How many elements a list or a range has."),
    entry("min", "The lesser of two integers."),
    entry("max", "The greater of two integers."),
    entry("abs", "An integer without its sign."),
    entry("log2", "The binary logarithm, rounded down."),
    entry("ceil_log2", "The binary logarithm, rounded up."),
    entry("is_power_of_two", "Whether it is 1, 2, 4, …"),
    entry("gcd", "The greatest common divisor of two integers."),
    entry("reverse", "A list backwards."),
    entry("position", "The index of `x` in a list, an error if absent."),
    entry("contains", "Whether `x` is in a list."),
    entry("bit_reverse", "The lowest `bits` bits of `x` in reverse order."),
    entry("count", "How many chunks a region has."),
    entry("node", "The node of a rank."),
    entry("local", "The place of a rank within its node."),
    entry("rail", "The network rail of a rank: its local rank."),
    entry("nodes", "How many nodes there are."),
    entry("per_node", "How many ranks a node has."),
    entry("neighbours", "The other ranks of the node."),
    entry("rank_at", "The rank of a node with that local rank."),
    entry("nic", "The NIC that a rank uses."),
    entry("nics", "How many NICs there are."),
    entry("switch", "The switch of a rank."),
    entry("switches", "How many switches there are."),
    entry("numa", "The NUMA node of a rank."),
    entry("numas", "How many NUMA nodes there are."),
    entry("linked", "Whether a link leads from one rank to another, or one switch joins them."),
    entry("width", "What that carries, in whole GB/s, 1 or more; 0 if they are not linked."),
];

/// What a built-in function is.
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTINS.iter().find(|it| it.word == name).map(|it| it.meaning)
}

/// What a keyword or contextual word means.
pub fn word(word: &str) -> Option<&'static str> {
    let all = ITEMS.iter().chain(&STATEMENTS).chain(&EXPRESSIONS).chain(&CLAUSES);
    let mut all = all.chain(&CONTEXTUAL).chain(&COLLECTIVES);
    all.find(|it| it.word == word).map(|it| it.meaning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_collective::CollectiveKind;
    use msccl_compiler::evaluate::builtins;

    #[test]
    fn every_word_of_the_compiler_is_explained() {
        let missing: Vec<_> =
            builtins().map(|it| it.name).filter(|name| builtin(name).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!(builtins().count(), BUILTINS.len());
        for entry in &COLLECTIVES {
            assert!(entry.word.parse::<CollectiveKind>().is_ok(), "{}", entry.word);
        }
        for keyword in crate::token::KEYWORDS.iter().filter(|word| **word != "place") {
            assert!(word(keyword).is_some(), "{keyword}");
        }
    }
}
