//! The vocabulary and the rules of agora. No I/O.
