//! Control groups: the group of a process, and the container or unit that a group stands for.

/// Returns the path of the control group in `/proc/PID/cgroup`: that of version 2 (`0::PATH`)
/// unless it is the root, or the longest one of version 1.
pub fn path(text: &[u8]) -> Option<&[u8]> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let groups: Vec<(&[u8], &[u8])> = lines
        .filter_map(|line| {
            let mut parts = line.splitn(3, |byte| *byte == b':').skip(1);
            Some((parts.next()?, parts.next()?))
        })
        .collect();
    let unified = groups.iter().find(|(controllers, path)| controllers.is_empty() && *path != b"/");
    unified.or_else(|| groups.iter().max_by_key(|(_, path)| path.len())).map(|(_, path)| *path)
}

/// Prefixes of the scopes of containers, and the names of their engines.
const SCOPES: [(&str, &str); 5] = [
    ("docker-", "docker"),
    ("libpod-", "podman"),
    ("cri-containerd-", "containerd"),
    ("crio-", "cri-o"),
    ("nerdctl-", "containerd"),
];

/// Directories that hold the groups of containers, and the names of their engines.
const DIRECTORIES: [(&str, &str); 4] =
    [("docker", "docker"), ("libpod_parent", "podman"), ("lxc", "lxc"), ("machine", "podman")];

/// Characters of a container's identifier that its users know.
const ID_SHOWN: usize = 12;

/// Returns the container or unit of a control group in the words of its users: `docker
/// 3f2a1b0c9d8e`, `kubernetes containerd 3f2a1b0c9d8e`, `postgresql.service`; for other groups the
/// path.
pub fn label(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_pod = parts.iter().any(|part| part.starts_with("kubepods"));
    for (place, part) in parts.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| parts.get(place));
        if let Some((engine, id)) = container(part, before) {
            let id: String = id.chars().take(ID_SHOWN).collect();
            return format!("{}{engine} {id}", if is_pod { "kubernetes " } else { "" });
        }
    }
    let is_unit = |part: &&&str| part.ends_with(".service") || part.ends_with(".scope");
    parts.iter().rfind(is_unit).map_or_else(|| path.to_string(), |unit| (*unit).to_owned())
}

/// Returns the identifier of the container that a control group belongs to.
pub fn container_id(path: &str) -> Option<&str> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut ids = parts.iter().enumerate().filter_map(|(place, part)| {
        let before = place.checked_sub(1).and_then(|place| parts.get(place));
        Some(container(part, before)?.1)
    });
    ids.next_back()
}

/// Returns the engine and identifier of a container's group.
fn container<'a>(part: &'a str, before: Option<&&str>) -> Option<(&'static str, &'a str)> {
    let scope = part.strip_suffix(".scope").unwrap_or(part);
    for (prefix, engine) in SCOPES {
        if let Some(id) = scope.strip_prefix(prefix).filter(|id| is_id(id)) {
            return Some((engine, id));
        }
    }
    let engine = DIRECTORIES.iter().find(|(directory, _)| before == Some(directory));
    let engine = engine.map(|(_, engine)| *engine);
    match (engine, before) {
        (Some("lxc"), _) => Some(("lxc", part)),
        (Some(engine), _) if is_id(part) => Some((engine, part)),
        // Without systemd the groups of a pod's containers have only identifiers.
        (None, Some(pod)) if pod.starts_with("pod") && is_id(part) => Some(("container", part)),
        _ => None,
    }
}

/// True for the identifier of a container: hexadecimal, and long.
fn is_id(text: &str) -> bool {
    text.len() >= ID_SHOWN && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_path(text: &str, expected: Option<&str>) {
        assert_eq!(path(text.as_bytes()), expected.map(str::as_bytes));
    }

    #[test]
    fn path_is_that_of_the_unified_hierarchy() {
        check_path("0::/system.slice/a.service\n", Some("/system.slice/a.service"));
        check_path("0::/\n", Some("/"));
        check_path("12:cpu,cpuacct:/a\n1:name=systemd:/user.slice\n0::/\n", Some("/user.slice"));
        check_path("9:memory:/docker/7\n0::/a\n", Some("/a"));
        check_path("2:cpu:/a:b\n", Some("/a:b"));
        check_path("", None);
    }

    #[track_caller]
    fn check_label(path: &str, expected: &str) {
        assert_eq!(label(path.as_bytes()), expected);
    }

    #[test]
    fn label_is_the_container_or_the_unit() {
        let id = "3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a";
        check_label(&format!("/system.slice/docker-{id}.scope"), "docker 3f2a1b0c9d8e");
        check_label(&format!("/docker/{id}"), "docker 3f2a1b0c9d8e");
        check_label(&format!("/machine.slice/libpod-{id}.scope/container"), "podman 3f2a1b0c9d8e");
        check_label(&format!("/libpod_parent/{id}"), "podman 3f2a1b0c9d8e");
        check_label(
            &format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
            "kubernetes containerd 3f2a1b0c9d8e",
        );
        check_label(
            &format!("/kubepods/burstable/pod12-34/{id}"),
            "kubernetes container 3f2a1b0c9d8e",
        );
        check_label("/lxc/web/init.scope", "lxc web");
        check_label("/system.slice/postgresql.service", "postgresql.service");
        check_label("/user.slice/user-0.slice/session-3.scope", "session-3.scope");
        check_label("/a/b", "/a/b");
        check_label("/", "/");
        check_label("/docker/short", "/docker/short");
    }
}
