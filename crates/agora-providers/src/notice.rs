//! Hears that files change, whichever process changes them.
//!
//! One thread and one inotify instance serve the whole process: a machine gives a user few of them.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::sync::watch;

/// How often whoever cannot listen looks by itself.
const LOOK: Duration = Duration::from_millis(50);

/// Hears of one file. It returns at least once for all that happened since it last did.
#[derive(Debug)]
pub(crate) enum Notice {
    Told {
        changed: watch::Receiver<u64>,
        watch: i32,
    },
    /// Nobody tells us: we look again and again.
    Looking,
}

impl Notice {
    /// Starts to listen to a file that exists: to what is written to it, to whoever had it open for writing and closed it or died, and to
    /// its being removed, after which nobody would ever write to it again.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let hub = Hub::get();
        match &hub.instance {
            Some(instance) => hub.listen(instance, path),
            None => Ok(Self::Looking),
        }
    }

    /// Returns when the file changed, or may have, since this was made or last returned.
    pub(crate) async fn next(&mut self) {
        match self {
            // The sender is in the hub, which is never dropped.
            Self::Told { changed, .. } => drop(changed.changed().await),
            Self::Looking => tokio::time::sleep(LOOK).await,
        }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        if let Self::Told { watch, .. } = self {
            Hub::get().leave(*watch);
        }
    }
}

/// Everybody who listens, in this process.
#[derive(Debug)]
struct Hub {
    /// `None` on a machine that gives this user no more of them.
    instance: Option<OwnedFd>,
    files: Mutex<HashMap<i32, Listened>>,
}

#[derive(Debug)]
struct Listened {
    changed: watch::Sender<u64>,
    listeners: usize,
}

impl Hub {
    fn get() -> &'static Self {
        static HUB: OnceLock<Hub> = OnceLock::new();
        static THREAD: OnceLock<()> = OnceLock::new();
        let hub = HUB.get_or_init(|| Self {
            instance: inotify::init(CreateFlags::CLOEXEC).ok(),
            files: Mutex::default(),
        });
        THREAD.get_or_init(|| {
            let Some(instance) = &hub.instance else { return };
            // Without a thread nobody is woken, and a machine that has none for us has other troubles.
            let _ = thread::Builder::new().name("notices".into()).spawn(|| hub.hear(instance));
        });
        hub
    }

    fn files(&self) -> MutexGuard<'_, HashMap<i32, Listened>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, instance: &OwnedFd, path: &Path) -> io::Result<Notice> {
        // Held while the watch is made: a change that is heard before somebody listens would be lost.
        let mut files = self.files();
        // That a file which is open has one name less is told as a change of what is known about it.
        let what = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB;
        let number = inotify::add_watch(instance, path, what)?;
        let listened =
            files.entry(number).or_insert_with(|| Listened { changed: watch::Sender::new(0), listeners: 0 });
        listened.listeners += 1;
        Ok(Notice::Told { changed: listened.changed.subscribe(), watch: number })
    }

    fn leave(&self, number: i32) {
        let mut files = self.files();
        let Some(listened) = files.get_mut(&number) else { return };
        listened.listeners -= 1;
        if listened.listeners == 0 {
            files.remove(&number);
            if let Some(instance) = &self.instance {
                // The file may be gone, and its watch with it.
                let _ = inotify::remove_watch(instance, number);
            }
        }
    }

    fn hear(&self, instance: &OwnedFd) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(instance, &mut buffer);
        loop {
            match reader.next() {
                // The kernel had no room for what happened: everybody looks.
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    self.files().values().for_each(|listened| ring(&listened.changed));
                }
                Ok(event) => {
                    if let Some(listened) = self.files().get(&event.wd()) {
                        ring(&listened.changed);
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

fn ring(changed: &watch::Sender<u64>) {
    changed.send_modify(|count| *count += 1);
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn every_change_is_heard_and_also_that_a_writer_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut writer = File::create(&path).unwrap();
        let (mut one, mut other) = (Notice::of(&path).unwrap(), Notice::of(&path).unwrap());
        writer.write_all(b"x").unwrap();
        one.next().await;
        other.next().await;
        drop(one);
        drop(writer);
        other.next().await;
        drop(other);
        let mut again = Notice::of(&path).unwrap();
        fs::write(&path, "y").unwrap();
        again.next().await;
    }

    #[tokio::test]
    async fn that_the_file_is_gone_is_heard_while_it_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let _writer = File::create(&path).unwrap();
        let mut notice = Notice::of(&path).unwrap();
        fs::remove_file(&path).unwrap();
        notice.next().await;
    }
}
