#!/bin/sh
# Makes, in the working directory, the programs and files that the commands of the documents use.
#
#   tests/documents/programs.sh
set -eu

# p.py opens a file that does not exist, and one that does, 300 times each; where the folder `after`
# exists, 100 times each. s.py queries 2,000 times whether a file exists.
cat >app <<'END'
#!/bin/sh
exec /usr/bin/python3 p.py
END
cat >p.py <<'END'
import os
for _ in range(100 if os.path.isdir("after") else 300):
    try:
        open("missing.ini")
    except FileNotFoundError:
        pass
    with open("cfg.json") as f:
        f.read()
END
cat >s.py <<'END'
import os
for _ in range(2000):
    os.path.exists("missing.ini")
END
chmod +x app
cp app a.out
printf '{}\n' >cfg.json

# A build: 12 C files that include 30 headers, which are in the last of 6 include folders.
mkdir -p b/i0 b/i1 b/i2 b/i3 b/i4 b/i5 b/src
for header in $(seq 30); do
    printf '#pragma once\nint h%s(void);\n' "$header" >"b/i5/h$header.h"
done
for file in $(seq 12); do
    {
        for header in $(seq 30); do printf '#include <h%s.h>\n' "$header"; done
        printf 'int f%s(void) { return %s; }\n' "$file" "$file"
    } >"b/src/f$file.c"
done
cat >b/Makefile <<'END'
objects := $(patsubst %.c,%.o,$(wildcard src/*.c))
libf.a: $(objects)
	ar rcs $@ $^
%.o: %.c
	cc -Ii0 -Ii1 -Ii2 -Ii3 -Ii4 -Ii5 -c -o $@ $<
END
mkdir -p data

# What random reads read.
dd if=/dev/zero of=pf bs=1M count=2 conv=fsync status=none

# Images that `watch` watches.
dd if=/dev/zero of=disk.raw bs=1M count=2 conv=fsync status=none
cp disk.raw disk.qcow2
