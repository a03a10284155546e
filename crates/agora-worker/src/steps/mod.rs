//! The steps of a worker. Each takes what only the step before can make.

pub(crate) mod assignment;
pub(crate) mod capture;
pub(crate) mod channel;
pub(crate) mod decide;
pub(crate) mod environment;
pub(crate) mod fetch;
pub(crate) mod finish;
pub(crate) mod invoke;
pub(crate) mod keep;
pub(crate) mod prepare;
pub(crate) mod setup;
pub(crate) mod stage;
pub(crate) mod wall;
