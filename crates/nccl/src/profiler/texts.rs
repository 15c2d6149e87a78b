//! Names as NCCL writes them, which live as long as the process: plugins keep pointers to them.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, PoisonError};

use msccl_collective::{DataType, Protocol};
use msccl_runtime::Operation;

/// The function of a call.
pub fn function(operation: &Operation) -> &'static CStr {
    match operation {
        Operation::AllReduce(_) => c"AllReduce",
        Operation::AllGather => c"AllGather",
        Operation::ReduceScatter(_) => c"ReduceScatter",
        Operation::AllToAll => c"AlltoAll",
        Operation::Broadcast(_) => c"Broadcast",
        Operation::Reduce(..) => c"Reduce",
        Operation::Gather(_) => c"Gather",
        Operation::Scatter(_) => c"Scatter",
        Operation::Send(_) => c"Send",
        Operation::Receive(_) => c"Recv",
    }
}

/// The type of elements.
pub fn data_type(data_type: DataType) -> &'static CStr {
    match data_type {
        DataType::I8 => c"ncclInt8",
        DataType::U8 => c"ncclUint8",
        DataType::I32 => c"ncclInt32",
        DataType::U32 => c"ncclUint32",
        DataType::I64 => c"ncclInt64",
        DataType::U64 => c"ncclUint64",
        DataType::F16 => c"ncclFloat16",
        DataType::F32 => c"ncclFloat32",
        DataType::F64 => c"ncclFloat64",
        DataType::Bf16 => c"ncclBfloat16",
        DataType::F8E4M3 => c"ncclFloat8e4m3",
        DataType::F8E5M2 => c"ncclFloat8e5m2",
    }
}

/// The protocol.
pub fn protocol(protocol: Protocol) -> &'static CStr {
    match protocol {
        Protocol::Ll => c"LL",
        Protocol::Ll128 => c"LL128",
        Protocol::Simple => c"SIMPLE",
    }
}

/// The name of an algorithm; as many are kept as there are algorithms.
pub fn algorithm(name: &str) -> &'static CStr {
    static KEPT: Mutex<BTreeMap<String, &'static CStr>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(name) {
        return known;
    }
    let text: &'static CStr = Box::leak(c_text(name).into_boxed_c_str());
    kept.insert(name.to_owned(), text);
    text
}

/// `text` as C has it, up to its first zero byte.
pub fn c_text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}
