//! Rates with where they are from: what `msccl calibrate` writes, and what ships.
//!
//! A calibration is a JSON file. Rates of kernels that were not measured are those that the fit
//! began with; `measured` names the ones that were.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::rates::Rates;

/// What readers can rely on: the number grows when a field changes its meaning or goes.
const SCHEMA: &str = "msccl-calibration/1";

const H200: &str = include_str!("calibrations/h200.json");
const H100: &str = include_str!("calibrations/h100.json");

/// The rates of a kind of machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    schema: String,
    /// What was measured on.
    pub machine: String,
    /// The day, as `2026-11-26`.
    pub date: String,
    /// The command that measured.
    pub command: String,
    /// The cluster on which the estimates were made that came nearest.
    pub cluster: String,
    /// The algorithms that were measured.
    pub algorithms: Vec<String>,
    /// Measurements that were looked at.
    pub points: usize,
    /// The kinds of kernels that were measured; rates of others are extrapolated.
    pub measured: Vec<String>,
    /// Mean of the absolute logarithms of estimated by measured times.
    pub log_error: f64,
    /// The rates.
    pub rates: Rates,
}

/// Why a text is no calibration.
#[derive(Debug)]
pub enum CalibrationError {
    /// It is not JSON of this form.
    Json(serde_json::Error),
    /// It is of another version.
    Schema {
        /// What it says it is.
        found: String,
    },
    /// A rate is not a number from 0 on.
    Rate {
        /// Of which kind of kernel.
        kernel: &'static str,
    },
}

impl fmt::Display for CalibrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "expected a calibration in JSON, found: {error}"),
            Self::Schema { found } => {
                write!(f, "expected schema `{SCHEMA}`, found `{found}`; calibrate again")
            }
            Self::Rate { kernel } => {
                write!(f, "expected rates from 0 on, found another one for `{kernel}`")
            }
        }
    }
}

impl std::error::Error for CalibrationError {}

/// What is known of a calibration beside its rates.
#[derive(Clone, PartialEq, Debug)]
pub struct Origin {
    /// What was measured on.
    pub machine: String,
    /// The day.
    pub date: String,
    /// The command that measured.
    pub command: String,
    /// The cluster of the estimates.
    pub cluster: String,
    /// The algorithms that were measured.
    pub algorithms: Vec<String>,
}

impl Calibration {
    /// `rates`, fitted to `points` measurements of `measured` kinds of kernels.
    pub fn new(
        origin: Origin,
        points: usize,
        measured: Vec<String>,
        log_error: f64,
        rates: Rates,
    ) -> Self {
        let Origin { machine, date, command, cluster, algorithms } = origin;
        let schema = SCHEMA.to_owned();
        Self {
            schema,
            machine,
            date,
            command,
            cluster,
            algorithms,
            points,
            measured,
            log_error,
            rates,
        }
    }

    /// That of H200s, which ships.
    pub fn h200() -> Self {
        Self::shipped(H200)
    }

    /// That of H100s, which ships.
    pub fn h100() -> Self {
        Self::shipped(H100)
    }

    /// A text that ships; a test reads all of them.
    fn shipped(text: &str) -> Self {
        Self::read(text).unwrap_or_else(|_| Self {
            schema: SCHEMA.to_owned(),
            machine: "nothing".to_owned(),
            date: String::new(),
            command: String::new(),
            cluster: String::new(),
            algorithms: Vec::new(),
            points: 0,
            measured: Vec::new(),
            log_error: 0.0,
            rates: Rates::assumed(),
        })
    }

    /// Reads a calibration.
    ///
    /// # Errors
    ///
    /// It is none, of another version, or has rates that make no sense.
    pub fn read(text: &str) -> Result<Self, CalibrationError> {
        let found: Self = serde_json::from_str(text).map_err(CalibrationError::Json)?;
        if found.schema != SCHEMA {
            return Err(CalibrationError::Schema { found: found.schema });
        }
        match found.rates.senseless() {
            Some(kernel) => Err(CalibrationError::Rate { kernel }),
            None => Ok(found),
        }
    }

    /// As text.
    pub fn write(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ships_can_be_read_and_written() {
        for text in [H200, H100] {
            let shipped = Calibration::read(text).unwrap();
            assert_eq!(Calibration::read(&shipped.write()).unwrap(), shipped);
            assert!(shipped.points > 100 && shipped.algorithms.len() <= 3, "{shipped:?}");
        }
        assert!(Calibration::h200().machine.ends_with("H200"));
        assert!(Calibration::h100().machine.contains("H100"));
    }

    #[test]
    fn what_is_none_is_refused() {
        let text = Calibration::h200().write();
        let error = Calibration::read(&text.replace("calibration/1", "calibration/9"));
        assert!(error.unwrap_err().to_string().contains("found `msccl-calibration/9`"));
        let error = Calibration::read(&text.replacen("\"launch_ns\": ", "\"launch_ns\": -", 1));
        assert!(error.unwrap_err().to_string().contains("rates from 0 on"));
        assert!(Calibration::read("{}").is_err());
    }
}
