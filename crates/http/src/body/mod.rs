//! Bodies: in progress, in the second tier, and the budget of the memory of those that are not in
//! the store.

pub(crate) mod budget;
pub(crate) mod segments;
pub(crate) mod shared_body;
pub(crate) mod streamed;
