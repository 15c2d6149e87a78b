//! Reading values: one function per form of value. Each reads the variable once, keeps an error if
//! the value makes no sense, and goes on.

use std::str::FromStr;
use std::time::Duration;

use super::older_names::{self, Setting};
use super::{Lookup, ValueError, Variable};

/// Reads variables, and collects what is wrong with them.
pub struct Reader<'a> {
    lookup: Lookup<'a>,
    value_errors: Vec<ValueError>,
    errors: Vec<ValueError>,
}

impl<'a> Reader<'a> {
    /// Reads what `lookup` knows.
    pub fn new(lookup: Lookup<'a>) -> Self {
        Self { lookup, value_errors: Vec::new(), errors: Vec::new() }
    }

    /// What was wrong, errors last.
    pub fn value_errors(self) -> Vec<ValueError> {
        self.value_errors.into_iter().chain(self.errors).collect()
    }

    /// What was wrong so far with variables that [protect](Variable::protects): nobody should go on
    /// without what they request.
    pub fn errors(&self) -> &[ValueError] {
        &self.errors
    }

    /// Adds what is wrong with a value that can be read.
    pub fn report(&mut self, value_error: ValueError) {
        self.value_errors.push(value_error);
    }

    /// The value as it stands.
    pub fn text(&self, variable: &Variable) -> Option<String> {
        older_names::setting(variable.name, self.lookup).map(|setting| setting.text)
    }

    /// The value that `parse` returns; `None` and a [`ValueError`] if it returns none.
    pub fn parse<T>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        self.value_errors.extend(older_names::conflict(variable.name, self.lookup));
        let Setting { name, text } = older_names::setting(variable.name, self.lookup)?;
        let value = parse(&text);
        if value.is_none() {
            let Variable { name: _, values, default, meaning: _ } = variable;
            let found = format!("{name} is `{text}`, expected {values}");
            if variable.protects() {
                let advice = "it protects the job, so it is not ignored: correct it, or unset it";
                self.errors.push(format!("{found}; {advice}"));
            } else {
                self.value_errors.push(format!("{found}; it is ignored (default: {default})"));
            }
        }
        value
    }

    /// `0`, or any other number.
    pub fn flag(&mut self, variable: &Variable) -> Option<bool> {
        self.parse(variable, |text| text.parse::<i64>().ok().map(|number| number != 0))
    }

    /// A number from 1 on.
    pub fn count<T: FromStr + PartialOrd + Default>(&mut self, variable: &Variable) -> Option<T> {
        self.parse(variable, |text| text.parse().ok().filter(|count| *count > T::default()))
    }

    /// Seconds, with decimals if need be.
    pub fn seconds(&mut self, variable: &Variable) -> Option<Duration> {
        self.parse(variable, |text| Duration::try_from_secs_f64(text.parse().ok()?).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::super::variable;
    use super::*;

    #[track_caller]
    fn check<T: PartialEq + std::fmt::Debug>(
        text: &str,
        read: impl FnOnce(&mut Reader<'_>) -> Option<T>,
        expected: Option<T>,
        value_errors: usize,
    ) {
        let lookup = |_: &str| Some(text.to_owned());
        let mut reader = Reader::new(&lookup);
        assert_eq!(read(&mut reader), expected, "{text}");
        assert_eq!(reader.value_errors().len(), value_errors, "{text}");
    }

    #[test]
    fn values_and_nonsense() {
        check("0", |r| r.flag(&variable::CHECK), Some(false), 0);
        check("2", |r| r.flag(&variable::CHECK), Some(true), 0);
        check("yes", |r| r.flag(&variable::CHECK), None, 1);
        check("8", |r| r.count(&variable::INSTANCES), Some(8), 0);
        check("0", |r| r.count::<u32>(&variable::INSTANCES), None, 1);
        check("-3", |r| r.count::<u32>(&variable::INSTANCES), None, 1);
        let half = Duration::from_millis(500);
        check("0.5", |r| r.seconds(&variable::TIMEOUT_S), Some(half), 0);
        check("0", |r| r.seconds(&variable::TIMEOUT_S), Some(Duration::ZERO), 0);
        check("-1", |r| r.seconds(&variable::TIMEOUT_S), None, 1);
        check("1e300", |r| r.seconds(&variable::TIMEOUT_S), None, 1);
        check("NaN", |r| r.seconds(&variable::TIMEOUT_S), None, 1);
        check("", |r| r.flag(&variable::CHECK), None, 0);
    }

    #[test]
    fn errors_say_what_to_write() {
        let lookup = |_: &str| Some("soon".to_owned());
        let mut reader = Reader::new(&lookup);
        assert_eq!(reader.flag(&variable::LOW_LATENCY), None);
        assert!(reader.errors().is_empty());
        let expected = "MSCCL_LOW_LATENCY is `soon`, expected 0 or 1; it is ignored (default: 1)";
        assert_eq!(reader.value_errors(), [expected]);
    }

    #[test]
    fn what_protects_is_not_ignored() {
        let lookup = |_: &str| Some("soon".to_owned());
        let mut reader = Reader::new(&lookup);
        assert_eq!(reader.seconds(&variable::TIMEOUT_S), None);
        let expected = "MSCCL_TIMEOUT_S is `soon`, expected seconds, 0 for no limit; it protects \
                        the job, so it is not ignored: correct it, or unset it";
        assert_eq!(reader.errors(), [expected]);
        assert_eq!(reader.value_errors(), [expected]);
    }
}
