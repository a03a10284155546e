//! The outside world behind agora's seams: blobs, registry, secrets.
