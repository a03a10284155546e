//! What every implementation of a seam keeps true. Each function is handed an empty one.

mod blob;
mod compute;
mod leases;
mod ledger;
mod registry;
mod secret;
mod shelf;

pub use blob::blob_store;
pub use compute::compute;
pub use leases::leases;
pub use ledger::ledger;
pub use registry::registry;
pub use secret::secret_store;
pub use shelf::shelf;
