//! tbd
mod arithmetic;
mod element;
