//! Collectives by name: those of a question, and what `--collective` means for a file that does not
//! say what it computes.

use msccl_collective::{Collective, CollectiveKind, Kind, Rank};

/// All of them; roots are rank 0.
pub fn all() -> impl Iterator<Item = Kind> {
    CollectiveKind::ALL.into_iter().map(Kind::from)
}

/// Their names, for people.
pub fn names() -> String {
    CollectiveKind::names()
}

/// The collective of that name, or of that name in nccl-tests, such as `all_reduce_perf`; its root
/// is rank 0.
pub fn named(name: &str) -> Option<Kind> {
    let name = plain(name);
    let name = name.strip_suffix("perf").unwrap_or(&name);
    name.parse::<CollectiveKind>().ok().map(Kind::from)
}

/// A name, however its words are joined.
fn plain(name: &str) -> String {
    name.replace(['_', '-'], "").to_lowercase()
}

/// `kind` with that root, if it has one.
pub fn with_root(kind: Kind, root: Rank) -> Kind {
    CollectiveKind::of(&kind).map_or(kind, |kind| kind.rooted_at(root).into())
}

/// Holds `collective` to what `name` promises: a custom collective without a contract becomes the
/// standard one of that name. One that is already of that name stays as it is. A buffer of no
/// chunks is one that an in-place file does not name, and may have any size.
///
/// # Errors
///
/// There is no such collective, the file says that it computes another one, or its buffers have
/// other sizes.
pub fn claim(collective: &mut Collective, name: &str) -> Result<(), String> {
    if plain(collective.name()) == plain(name) {
        return Ok(());
    }
    let Kind::Custom(custom) = &collective.kind else {
        return Err(format!("this file computes {}, not {name}", collective.name()));
    };
    let kind = named(name).ok_or_else(|| unknown(name))?;
    let (inputs, outputs) = (custom.input_chunks, custom.output_chunks);
    let claimed = [inputs, outputs].into_iter().flat_map(|chunks| {
        [chunks, chunks / collective.ranks.max(1)].map(|chunks| Collective {
            kind: kind.clone(),
            ranks: collective.ranks,
            chunks,
        })
    });
    let fits = |claimed: &Collective| {
        let sizes = claimed.all_ranks();
        let sizes = sizes.map(|rank| (claimed.input_chunks(rank), claimed.output_chunks(rank)));
        let largest = sizes.fold((0, 0), |(i, o), (input, output)| (i.max(input), o.max(output)));
        claimed.chunks > 0 && is_as_stated(inputs, largest.0) && is_as_stated(outputs, largest.1)
    };
    *collective = claimed.into_iter().find(fits).ok_or_else(|| {
        format!("its buffers of {inputs} and {outputs} chunks are not those of {name}")
    })?;
    Ok(())
}

/// Whether a buffer that is stated to have `stated` chunks may have `claimed`.
fn is_as_stated(stated: u32, claimed: u32) -> bool {
    stated == 0 || stated == claimed
}

fn unknown(name: &str) -> String {
    let names = names();
    format!("there is no collective `{name}`; expected one of {names}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_collective::Custom;

    fn check(input_chunks: u32, output_chunks: u32, name: &str, expected: Result<u32, &str>) {
        let name_of_file = "custom".to_owned();
        let custom = Custom { name: name_of_file, input_chunks, output_chunks, contract: None };
        let kind = Kind::Custom(std::sync::Arc::new(custom));
        let mut collective = Collective { kind, ranks: 4, chunks: 1 };
        match (claim(&mut collective, name), expected) {
            (Ok(()), Ok(chunks)) => {
                assert_eq!((collective.name(), collective.chunks), (name, chunks));
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("expected {expected:?}, found {found:?}"),
        }
    }

    #[test]
    fn custom_files_can_be_held_to_a_standard_promise() {
        check(8, 8, "allreduce", Ok(8));
        check(2, 8, "allgather", Ok(2));
        check(8, 2, "reducescatter", Ok(2));
        check(8, 8, "alltoall", Ok(2));
        check(3, 3, "broadcast", Ok(3));
        check(8, 0, "allreduce", Ok(8));
        check(0, 8, "allgather", Ok(2));
        check(0, 0, "allreduce", Err("not those of"));
        check(3, 8, "allreduce", Err("not those of"));
        check(1, 1, "allpeace", Err("expected one of"));
    }
}
