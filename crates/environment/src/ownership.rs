//! Whose files are: whether anybody but this user and the administrator can change what is kept at
//! a path.
//!
//! A folder is safe if it and all folders above it belong to this user or to root and nobody else
//! may write to them; a folder above it in which everybody may write, as `/tmp`, is safe if it is
//! sticky, since its entries stay their owners'. Groups count as somebody else. Access lists are
//! not looked at: one that lets others write shows in the mode of the group.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bits of a mode by which others may write: those of the group, and of everybody.
const OTHERS_WRITE: u32 = 0o022;
/// The bit by which entries of a folder stay their owners'.
const STICKY: u32 = 0o1000;

/// The folder at `path` without links on its way, if nobody else can change what is in it.
///
/// # Errors
///
/// Somebody can, and where; or the folder cannot be looked at.
pub fn folder(path: &Path) -> Result<PathBuf, String> {
    let cannot = |at: &Path, error| format!("{} cannot be looked at: {error}", at.display());
    let real = fs::canonicalize(path).map_err(|error| cannot(path, error))?;
    for above in real.ancestors() {
        let metadata = fs::symlink_metadata(above).map_err(|error| cannot(above, error))?;
        let is_sticky = metadata.mode() & STICKY != 0 && above != real;
        expect_ours(&metadata, is_sticky).map_err(|why| format!("{} {why}", above.display()))?;
    }
    Ok(real)
}

/// Makes sure that the file of `metadata` was written by this user or root, and that nobody else
/// may write to it.
///
/// # Errors
///
/// Somebody else may have changed it; a phrase about "it".
pub fn file(metadata: &Metadata) -> Result<(), String> {
    expect_ours(metadata, false).map_err(|why| format!("it {why}"))
}

fn expect_ours(metadata: &Metadata, may_be_written: bool) -> Result<(), String> {
    let (user, owner, mode) = (user(), metadata.uid(), metadata.mode() & 0o7777);
    if owner != user && owner != 0 {
        return Err(format!("belongs to user {owner}, expected user {user} or root"));
    }
    if mode & OTHERS_WRITE != 0 && !may_be_written {
        return Err(format!(
            "can be written by others: its mode is {mode:04o}, expected no w for group and others"
        ));
    }
    Ok(())
}

/// In whose name this process makes files.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn every_folder_on_the_way_counts() {
        let name = format!("msccl-ours-{}", std::process::id());
        let top = fs::canonicalize(std::env::temp_dir()).unwrap().join(name);
        let inner = top.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        for path in [&top, &top.join("a"), &inner] {
            set_mode(path, 0o755);
        }
        assert_eq!(folder(&inner), Ok(inner.clone()));
        let link = top.join("link");
        symlink(&inner, &link).unwrap();
        assert_eq!(folder(&link), Ok(inner.clone()), "links are resolved");
        for (path, mode) in [(&inner, 0o777), (&inner, 0o775), (&inner, 0o1777), (&top, 0o757)] {
            set_mode(path, mode);
            let expected =
                format!("{} can be written by others: its mode is {mode:04o}, ", path.display());
            let why = folder(&inner).unwrap_err();
            assert!(why.starts_with(&expected), "{why}");
            assert_eq!(folder(&link), Err(why));
            set_mode(path, 0o755);
        }
        set_mode(&top, 0o1777);
        assert_eq!(
            folder(&inner),
            Ok(inner.clone()),
            "entries of sticky folders stay their owners'"
        );
        let why = folder(&top.join("missing")).unwrap_err();
        assert!(why.contains("missing cannot be looked at: "), "{why}");
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn folders_of_other_users_are_not_ours() {
        if user() != 0 {
            return eprintln!("SKIPPED: only root can give folders to others");
        }
        let top = std::env::temp_dir().join(format!("msccl-ours-other-{}", std::process::id()));
        let inner = top.join("inner");
        fs::create_dir_all(&inner).unwrap();
        chown(&top, Some(12_345), None).unwrap();
        let why = folder(&inner).unwrap_err();
        assert!(why.ends_with("belongs to user 12345, expected user 0 or root"), "{why}");
        fs::remove_dir_all(top).unwrap();
    }
}
