# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recipe for Spack: copy it to packages/iotrace-perf/package.py of a repository of yours.

The source is the crate of a release, in the directory in which `spack install` is called. Spack 1.0
or newer is needed: the base class is in the repository of its packages since then.
"""

import os

from spack_repo.builtin.build_systems.cargo import CargoPackage

from spack.package import *


class IotracePerf(CargoPackage):
    """Records what programs do to files and disks on Linux, with the kernel's own tracepoints, and
    makes reports, replays and OTF2 traces of it."""

    manual_download = True
    license("MIT OR Apache-2.0", checked_by="maintainers")

    # The checksum is in SHA256SUMS of the release; it belongs here before the recipe is given away.
    version("0.1.0", extension="tar.gz")

    variant("otf2", default=True, description="Load the OTF2 library of this environment")

    depends_on("rust@1.90:", type="build")
    depends_on("c", type="build")
    depends_on("otf2@2.3:", type="run", when="+otf2")

    conflicts("platform=darwin", msg="it records with tracepoints of Linux")
    conflicts("platform=windows", msg="it records with tracepoints of Linux")

    def url_for_version(self, version):
        """Returns the place of a version's crate."""
        return f"file://{os.getcwd()}/iotrace-perf-{version}.crate"

    @run_after("install")
    def install_pages(self):
        """Writes pages of the manual and completions beside the program."""
        program = Executable(join_path(self.prefix.bin, "iotrace-perf"))
        mkdirp(self.prefix.share.man.man1)
        program("man", "--all", self.prefix.share.man.man1)
        shells = [
            ("bash", "bash-completion/completions", "iotrace-perf"),
            ("zsh", "zsh/site-functions", "_iotrace-perf"),
            ("fish", "fish/vendor_completions.d", "iotrace-perf.fish"),
        ]
        for shell, folder, name in shells:
            directory = join_path(self.prefix.share, folder)
            mkdirp(directory)
            with open(join_path(directory, name), "w") as file:
                file.write(program("completions", shell, output=str))

    def setup_run_environment(self, env):
        """Names the OTF2 library of this environment."""
        if self.spec.satisfies("+otf2"):
            env.set("OTF2_DIR", self.spec["otf2"].prefix)
