//! Contracts, faults and a sealed place to run the command. Never shipped.
