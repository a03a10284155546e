//! Register, resolve and explain: the library behind the agora command.
