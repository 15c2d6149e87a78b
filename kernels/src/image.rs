//! The committed images, as they are embedded.

use crate::module::{Module, with_modules};
use crate::packing::{Corrupt, unpack};
use crate::recipe::Architecture;

/// Code for a device: a file of machine code or text, as `cuModuleLoadData` takes it.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// What it was built for.
    pub architecture: Architecture,
    packed: &'static [u8],
}

/// The images of one module, in the order of [`Architecture::ALL`].
type Images = [&'static [u8]; Architecture::ALL.len()];

macro_rules! embed {
    ($(
        $(#[$doc:meta])* $module:ident $name:literal $kernel:literal $headers:tt
        $kernels:ident($line:literal),
    )*) => {
        fn images(module: Module) -> Images {
            match module {
                $(Module::$module => [
                    include_bytes!(concat!("../images/", $name, ".sm_80.zst")),
                    include_bytes!(concat!("../images/", $name, ".sm_90.zst")),
                    include_bytes!(concat!("../images/", $name, ".compute_70.zst")),
                    include_bytes!(concat!("../images/", $name, ".compute_90.zst")),
                ],)*
            }
        }
    };
}
with_modules!(embed);

/// The image of `module` for a device of compute capability `major.minor`; `None` if the device is
/// older than all of them.
pub fn image(module: Module, major: u32, minor: u32) -> Option<Image> {
    let architecture = Architecture::for_device(major, minor)?;
    let position = Architecture::ALL.iter().position(|&of| of == architecture)?;
    Some(Image { architecture, packed: images(module).get(position)? })
}

impl Image {
    /// The bytes to load, with the zero at the end that text needs.
    ///
    /// # Errors
    ///
    /// The bytes in this library are not those that were built in.
    pub fn bytes(&self) -> Result<Vec<u8>, Corrupt> {
        let mut bytes = unpack(self.packed)?;
        bytes.push(0);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel's name occurs in every image of its module, which is for this architecture.
    fn check(module: Module, major: u32, minor: u32) {
        let image = image(module, major, minor).unwrap();
        let bytes = image.bytes().unwrap();
        let holds = |text: &str| bytes.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        for data_type in ["i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"] {
            let kernel = module.kernel(data_type);
            assert!(
                holds(&kernel),
                "{kernel} is not in the image for {}",
                image.architecture.name()
            );
        }
        match image.architecture {
            Architecture::Machine(_) => assert!(bytes.starts_with(b"\x7fELF")),
            Architecture::Portable(of) => assert!(holds(&format!(".target sm_{of}\n"))),
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

    #[test]
    fn damage_is_noticed() {
        let whole = images(Module::Scale)[0];
        assert!(unpack(whole).is_ok());
        for (at, mask) in [(0, 1), (whole.len() / 2, 1), (whole.len() - 18, 0x80)] {
            let mut damaged = whole.to_vec();
            damaged[at] ^= mask;
            assert_eq!(unpack(&damaged), Err(Corrupt), "byte {at}");
        }
        for length in [0, 3, whole.len() / 2, whole.len() - 1] {
            assert_eq!(unpack(&whole[..length]), Err(Corrupt), "{length} bytes");
        }
    }
}
