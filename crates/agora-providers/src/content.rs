//! What a file holds, copied into another.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{ioctl_ficlone, seek};
use rustix::io::Errno;

/// Copies what a file holds, and leaves holes where it has them: the image of a disk may be larger than the disk it lies on.
pub(crate) fn copy(source: &File, target: &File) -> io::Result<()> {
    if ioctl_ficlone(target, source).is_ok() {
        return Ok(());
    }
    let (mut from, mut to, data) = (source, target, source.metadata()?);
    // Nearly every file has no hole, and is not asked for one.
    if data.blocks().saturating_mul(512) < data.len() {
        return pieces(source, target);
    }
    io::copy(&mut from, &mut to).map(drop)
}

/// Copies a file piece by piece, with nothing where it has nothing.
fn pieces(mut source: &File, mut target: &File) -> io::Result<()> {
    let mut at = 0;
    loop {
        let len = source.metadata()?.len();
        let start = match seek(source, rustix::fs::SeekFrom::Data(at)) {
            // Where nobody can tell, all of it is data.
            Err(Errno::INVAL | Errno::OPNOTSUPP) if at == 0 => {
                return io::copy(&mut source, &mut target).map(drop);
            }
            // To its end there is nothing any more.
            Err(Errno::NXIO) => return target.set_len(len),
            start => start?,
        };
        at = match seek(source, rustix::fs::SeekFrom::Hole(start)) {
            // It has become shorter.
            Err(Errno::NXIO) => start,
            end => end?,
        };
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        io::copy(&mut source.take(at - start), &mut target)?;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_copy_has_the_holes_and_the_bytes_of_what_it_was_copied_from() {
        const MIB: u64 = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        // A length, and where there is data.
        for (len, data) in [
            (0, &[][..]),
            (5, &[0]),
            (64 * MIB, &[]),
            (64 * MIB, &[0]),
            (64 * MIB, &[64 * MIB - 5]),
            (64 * MIB + 1, &[3 * MIB + 7, 40 * MIB]),
            (10 * MIB, &[0, MIB, 2 * MIB, 9 * MIB]),
        ] {
            let file =
                File::options().read(true).write(true).create(true).truncate(true).open(&from).unwrap();
            file.set_len(len).unwrap();
            for at in data {
                file.write_all_at(b"bytes", *at).unwrap();
            }
            // How much it takes is known when it has been written.
            file.sync_all().unwrap();
            let before = fs::metadata(&from).unwrap();
            let target = File::create_new(&to).unwrap();
            copy(&file, &target).unwrap();
            target.sync_all().unwrap();
            let after = fs::metadata(&to).unwrap();
            assert!(after.blocks() <= before.blocks() + 64, "{len} {data:?}: {}", after.blocks());
            assert!(fs::read(&to).unwrap() == fs::read(&from).unwrap(), "{len} {data:?}");
            fs::remove_file(&to).unwrap();
        }
    }
}
