//! Rates of GPUs, from files.

use msccl_pages::estimate;
use msccl_registry::Shape;
use msccl_select::Hardware;
use msccl_simulate::model::Calibration;
use msccl_topology::cluster::Cluster;

use crate::failure::{Failure, Result};
use crate::input::Input;

/// As [`estimate::hardware`], with the rates in the file `calibration`.
///
/// # Errors
///
/// As there, or the file is no calibration.
pub fn hardware(
    cluster: Option<Cluster>,
    calibration: Option<&str>,
    shape: Shape,
) -> Result<Hardware> {
    estimate::hardware(cluster, calibration.map(calibration_in).transpose()?, shape)
}

/// The calibration in a file.
///
/// # Errors
///
/// It cannot be read, or is none.
pub fn calibration_in(file: &str) -> Result<Calibration> {
    let Input { name, text } = Input::read(file)?;
    Calibration::read(&text).map_err(|error| Failure::new(format!("{name}: {error}")))
}
