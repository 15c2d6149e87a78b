//! What editors ask, one question a module.

pub mod action;
pub mod completion;
pub mod diagnostics;
pub mod highlight;
pub mod hover;
pub mod layout;
pub mod lens;
pub mod moves;
pub mod navigation;
pub mod outline;
pub mod rename;
pub mod signature;
pub mod vocabulary;
