//! What every implementation of a seam keeps true. Each function is handed an empty one.

mod blob;
mod ledger;
mod registry;
mod secret;

pub use blob::blob_store;
pub use ledger::ledger;
pub use registry::registry;
pub use secret::secret_store;
