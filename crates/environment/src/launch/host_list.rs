//! Slurm's short ways to write lists: `node[01-16,20],login` for hosts, `4(x2),3` for counts.

/// The first host of `list`; nothing if its brackets do not match or it has no name.
pub(super) fn first_host(list: &str) -> Option<String> {
    let (mut host, mut rest) = (String::new(), list.trim());
    loop {
        let stop = rest.find(['[', ']', ',']).unwrap_or(rest.len());
        host.push_str(&rest[..stop]);
        let Some(inner) = rest[stop..].strip_prefix('[') else {
            let ended = !rest[stop..].starts_with(']') && !host.is_empty();
            return ended.then_some(host);
        };
        let (ranges, after) = inner.split_once(']')?;
        let first = ranges.split([',', '-']).next().filter(|first| !first.is_empty())?;
        host.push_str(first);
        rest = after;
    }
}

/// The count number `index` of `list`; nothing if it is malformed or has no such count.
pub(super) fn count_at(list: &str, index: usize) -> Option<u32> {
    let mut left = index;
    for item in list.split(',') {
        let (count, times) = match item.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (item, 1_usize),
        };
        if left < times {
            return count.trim().parse().ok();
        }
        left -= times;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_of_a_list() {
        let check = |list: &str, expected: Option<&str>| {
            assert_eq!(first_host(list).as_deref(), expected, "{list}");
        };
        check("node1", Some("node1"));
        check("node1,node2", Some("node1"));
        check("node[01-16,20],login", Some("node01"));
        check("gpu[3,7-9]", Some("gpu3"));
        check("rack[2-3]-node[008-015].example", Some("rack2-node008.example"));
        check("a[1-2][5-6]", Some("a15"));
        check("", None);
        check("node[1-2", None);
        check("node]1", None);
        check("node[]", None);
        check(",node1", None);
    }

    #[test]
    fn counts_by_node() {
        let counts = |list: &str| [0, 1, 2, 3].map(|index| count_at(list, index));
        assert_eq!(counts("4(x2),3"), [Some(4), Some(4), Some(3), None]);
        assert_eq!(counts("8"), [Some(8), None, None, None]);
        assert_eq!(counts("2,1(x3)"), [Some(2), Some(1), Some(1), Some(1)]);
        assert_eq!(counts("4(x2"), [None; 4]);
        assert_eq!(counts("many"), [None; 4]);
    }
}
