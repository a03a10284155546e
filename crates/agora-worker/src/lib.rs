//! The half of agora that stands beside untrusted code.
