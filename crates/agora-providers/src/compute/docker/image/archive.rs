//! An image as a daemon loads it: its layer, its configuration, and the list of both. Made without a daemon, a registry or a file in
//! between, and named by the hash of its configuration.

use std::io::{self, Write};

use agora_core::ContentHash;
use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, Header};

use super::rootfs::RootFs;
use crate::compute::docker::container::PROGRAM;

/// An image that can be written.
#[derive(Debug)]
pub(super) struct Archive {
    files: RootFs,
    layer_bytes: u64,
    config: Vec<u8>,
    tag: String,
}

impl Archive {
    /// Reads every file once, for the hash of them all.
    pub(super) fn new(files: RootFs, tag: &str, labels: &[(&str, String)]) -> io::Result<Self> {
        let mut layer = Counting::default();
        files.write(&mut layer)?;
        let layer_bytes = layer.bytes;
        let layer = ContentHash::from_digest(layer.hash.finalize().into());
        // With no time in it: the same files are the same image.
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {
                "User": "61000:61000",
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": [PROGRAM],
                "WorkingDir": "/",
                "Labels": labels.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            },
            "rootfs": {"type": "layers", "diff_ids": [layer.to_string()]},
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "agora image build"}],
        });
        Ok(Self { files, layer_bytes, config: config.to_string().into_bytes(), tag: tag.to_owned() })
    }

    /// Returns what the image is called by its content.
    pub(super) fn id(&self) -> String {
        ContentHash::of(&self.config).to_string()
    }

    pub(super) fn layer_bytes(&self) -> u64 {
        self.layer_bytes
    }

    /// Writes the archive. Every file is read again: nothing of this size is kept.
    pub(super) fn write(&self, to: impl Write) -> io::Result<()> {
        let digest = ContentHash::of(&self.config);
        let config = format!("{}.json", digest.digits());
        let list = json!([{"Config": config, "RepoTags": [self.tag], "Layers": ["layer.tar"]}]);
        let mut archive = Builder::new(to);
        archive.append_data(&mut header(self.config.len() as u64), &config, self.config.as_slice())?;
        let list = list.to_string();
        archive.append_data(&mut header(list.len() as u64), "manifest.json", list.as_bytes())?;
        let mut last = header(self.layer_bytes);
        last.set_path("layer.tar")?;
        last.set_cksum();
        let to = archive.get_mut();
        to.write_all(last.as_bytes())?;
        // A multiple of 512 bytes by itself, as the parts of an archive must be.
        self.files.write(&mut *to)?;
        archive.finish()
    }
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mode(0o644);
    header.set_size(size);
    header
}

/// Takes bytes for their hash and their number.
#[derive(Debug, Default)]
struct Counting {
    hash: Sha256,
    bytes: u64,
}

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
