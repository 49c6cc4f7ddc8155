//! Folders as one archive, so that another service can go on with them: the same content always gives the same bytes.
//!
//! Skills and engines write in these folders. Packed are folders, regular files and symbolic links as they are, and no link is
//! followed; everything else is left out. An archive is unpacked into a new folder, links last, so that no path leads through one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use crate::files::{self, Error};

const MAGIC: &[u8] = b"skill-runner files 1\n";
const FOLDER: u8 = b'd';
const FILE: u8 = b'f';
const LINK: u8 = b'l';
const END: u8 = b'.';

/// Longest path in an archive, and longest target of a link.
const NAME_MAX: u32 = 4096;

/// How much an archive may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

/// A folder that is packed, under a name of its own.
pub(crate) struct Packed<'a> {
    pub(crate) name: &'a str,
    pub(crate) folder: &'a Path,
    pub(crate) what: What<'a>,
}

/// What of a folder is packed.
#[derive(Clone, Copy)]
pub(crate) enum What<'a> {
    /// Everything but this file.
    AllBut(Option<&'a str>),
    /// What is below these paths, without links: they lead to logins. `*` stands for one folder of any name.
    FilesBelow(&'a [&'a str]),
}

/// Why folders are not packed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    #[error("{0}")]
    TooMuch(String),
    #[error(transparent)]
    Io(#[from] Error),
}

/// What could not be packed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) count: u64,
    /// One of them, and why.
    pub(crate) first: Option<(PathBuf, String)>,
}

impl LeftOut {
    fn add(&mut self, path: &Path, why: impl ToString) {
        self.count += 1;
        self.first.get_or_insert_with(|| (path.to_owned(), why.to_string()));
    }
}

/// Writes an archive of these folders; one that is not there is left out. Blocks.
pub(crate) fn pack(folders: &[Packed<'_>], most: Most, to: &mut impl Write) -> Result<LeftOut, PackError> {
    let mut packing = Packing { to, most, entries: 0, bytes: 0, left_out: LeftOut::default() };
    packing.write(MAGIC)?;
    for packed in folders {
        packing.folder(packed)?;
    }
    let entries = packing.entries;
    packing.write(&[END])?;
    packing.write(&entries.to_le_bytes())?;
    Ok(packing.left_out)
}

struct Packing<'a, W> {
    to: &'a mut W,
    most: Most,
    entries: u64,
    bytes: u64,
    left_out: LeftOut,
}

impl<W: Write> Packing<'_, W> {
    fn folder(&mut self, packed: &Packed<'_>) -> Result<(), PackError> {
        if !packed.folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return Ok(());
        }
        let patterns: Vec<Vec<&str>> = match packed.what {
            What::AllBut(_) => vec![Vec::new()],
            What::FilesBelow(paths) => paths.iter().map(|path| path.split('/').collect()).collect(),
        };
        // The next to be packed is at the end: its folder, what of it is packed, and its name. Paths of folders are shared: they may be
        // long, and the names in them many.
        let mut left = vec![(Rc::<Path>::from(Path::new("")), patterns, OsString::new())];
        while let Some((folder, patterns, name)) = left.pop() {
            let path = folder.join(&name);
            let whole = packed.folder.join(&path);
            let found = match whole.symlink_metadata() {
                Ok(found) => found,
                Err(error) => {
                    self.left_out.add(&whole, error);
                    continue;
                }
            };
            let taken = patterns.iter().any(Vec::is_empty);
            let without_links = matches!(packed.what, What::FilesBelow(_));
            if found.is_dir() {
                self.head(FOLDER, packed.name, &path, found.mode())?;
                match self.names_in(&whole, left.len()) {
                    Ok(names) => {
                        let below = |name: &OsStr| if taken { vec![Vec::new()] } else { matching(&patterns, name) };
                        let but = |name: &OsStr| matches!(packed.what, What::AllBut(Some(but)) if path.join(name) == Path::new(but));
                        let folder: Rc<Path> = path.as_path().into();
                        let entries = names.into_iter().rev().filter(|name| !but(name));
                        let entries = entries.map(|name| (folder.clone(), below(&name), name));
                        left.extend(entries.filter(|(_, patterns, _)| !patterns.is_empty()));
                    }
                    Err(NamesError::TooMany) => return Err(self.too_many()),
                    Err(NamesError::Io(error)) => self.left_out.add(&whole, error),
                }
            } else if !taken {
            } else if found.is_symlink() && !without_links {
                match fs::read_link(&whole) {
                    Ok(target) if fits(target.as_os_str()) => {
                        self.head(LINK, packed.name, &path, 0o777)?;
                        self.name(target.as_os_str())?;
                    }
                    Ok(_) => self.left_out.add(&whole, "its target is too long"),
                    Err(error) => self.left_out.add(&whole, error),
                }
            } else if found.is_file() {
                match files::open_beneath(packed.folder, &path) {
                    Ok(file) => self.file(packed.name, &path, &whole, &file)?,
                    Err(error) => self.left_out.add(&whole, error),
                }
            } else {
                self.left_out.add(&whole, "it is no regular file");
            }
        }
        Ok(())
    }

    fn file(&mut self, name: &str, path: &Path, whole: &Path, file: &File) -> Result<(), PackError> {
        let reading = || Error::on("read", whole);
        let found = file.metadata().map_err(reading())?;
        self.bytes = self.bytes.saturating_add(found.len());
        if self.bytes > self.most.bytes {
            return Err(PackError::TooMuch(format!("the run's files have more than {} bytes", self.most.bytes)));
        }
        self.head(FILE, name, path, found.mode())?;
        self.write(&found.len().to_le_bytes())?;
        let copied = io::copy(&mut file.take(found.len()), &mut *self.to).map_err(reading())?;
        let after = file.metadata().map_err(reading())?.len();
        if copied != found.len() || after != found.len() {
            return Err(reading()(io::Error::other("it changed while it was read")).into());
        }
        Ok(())
    }

    /// The names in a folder, of which none may be too many beside those that wait to be packed.
    fn names_in(&self, folder: &Path, waiting: usize) -> Result<Vec<OsString>, NamesError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.push(entry?.file_name());
            if self.entries.saturating_add((waiting + names.len()) as u64) > self.most.entries {
                return Err(NamesError::TooMany);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn head(&mut self, kind: u8, name: &str, path: &Path, mode: u32) -> Result<(), PackError> {
        self.entries += 1;
        if self.entries > self.most.entries {
            return Err(self.too_many());
        }
        let whole = if path.as_os_str().is_empty() { PathBuf::from(name) } else { Path::new(name).join(path) };
        if !fits(whole.as_os_str()) {
            return Err(PackError::TooMuch("the path of a file of the run is too long".into()));
        }
        self.write(&[kind])?;
        self.write(&(mode & 0o777).to_le_bytes())?;
        self.name(whole.as_os_str())
    }

    fn name(&mut self, name: &OsStr) -> Result<(), PackError> {
        self.write(&u32::try_from(name.len()).unwrap_or(NAME_MAX).to_le_bytes())?;
        self.write(name.as_bytes())
    }

    fn too_many(&self) -> PackError {
        PackError::TooMuch(format!("the run has more than {} files", self.most.entries))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        Ok(self.to.write_all(bytes).map_err(Error::on("write", Path::new("an archive of the run's files")))?)
    }
}

enum NamesError {
    TooMany,
    Io(io::Error),
}

impl From<io::Error> for NamesError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn fits(name: &OsStr) -> bool {
    name.len() <= NAME_MAX as usize
}

/// What of these patterns is left below an entry of this name.
fn matching<'a>(patterns: &[Vec<&'a str>], name: &OsStr) -> Vec<Vec<&'a str>> {
    let split = patterns.iter().filter_map(|parts| parts.split_first());
    split.filter(|(first, _)| **first == "*" || name == **first).map(|(_, rest)| rest.to_vec()).collect()
}

/// Unpacks an archive into a folder that is there and empty. What is no archive is an error, and so is one that holds more than
/// `most`. Blocks.
pub(crate) fn unpack(archive: &File, to: &Path, most: Most) -> io::Result<()> {
    let mut from = BufReader::with_capacity(256 * 1024, archive);
    if taken(&mut from, MAGIC.len())? != MAGIC {
        return Err(wrong("it does not begin like one"));
    }
    let (mut entries, mut bytes, mut links) = (0, 0_u64, Vec::new());
    loop {
        let [kind] = number(&mut from)?;
        if kind == END {
            break;
        }
        entries += 1;
        if entries > most.entries {
            return Err(wrong("it has too many entries"));
        }
        let mode = u32::from_le_bytes(number(&mut from)?) & 0o777;
        let path = to.join(checked(name(&mut from)?)?);
        match kind {
            FOLDER => files::create_folder_with_mode(&path, mode | 0o700)?,
            FILE => {
                let size = u64::from_le_bytes(number(&mut from)?);
                bytes = bytes.saturating_add(size);
                if bytes > most.bytes {
                    return Err(wrong("it has too many bytes"));
                }
                files::step("create", &path)?;
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                if io::copy(&mut (&mut from).take(size), &mut file)? != size {
                    return Err(wrong("it ends within a file"));
                }
                file.set_permissions(Permissions::from_mode(mode))?;
            }
            LINK => links.push((PathBuf::from(name(&mut from)?), path)),
            _ => return Err(wrong("an entry is of no known kind")),
        }
    }
    if u64::from_le_bytes(number(&mut from)?) != entries || from.read(&mut [0])? != 0 {
        return Err(wrong("its end does not fit"));
    }
    Ok(links.into_iter().try_for_each(|(target, link)| files::link_to(&target, &link))?)
}

fn wrong(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it is no archive of files: {reason}"))
}

fn number<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn taken(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn name(from: &mut impl Read) -> io::Result<OsString> {
    let length = u32::from_le_bytes(number(from)?);
    if length == 0 || length > NAME_MAX {
        return Err(wrong("a name is empty or too long"));
    }
    Ok(OsString::from_vec(taken(from, length as usize)?))
}

fn checked(name: OsString) -> io::Result<PathBuf> {
    let path = PathBuf::from(name);
    let plain = path.components().all(|component| matches!(component, Component::Normal(_)));
    if plain && !path.as_os_str().as_bytes().contains(&0) { Ok(path) } else { Err(wrong("a path leads out of it")) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use std::os::unix::fs::symlink;

    use super::*;

    const MOST: Most = Most { entries: 100, bytes: 1024 * 1024 };

    fn all(name: &'static str, folder: &'static Path) -> Packed<'static> {
        Packed { name, folder, what: What::AllBut(None) }
    }

    fn at(folder: &tempfile::TempDir, path: &str) -> &'static Path {
        Box::leak(folder.path().join(path).into_boxed_path())
    }

    /// Every entry with its mode and its content or target.
    fn tree(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut left = vec![folder.to_owned()];
        while let Some(path) = left.pop() {
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_vec()
            } else {
                fs::read(&path).unwrap()
            };
            found.insert(path.strip_prefix(folder).unwrap().to_owned(), (metadata.mode() & 0o7777, content));
        }
        found
    }

    fn packed(folders: &[Packed<'_>]) -> (Vec<u8>, LeftOut) {
        let mut bytes = Vec::new();
        let left_out = pack(folders, MOST, &mut bytes).unwrap();
        (bytes, left_out)
    }

    fn unpacked(bytes: &[u8]) -> io::Result<tempfile::TempDir> {
        let (folder, mut file) = (tempfile::tempdir().unwrap(), tempfile::tempfile().unwrap());
        file.write_all(bytes).unwrap();
        io::Seek::rewind(&mut file).unwrap();
        unpack(&file, folder.path(), MOST).map(|()| folder)
    }

    #[test]
    fn a_tree_of_odd_files_comes_back_as_it_was_and_gives_the_same_bytes_again() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (at(&folder, "one"), at(&folder, "two"));
        fs::create_dir_all(one.join("a/empty")).unwrap();
        fs::create_dir_all(two).unwrap();
        fs::write(one.join("a/run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(one.join("a/run.sh"), Permissions::from_mode(0o4755)).unwrap();
        fs::write(one.join(OsStr::from_bytes(b"odd \xff\n name")), [0, 255, 10]).unwrap();
        fs::hard_link(one.join("a/run.sh"), one.join("same")).unwrap();
        symlink("/etc/passwd", one.join("link")).unwrap();
        symlink("nowhere", two.join("dangling")).unwrap();
        let (bytes, left_out) = packed(&[all("run", one), all("request", two), all("home", at(&folder, "missing"))]);
        assert_eq!(left_out, LeftOut::default());
        let back = unpacked(&bytes).unwrap();
        let mut expected = tree(one);
        for path in ["a/run.sh", "same"] {
            // Nobody gets the rights of a file's owner.
            expected.get_mut(Path::new(path)).unwrap().0 = 0o755;
        }
        assert_eq!(tree(&back.path().join("run")), expected);
        assert_eq!(tree(&back.path().join("request")), tree(two));
        let again = packed(&[
            all("run", Box::leak(back.path().join("run").into_boxed_path())),
            all("request", Box::leak(back.path().join("request").into_boxed_path())),
        ]);
        assert_eq!(again.0, bytes);
    }

    #[test]
    fn pipes_are_left_out_and_told_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = at(&folder, "root");
        fs::create_dir(root).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        symlink(folder.path(), root.join("out")).unwrap();
        mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let (bytes, left_out) = packed(&[all("run", root)]);
        assert_eq!((left_out.count, left_out.first.unwrap().0), (1, root.join("pipe")));
        assert!(!bytes.windows(6).any(|window| window == b"secret" && window.len() == 6 && bytes.len() > 10_000));
        let back = unpacked(&bytes).unwrap();
        assert_eq!(tree(&back.path().join("run")).into_keys().collect::<Vec<_>>(), ["", "out"].map(PathBuf::from));
    }

    #[test]
    fn of_a_home_only_the_files_of_its_sessions_are_packed_and_no_login() {
        let folder = tempfile::tempdir().unwrap();
        let home = at(&folder, "home");
        for file in [".x/tmp/p1/chats/s.json", ".x/tmp/p1/bin/rg", ".x/projects.json", ".x/settings.json", ".profile"] {
            fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
            fs::write(home.join(file), file).unwrap();
        }
        fs::write(folder.path().join("login"), "key").unwrap();
        symlink(folder.path().join("login"), home.join(".x/tmp/p1/chats/login")).unwrap();
        let what = What::FilesBelow(&[".x/projects.json", ".x/tmp/*/chats", "not/there"]);
        let (bytes, _) = packed(&[Packed { name: "home", folder: home, what }]);
        let back = unpacked(&bytes).unwrap();
        let files = tree(&back.path().join("home")).into_iter().filter(|(_, (_, content))| !content.is_empty());
        let expected = [".x/projects.json", ".x/tmp/p1/chats/s.json"].map(PathBuf::from);
        assert_eq!(files.map(|(path, _)| path).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn too_many_files_and_too_many_bytes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = at(&folder, "root");
        fs::create_dir(root).unwrap();
        let sparse = File::create(root.join("sparse")).unwrap();
        sparse.set_len(MOST.bytes + 1).unwrap();
        let refused = |most: Most| pack(&[all("run", root)], most, &mut io::sink()).unwrap_err().to_string();
        assert_eq!(refused(MOST), "the run's files have more than 1048576 bytes");
        assert_eq!(refused(Most { entries: 1, ..MOST }), "the run has more than 1 files");
    }

    /// Folders in each other, each with fewer files than are allowed: those that wait are held in memory.
    #[test]
    fn files_that_wait_count_before_they_are_packed() {
        let folder = tempfile::tempdir().unwrap();
        let mut at = folder.path().join("root");
        let root: &Path = Box::leak(at.clone().into_boxed_path());
        for _ in 0..3 {
            fs::create_dir(&at).unwrap();
            (0..60).for_each(|n| fs::write(at.join(format!("f{n}")), [b'x'; 100]).unwrap());
            at.push("0");
        }
        let mut bytes = Vec::new();
        let refused = pack(&[all("run", root)], MOST, &mut bytes).unwrap_err().to_string();
        assert_eq!(refused, "the run has more than 100 files");
        assert!(!bytes.contains(&b'x'), "it is known before one of them is read");
    }

    #[test]
    fn a_hostile_archive_writes_nothing_outside_and_a_broken_one_is_an_error() {
        let entry = |kind: u8, path: &[u8], rest: &[u8]| {
            let length = (path.len() as u32).to_le_bytes();
            [&[kind][..], &0o700_u32.to_le_bytes(), &length, path, rest].concat()
        };
        let archive =
            |entries: &[Vec<u8>]| [MAGIC, &entries.concat(), &[END], &(entries.len() as u64).to_le_bytes()].concat();
        let file = |path: &[u8]| entry(FILE, path, &0_u64.to_le_bytes());
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().as_os_str().as_bytes();
        let link = entry(LINK, b"run", &[&(target.len() as u32).to_le_bytes()[..], target].concat());
        assert!(unpacked(&archive(&[file(b"plain")])).is_ok());
        let planted = [target, b"/planted"].concat();
        for hostile in [
            archive(&[link.clone(), file(b"run/planted")]),
            archive(&[file(&planted)]),
            archive(&[file(b"../planted")]),
            archive(&[entry(FOLDER, b"run", b""), file(b"run/../../planted")]),
            archive(&[file(b"twice"), file(b"twice")]),
            archive(&[file(b"a\0b")]),
            archive(&[entry(b'?', b"unknown", b"")]),
            archive(&[file(b"plain")])[..40].to_vec(),
            [archive(&[file(b"plain")]), b"more".to_vec()].concat(),
            b"PK".to_vec(),
        ] {
            assert!(unpacked(&hostile).is_err());
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
