//! Who is alive for a dispatch.

use std::fs;
use std::thread;
use std::time::Duration;

use super::Dispatch;

/// A process that runs for a dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub id: i32,
    /// What the kernel calls it: the program's file name, cut to 15 bytes.
    pub name: String,
}

impl Dispatch {
    /// Looks for the processes that know the dispatch's directory: by their environment, by what a guard was told, or by what is
    /// mounted behind their wall.
    pub fn processes(&self) -> Vec<Process> {
        let mark = self.dir().display().to_string();
        let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            // One that ends meanwhile is none.
            entry.ok()?.file_name().to_str()?.parse::<i32>().ok()
        });
        let of_this = |id: &i32| {
            ["environ", "cmdline", "mountinfo"].iter().any(|file| {
                let text = fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
                text.windows(mark.len()).any(|window| window == mark.as_bytes())
            })
        };
        let named = |id: i32| {
            let name = fs::read_to_string(format!("/proc/{id}/comm")).ok()?.trim_end().to_owned();
            Some(Process { id, name })
        };
        ids.filter(of_this).filter_map(named).collect()
    }

    /// Waits until a file of the workspace is there: the agent says so that it has come far enough.
    #[track_caller]
    pub fn wait_for_file(&self, path: &str) {
        let path = self.work().join(path);
        for _ in 0..2000 {
            if path.exists() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{} never came", path.display());
    }
}
