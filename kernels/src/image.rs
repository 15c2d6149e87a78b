//! The committed images.

use std::fmt;
use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::recipe::{Architecture, Module};

/// Code for a device: a file of machine code or text, as `cuModuleLoadData` takes it.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// What it was built for.
    pub architecture: Architecture,
    compressed: &'static [u8],
}

/// The images of one module, in the order of [`Architecture::ALL`].
macro_rules! images {
    ($module:literal) => {
        [
            include_bytes!(concat!("../images/", $module, ".sm_80.z")).as_slice(),
            include_bytes!(concat!("../images/", $module, ".sm_90.z")).as_slice(),
            include_bytes!(concat!("../images/", $module, ".compute_70.z")).as_slice(),
            include_bytes!(concat!("../images/", $module, ".compute_90.z")).as_slice(),
        ]
    };
}
/// The image of `module` for a device of compute capability `major.minor`; `None` if the device is
/// older than all of them.
pub fn image(module: Module, major: u32, minor: u32) -> Option<Image> {
    let architecture = Architecture::for_device(major, minor)?;
    let images = match module {
        Module::Simple => images!("simple"),
        Module::Crew => images!("crew"),
        Module::Direct => images!("direct"),
        Module::SimpleOdd => images!("simple_odd"),
        Module::CrewOdd => images!("crew_odd"),
        Module::DirectOdd => images!("direct_odd"),
        Module::Ll => images!("ll"),
        Module::Ll128 => images!("ll128"),
        Module::LlSmall => images!("ll_small"),
        Module::LlOdd => images!("ll_odd"),
        Module::Ll128Small => images!("ll128_small"),
        Module::Ll128Odd => images!("ll128_odd"),
        Module::Exchange => images!("exchange"),
        Module::Scale => images!("scale"),
    };
    let position = Architecture::ALL.iter().position(|&of| of == architecture)?;
    Some(Image { architecture, compressed: images.get(position)? })
}

impl Image {
    /// The bytes to load, with the zero at the end that text needs.
    ///
    /// # Errors
    ///
    /// The bytes in this library are not those that were built in.
    pub fn bytes(&self) -> Result<Vec<u8>, Corrupt> {
        let mut bytes = Vec::new();
        ZlibDecoder::new(self.compressed).read_to_end(&mut bytes).map_err(|_| Corrupt)?;
        bytes.push(0);
        Ok(bytes)
    }
}

/// An image that does not unpack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernels in this library do not unpack; the library's file is damaged")
    }
}

impl std::error::Error for Corrupt {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel's name occurs in every image of its module.
    fn check(module: Module, major: u32, minor: u32) {
        let image = image(module, major, minor).unwrap();
        let bytes = image.bytes().unwrap();
        for data_type in ["i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"] {
            let kernel = module.kernel(data_type);
            let found = bytes.windows(kernel.len()).any(|bytes| bytes == kernel.as_bytes());
            assert!(found, "{kernel} is not in the image for {}", image.architecture.name());
        }
    }

    #[test]
    fn images_hold_their_kernels() {
        for module in Module::ALL {
            for (major, minor) in [(7, 0), (8, 6), (9, 0), (12, 0)] {
                check(module, major, minor);
            }
        }
    }

    #[test]
    fn old_devices_have_no_image() {
        assert!(image(Module::Simple, 6, 0).is_none());
    }
}
