//! Names of containers, from the files in which their engines keep their state: no engine is asked.
//!
//! ```text
//!  docker  /var/lib/docker/containers/ID/config.v2.json           {"ID": "…", "Name": "/web", …}
//!  podman  STORAGE/overlay-containers/containers.json    [{"id": "…", "names": ["web"], …}, …]
//! ```
//!
//! The files belong to root or to the user of the engine: they are opened without following links,
//! and are read up to limits.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::regular;

/// Largest state file that is read, in bytes.
const STATE_BYTES_MAX: u64 = 16 << 20;

/// Largest number of containers that are read of each engine.
const CONTAINERS_MAX: usize = 16_384;

/// Longest name or identifier that is taken, in characters.
const WORD_MAX: usize = 256;

/// A container as its engine knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container {
    /// Name that its user has chosen.
    pub name: String,
    /// Whole identifier.
    pub id: String,
    /// Name of the engine.
    pub engine: &'static str,
}

/// Directories with the state of engines.
#[derive(Clone, Debug, Default)]
pub struct StateDirectories {
    /// Directories of docker with a directory for each container.
    pub docker: Vec<PathBuf>,
    /// Storages of podman.
    pub podman: Vec<PathBuf>,
}

/// Directories of podman's storage with a list of containers, one for each driver.
const PODMAN_LISTS: [&str; 3] = [
    "overlay-containers/containers.json",
    "vfs-containers/containers.json",
    "btrfs-containers/containers.json",
];

#[derive(Deserialize)]
struct DockerState {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Name")]
    name: String,
}

#[derive(Deserialize)]
struct PodmanState {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

impl StateDirectories {
    /// Directories of this machine: those of root, and those of users with these home directories.
    /// Only root makes links in the places of the two, so links there are followed.
    pub fn of_machine(homes: &[PathBuf]) -> Self {
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let homes = homes.iter().cloned().map(real).collect::<Vec<_>>();
        let docker = [PathBuf::from("/var/lib/docker/containers")];
        let podman = [PathBuf::from("/var/lib/containers/storage")];
        let docker_of = homes.iter().map(|home| home.join(".local/share/docker/containers"));
        let podman_of = homes.iter().map(|home| home.join(".local/share/containers/storage"));
        Self {
            docker: docker.into_iter().map(real).chain(docker_of).collect(),
            podman: podman.into_iter().map(real).chain(podman_of).collect(),
        }
    }

    /// Returns the containers that can be read, sorted by name.
    pub fn containers(&self) -> Vec<Container> {
        let docker = self.docker.iter().flat_map(|directory| of_docker(directory));
        let podman = self.podman.iter().flat_map(|storage| of_podman(storage));
        let mut all: Vec<Container> = docker.chain(podman).filter(Container::is_plain).collect();
        all.sort();
        all.dedup();
        all
    }
}

impl Container {
    /// True if name and identifier are words that can be compared and shown.
    fn is_plain(&self) -> bool {
        let is_word = |text: &str| {
            let mut characters = text.chars();
            (1..=WORD_MAX).contains(&text.len()) && characters.all(|c| c.is_ascii_graphic())
        };
        is_word(&self.name) && is_word(&self.id)
    }
}

/// Returns the containers of docker in this directory.
fn of_docker(directory: &Path) -> Vec<Container> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(CONTAINERS_MAX);
    let state = |entry: fs::DirEntry| {
        let text = state_text(&entry.path().join("config.v2.json"))?;
        let DockerState { id, name } = serde_json::from_slice(&text).ok()?;
        let name = name.strip_prefix('/').unwrap_or(&name).to_owned();
        Some(Container { name, id, engine: "docker" })
    };
    entries.filter_map(state).collect()
}

/// Returns the containers of podman in this storage.
fn of_podman(storage: &Path) -> Vec<Container> {
    let list = |name: &&str| {
        let text = state_text(&storage.join(name))?;
        serde_json::from_slice::<Vec<PodmanState>>(&text).ok()
    };
    let states = PODMAN_LISTS.iter().filter_map(list).flatten().take(CONTAINERS_MAX);
    let named = |state: PodmanState| {
        let PodmanState { id, names } = state;
        names.into_iter().map(move |name| Container { name, id: id.clone(), engine: "podman" })
    };
    states.flat_map(named).collect()
}

/// Reads a state file; `None`: it is missing, not a regular file, behind a link, or too large.
fn state_text(path: &Path) -> Option<Vec<u8>> {
    let place = regular::find_without_links(path).ok()?;
    let metadata = place.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > STATE_BYTES_MAX {
        return None;
    }
    let mut text = Vec::new();
    let file = regular::open_found(&place, 0).ok()?;
    file.take(STATE_BYTES_MAX + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= STATE_BYTES_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const ID: &str = "3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a";

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    /// Creates state directories, and returns them with a function that makes paths in them.
    fn made(dir: &Path) -> StateDirectories {
        StateDirectories { docker: vec![dir.join("docker")], podman: vec![dir.join("podman")] }
    }

    fn container(name: &str, id: &str, engine: &'static str) -> Container {
        Container { name: name.to_owned(), id: id.to_owned(), engine }
    }

    #[test]
    fn names_come_from_the_state_of_both_engines() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("a path without links");
        let docker = format!(r#"{{"State": {{"Running": true}}, "ID": "{ID}", "Name": "/web"}}"#);
        write(&dir.join("docker").join(ID).join("config.v2.json"), &docker);
        let podman =
            r#"[{"id": "77aa", "names": ["db", "postgres"], "layer": "x"}, {"id": "88bb"}]"#;
        write(&dir.join("podman/overlay-containers/containers.json"), podman);
        let expected = [
            container("db", "77aa", "podman"),
            container("postgres", "77aa", "podman"),
            container("web", ID, "docker"),
        ];
        assert_eq!(made(&dir).containers(), expected);
    }

    /// Fails if a link is followed, a hostile name is taken, or damaged state is an error.
    #[test]
    fn odd_state_is_left_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("a path without links");
        let state = |name: &str| format!(r#"{{"ID": "{ID}", "Name": "{name}"}}"#);
        write(&dir.join("secret.json"), &state("/linked"));
        let path = |name: &str| dir.join("docker").join(name).join("config.v2.json");
        fs::create_dir_all(dir.join("docker/linked")).expect("a directory");
        symlink(dir.join("secret.json"), path("linked")).expect("a link");
        fs::create_dir_all(dir.join("elsewhere")).expect("a directory");
        write(&dir.join("elsewhere/config.v2.json"), &state("/behind"));
        symlink(dir.join("elsewhere"), dir.join("docker/behind")).expect("a link");
        write(&path("hostile"), &state(r"/a\u001b[31m"));
        write(&path("empty"), &state("/"));
        write(&path("damaged"), "{\"ID\": ");
        write(&path("other"), "[1, 2]");
        fs::create_dir_all(path("directory")).expect("a directory");
        let sparse = fs::File::create(dir.join("docker/damaged/large")).expect("a file");
        sparse.set_len(STATE_BYTES_MAX + 1).expect("a hole");
        fs::create_dir_all(dir.join("docker/large")).expect("a directory");
        fs::rename(dir.join("docker/damaged/large"), path("large")).expect("moved");
        write(&dir.join("podman/overlay-containers/containers.json"), "{}");
        assert_eq!(made(&dir).containers(), []);
        assert_eq!(StateDirectories::default().containers(), []);
    }
}
