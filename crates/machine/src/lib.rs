//! What a step means, once, for every domain of values
