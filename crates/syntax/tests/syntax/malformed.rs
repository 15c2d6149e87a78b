//! Malformed texts that no file of cases can hold.

use crate::tree::tree;

/// Hints that go by words do not fire where the words are names.
#[test]
fn words_of_other_languages_are_good_names() {
    assert!(tree("fn f() { let loop = 1 use = loop from@1 = use int[0] = use }").is_ok());
}

#[test]
fn at_most_fifty_errors_of_each_kind_are_reported() {
    let errors = |line: &str| tree(&line.repeat(80)).unwrap_err();
    assert_eq!(errors("fn f() = 1 +\n").len(), 50);
    assert_eq!(errors("fn f() = 99999999999999999999\n").len(), 50);
}
