//! A thread that goes on: the workspace as it was left, whatever became of the source meanwhile.

use crate::support::{MODES, Untouched, User, git_ref, said};

const SCRIPT: &str = "if test -e kept; then git status --porcelain; cat kept a.txt; readlink l; stat -c %a x.sh; ls src new 2>&1; \
    git log --format=%s; echo more >> kept; exit; fi; \
    echo 1 > kept; echo agent >> a.txt; rm -r src; mkdir new; echo n > new/n; ln -s ../out l; echo x > x.sh; chmod 711 x.sh; \
    git add kept; git commit -qm mine";

#[test]
fn a_thread_goes_on_where_it_stopped_whatever_the_user_did() {
    for mode in MODES {
        let user = User::new(mode);
        let dir = user.repository("main");
        let first = user.dispatch(&dir, SCRIPT);
        assert_eq!(first["workspaceSaved"], true);
        user.put(&dir, "a.txt", "the user's\n");
        user.put(&dir, "kept-by-user", "x\n");
        let before = Untouched::look(&user, &dir);
        // A newer base comes between.
        for number in 0..5 {
            user.put(&dir, &format!("more/{number}"), "x\n");
        }
        user.dispatch(&dir, "true");
        std::fs::remove_dir_all(dir.join("more")).unwrap();
        let id = first["threadId"].as_str().unwrap();
        user.agent("w", "true");
        let second = user.agora(&["continue", id, "--json"]).json();
        assert_eq!(second["state"], "finished", "{second:#}");
        let seen = said(&second);
        let expected = [
            " M a.txt",
            " D src/b.txt",
            "?? l",
            "?? new/",
            "?? x.sh",
            "1",
            "one",
            "two",
            "three",
            "agent",
            "../out",
            "711",
            "new:",
            "n",
            "mine",
            "first",
        ];
        let seen: Vec<&str> =
            seen.iter().map(String::as_str).filter(|line| !line.contains("cannot access")).collect();
        assert_eq!(seen, expected, "{mode:?}");
        assert_eq!(second["patch"]["gitRef"], first["patch"]["gitRef"]);
        assert_eq!((&second["patchSincePause"]["files"], &second["patch"]["files"]), (&1.into(), &6.into()));
        let names = user.git(&dir, &["diff", "--name-only", &format!("main...{}", git_ref(&second))]);
        assert_eq!(names, "a.txt\nkept\nl\nnew/n\nsrc/b.txt\nx.sh\n");
        assert_eq!(user.git(&dir, &["show", &format!("{}:kept", git_ref(&second))]), "1\nmore\n");
        assert_eq!(Untouched::look(&user, &dir), before);
    }
}
