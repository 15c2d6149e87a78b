//! The modules: one table, from which names, entry files and embedded images follow.

use std::fmt::Write;

use msccl_collective::DataType;

use crate::specialised::device_name;

/// Gives the table of modules to the macro `$then`. Each row: what the module is, its variant, the
/// name of its images, the name in those of its kernels, the headers that its entry includes, and
/// its kernels.
macro_rules! with_modules {
    ($then:ident) => {
        $then! {
            /// Interpreters over protocol Simple.
            Simple "simple" "simple" ["interpreter.cuh"]
                EachType("MSCCL_INTERPRETER({kernel}, Simple, {type})"),
            /// The same with warp-specialised thread blocks.
            WarpSpecialised "warp_specialised" "crew" ["interpreter.cuh"]
                EachType("MSCCL_INTERPRETER({kernel}, WarpSpecialised, {type})"),
            /// Those of protocol Simple with links that may deliver directly.
            Direct "direct" "direct" ["interpreter.cuh"]
                EachType("MSCCL_INTERPRETER({kernel}, Direct, {type})"),
            /// [`Module::Simple`] for operands of any alignment.
            SimpleUnaligned "simple_unaligned" "simple_odd" ["interpreter.cuh"]
                EachType("MSCCL_INTERPRETER({kernel}, SimpleUnaligned, {type})"),
            /// [`Module::WarpSpecialised`] for operands of any alignment.
            WarpSpecialisedUnaligned "warp_specialised_unaligned" "crew_odd" ["interpreter.cuh"]
                EachType("MSCCL_INTERPRETER({kernel}, WarpSpecialisedUnaligned, {type})"),
            /// [`Module::Direct`] for operands of any alignment.
            DirectUnaligned "direct_unaligned" "direct_odd" ["interpreter.cuh"]
                EachType("MSCCL_INTERPRETER({kernel}, DirectUnaligned, {type})"),
            /// [`Module::Direct`] for ranks that offer nothing to peers and only move elements.
            PushOnly "push_only" "push_only" ["interpreter.cuh"]
                One("MSCCL_INTERPRETER({kernel}, PushOnly, U64)"),
            /// Interpreters over protocol LL.
            Ll "ll" "ll" ["interpreter.cuh", "ll.cuh"]
                EachType("MSCCL_INTERPRETER({kernel}, Ll, {type})"),
            /// Interpreters over protocol LL128.
            Ll128 "ll128" "ll128" ["interpreter.cuh", "ll128.cuh"]
                EachType("MSCCL_INTERPRETER({kernel}, Ll128, {type})"),
            /// Low-latency kernels over protocol LL.
            LlLowLatency "ll_low_latency" "ll_small" ["low_latency.cuh", "ll.cuh"]
                EachType("MSCCL_LOW_LATENCY({kernel}, Ll, {type}, false)"),
            /// The same for operands of any alignment.
            LlLowLatencyUnaligned "ll_low_latency_unaligned" "ll_odd" ["low_latency.cuh", "ll.cuh"]
                EachType("MSCCL_LOW_LATENCY({kernel}, Ll, {type}, true)"),
            /// Low-latency kernels over protocol LL128.
            Ll128LowLatency "ll128_low_latency" "ll128_small" ["low_latency.cuh", "ll128.cuh"]
                EachType("MSCCL_LOW_LATENCY({kernel}, Ll128, {type}, false)"),
            /// The same for operands of any alignment.
            Ll128LowLatencyUnaligned "ll128_low_latency_unaligned" "ll128_odd"
                ["low_latency.cuh", "ll128.cuh"]
                EachType("MSCCL_LOW_LATENCY({kernel}, Ll128, {type}, true)"),
            /// Point-to-point exchanges.
            Exchange "exchange" "exchange" ["exchange.cuh"]
                One("MSCCL_EXCHANGE({kernel})"),
            /// Scaling by a number.
            Scale "scale" "scale" ["scale.cuh"]
                EachType("MSCCL_SCALE({kernel}, {type})"),
            /// Combining blocks of this GPU's memory.
            Combine "combine" "combine" ["combine.cuh"]
                EachType("MSCCL_COMBINE({kernel}, {type})"),
        }
    };
}
#[cfg(feature = "images")]
pub(crate) use with_modules;

/// The kernels of a module: the line of its entry that instantiates one. `{kernel}` stands for the
/// kernel's name, `{type}` for the element type's name on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kernels {
    /// One for every element type.
    EachType(&'static str),
    /// One for all of them.
    One(&'static str),
}

macro_rules! declare {
    ($(
        $(#[$doc:meta])* $module:ident $name:literal $kernel:literal $headers:tt
            $kernels:ident($line:literal),
    )*) => {
        /// What is compiled into one image an architecture.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Module {
            $($(#[$doc])* $module,)*
        }

        impl Module {
            /// Every module.
            pub const ALL: [Module; [$($name),*].len()] = [$(Module::$module),*];

            /// Its name, which its images have.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Module::$module => $name,)*
                }
            }

            /// The name that its kernels have: part of what users read in profiles, so it stays
            /// when a module is renamed.
            const fn kernel_name(self) -> &'static str {
                match self {
                    $(Module::$module => $kernel,)*
                }
            }

            /// The headers that its entry includes.
            fn headers(self) -> &'static [&'static str] {
                match self {
                    $(Module::$module => &$headers,)*
                }
            }

            fn kernels(self) -> Kernels {
                match self {
                    $(Module::$module => Kernels::$kernels($line),)*
                }
            }
        }
    };
}
with_modules!(declare);

impl Module {
    /// The module called `name`, or whose kernels are.
    pub fn named(name: &str) -> Option<Module> {
        let is_named = |module: &Module| [module.name(), module.kernel_name()].contains(&name);
        Module::ALL.into_iter().find(is_named)
    }

    /// The name of its kernel for elements of `data_type`: `f32`, `f8e4m3` and so on.
    pub fn kernel(self, data_type: &str) -> String {
        match self.kernels() {
            Kernels::EachType(_) => format!("msccl_{}_{data_type}", self.kernel_name()),
            Kernels::One(_) => format!("msccl_{}", self.kernel_name()),
        }
    }

    /// The name of its entry, as the compiler sees it.
    pub fn entry_name(self) -> String {
        format!("{}.cu", self.name())
    }

    /// The types of elements for which it has kernels.
    pub fn data_types(self) -> &'static [DataType] {
        self.types_among(&DataType::ALL)
    }

    /// The types of its kernels that serve elements of `types`. Where elements are moved as they
    /// are, one kernel and this type of its elements serve all.
    pub fn types_among(self, types: &[DataType]) -> &[DataType] {
        match self.kernels() {
            Kernels::EachType(_) => types,
            Kernels::One(_) => &[DataType::U64],
        }
    }

    /// Its entry: the text that is compiled, which includes headers and instantiates every kernel.
    pub fn entry(self) -> String {
        self.entry_for(&DataType::ALL)
    }

    /// The same with the kernels for `types` only, or the one that serves all.
    pub(crate) fn entry_for(self, types: &[DataType]) -> String {
        let mut text = String::new();
        for header in self.headers() {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "#include \"{header}\"");
        }
        let (Kernels::EachType(line) | Kernels::One(line)) = self.kernels();
        for &data_type in self.types_among(types) {
            let kernel = self.kernel(data_type.name());
            let line = line.replace("{kernel}", &kernel).replace("{type}", device_name(data_type));
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_instantiate_every_kernel() {
        let entry = Module::Ll128LowLatencyUnaligned.entry();
        let lines: Vec<_> = entry.lines().collect();
        assert_eq!(lines.len(), 2 + DataType::ALL.len());
        assert_eq!(lines[..2], ["#include \"low_latency.cuh\"", "#include \"ll128.cuh\""]);
        assert_eq!(lines[2], "MSCCL_LOW_LATENCY(msccl_ll128_odd_i8, Ll128, I8, true)");
        assert_eq!(lines[13], "MSCCL_LOW_LATENCY(msccl_ll128_odd_f8e5m2, Ll128, F8E5M2, true)");
        let exchange = "#include \"exchange.cuh\"\nMSCCL_EXCHANGE(msccl_exchange)\n";
        assert_eq!(Module::Exchange.entry(), exchange);
    }

    #[test]
    fn names_find_their_modules() {
        assert!(Module::ALL.into_iter().all(|of| Module::named(of.name()) == Some(of)));
        assert_eq!(Module::named("odd"), None);
    }
}
