//! Examples of subcommands, which end their help.

/// Name of a subcommand, and commands with what they show.
pub(super) const EXAMPLES: [(&str, &[(&str, &str)]); 29] = [
    (
        "record",
        &[
            ("iotrace-perf make -j8", "a build with all its processes"),
            ("iotrace-perf -a -D 10s -o day_{DATE}/", "the machine for ten seconds"),
            ("iotrace-perf -p 4711 -e %sync", "fsync and its relatives of a process"),
            ("iotrace-perf -o a.iocap -o a.html ./app", "a log, and a page about it"),
            ("iotrace-perf --force -o run/ ./app", "an earlier run/ becomes run.old/"),
            ("iotrace-perf --no-follow ./app", "a program without its children"),
            ("iotrace-perf --container web -D 10s", "a container of docker or podman"),
            ("iotrace-perf -t 4712,4713", "two threads of a running process"),
            ("iotrace-perf -a --exclude-pid 4711", "the machine without a process"),
            ("iotrace-perf -a --max-operations 100000", "until there are so many calls"),
            ("mpirun iotrace-perf --per-node ./app", "one log for each node"),
            ("iotrace-perf record -a --ring 30s", "the last 30 s, at SIGUSR2"),
            ("iotrace-perf record -a --rotate 1G", "logs that follow one another"),
        ],
    ),
    (
        "summary",
        &[
            ("iotrace-perf summary", "the newest recording here"),
            ("iotrace-perf summary a.iocap --by user -n 5", "the five users with most time"),
            ("iotrace-perf summary -F /srv/ --sort p99", "one directory, slow calls first"),
            ("iotrace-perf summary --fs-type '!proc,!sysfs'", "without these file systems"),
            ("iotrace-perf summary --by rank job/", "all ranks of a job (see merge)"),
        ],
    ),
    (
        "report",
        &[
            ("iotrace-perf report a.iocap -o a.html", "a page to look at or send"),
            ("iotrace-perf report -- ./app", "records it; report.html"),
            ("iotrace-perf report a.iocap --svg a.svg --from 2s", "for a paper"),
        ],
    ),
    (
        "diff",
        &[
            ("iotrace-perf diff before/ after/", "two recordings, or two groups"),
            ("iotrace-perf diff -- ./old -- ./new", "five runs of each, in turns"),
            ("iotrace-perf diff a.iocap b.iocap -F /etc/", "one directory"),
        ],
    ),
    (
        "check",
        &[
            ("iotrace-perf check --budget io.toml -- make", "status 100 if over it"),
            ("iotrace-perf check --budget io.toml --update -- make", "sets the limits"),
            ("iotrace-perf check --budget io.toml a.iocap", "a recording"),
        ],
    ),
    (
        "advise",
        &[
            ("iotrace-perf advise a.iocap", "what can be better, with the evidence"),
            ("iotrace-perf advise -- ./app", "records ./app first"),
            ("iotrace-perf advise --ignore reread", "without a rule"),
            ("iotrace-perf advise --rules", "all rules, with their thresholds"),
        ],
    ),
    (
        "disk",
        &[
            ("iotrace-perf disk -a -D 10s", "processes that use the disks now"),
            ("iotrace-perf disk a.iocap --by cgroup", "containers and services"),
            ("iotrace-perf disk a.iocap --by mount", "file systems"),
        ],
    ),
    (
        "neighbours",
        &[
            ("iotrace-perf neighbours -a -D 10s", "whose requests others wait for"),
            ("iotrace-perf neighbours a.iocap --by cgroup", "containers and services"),
        ],
    ),
    (
        "latency",
        &[
            ("iotrace-perf latency a.iocap -T fs --ms", "file systems and their journals"),
            ("iotrace-perf latency a.iocap -Q -d sda", "requests of a disk, with their queue"),
            ("iotrace-perf latency a.iocap --by user", "percentiles for each user"),
        ],
    ),
    (
        "files",
        &[
            ("iotrace-perf files -- make", "failed, repeated opens of a build"),
            ("iotrace-perf files a.iocap --failed", "failed operations only"),
            ("iotrace-perf files a.iocap --life /srv/a.db", "what happened to a file"),
            ("iotrace-perf files a.iocap --by mount", "totals of each mount, too"),
        ],
    ),
    (
        "what-if",
        &[
            ("iotrace-perf what-if a.iocap", "hit rates by memory"),
            ("iotrace-perf what-if a.iocap --memory 64M,1G", "these sizes"),
            ("iotrace-perf what-if a.iocap --read-ahead 0,128K,1M", "what these would read"),
            ("iotrace-perf what-if a.iocap --device-latency 100us", "on another device"),
        ],
    ),
    (
        "cache",
        &[
            ("iotrace-perf cache -- ./app", "reads from memory and from disks"),
            ("iotrace-perf cache a.iocap --sort waited", "files that were waited for first"),
        ],
    ),
    (
        "slow",
        &[
            ("iotrace-perf slow a.iocap -n 5", "the five slowest operations"),
            ("iotrace-perf slow -p 4711 -D 30s", "those of a running process"),
        ],
    ),
    ("pattern", &[("iotrace-perf pattern a.iocap -F '*.db'", "order and sizes of accesses")]),
    (
        "stacks",
        &[
            ("iotrace-perf stacks -a -D 10s", "kernel functions that use disks"),
            ("iotrace-perf stacks a.iocap --svg f.svg", "a flame graph"),
        ],
    ),
    (
        "script",
        &[
            ("iotrace-perf script a.iocap --failed", "a line for each failed operation"),
            ("iotrace-perf script a.iocap --json | jq .", "an object for each operation"),
        ],
    ),
    ("info", &[("iotrace-perf info a.iocap", "what was recorded, and what was lost")]),
    ("live", &[("iotrace-perf live -e openat,execve make", "opens and execs while they happen")]),
    (
        "top",
        &[
            ("sudo iotrace-perf top", "the whole machine; ? explains"),
            ("iotrace-perf top -p 4711 -I 10s -n 6", "a minute of a process, six tables"),
            ("iotrace-perf top -I 1s --json", "an object for each second, for programs"),
        ],
    ),
    ("watch", &[("iotrace-perf watch -a /srv/a.db", "each access to a file, by any process")]),
    (
        "ctl",
        &[
            ("iotrace-perf record --control -a", "a recording that can be controlled"),
            ("iotrace-perf ctl add /srv/a.db", "in another terminal: watch this file, too"),
        ],
    ),
    (
        "convert",
        &[
            ("iotrace-perf convert a.iocap -o b.otf2", "an archive for Vampir"),
            ("iotrace-perf convert a.iocap -o b.pftrace", "for https://ui.perfetto.dev"),
            ("iotrace-perf convert a.iocap -o b.parquet", "for DuckDB, Polars, Spark"),
            ("iotrace-perf convert a.iocap --capsule -o c.iocap", "with pseudonyms for names"),
        ],
    ),
    (
        "merge",
        &[
            ("iotrace-perf merge job_*/ -o job.otf2", "all ranks of a job"),
            ("iotrace-perf merge job_*/ -o job.html", "a page: the slow rank"),
            ("iotrace-perf merge job_*/ -o all/", "an index for reports"),
            ("iotrace-perf merge a b -o j.otf2 --clock-offset n2=-3ms", "n2 was ahead"),
            ("iotrace-perf merge job_*/ -o j.otf2 --clocks clocks/", "see clocks"),
        ],
    ),
    (
        "clocks",
        &[
            ("mpirun --map-by ppr:1:node iotrace-perf clocks -o clocks/", "before the job"),
            ("srun --ntasks-per-node=1 iotrace-perf clocks -o clocks/", "and after it"),
            ("iotrace-perf merge job_*/ -o job.otf2 --clocks clocks/", "uses them"),
        ],
    ),
    (
        "import",
        &[
            ("strace -f -ttt -T -y -o a.txt ./app", "a log of another tool"),
            ("iotrace-perf import a.txt -o a.iocap", "for reports and replay"),
            ("iotrace-perf import sda -o sda.iocap", "all of sda.blktrace.N"),
            ("iotrace-perf import perf.data -o p.iocap", "perf record -e 'block:*'"),
            ("iotrace-perf import t.csv --from msr -o t.iocap", "also spc; csv --columns …"),
        ],
    ),
    ("doctor", &[("sudo iotrace-perf doctor", "a test recording is one of the checks")]),
    (
        "completions",
        &[
            ("source <(iotrace-perf completions bash)", "this shell"),
            ("echo 'source <(iotrace-perf completions bash)' >> ~/.bashrc", "each new one"),
        ],
    ),
    (
        "man",
        &[
            ("iotrace-perf man summary | man -l -", "one page"),
            ("sudo iotrace-perf man --all /usr/local/share/man/man1", "all pages"),
        ],
    ),
    (
        "replay",
        &[
            ("iotrace-perf replay plan a.iocap -o a.ioplan", "what can be replayed"),
            ("iotrace-perf replay init a.ioplan --root r", "files of the first operation"),
            ("iotrace-perf replay run a.ioplan --root r", "the operations, compared"),
        ],
    ),
];

/// Returns the examples of a subcommand as its help shows them; empty: it has none.
pub(super) fn text(subcommand: &str) -> String {
    let examples = EXAMPLES.iter().find(|(name, _)| *name == subcommand).map(|(_, all)| *all);
    let Some(examples) = examples else { return String::new() };
    let width = examples.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let lines = examples.iter().map(|(command, shows)| format!("  {command:<width$}  {shows}"));
    format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_into_80_columns() {
        for (name, _) in EXAMPLES {
            for line in text(name).lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }
}
