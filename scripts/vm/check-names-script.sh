# Work that scripts/vm/run-check-names records for the test corpus: busybox does each
# of these in the shell's own process or in a child.
mkdir -p inner && cd inner
echo one > first
/bin/mv first second
/bin/ln -s second third
/bin/ln second fourth
/bin/cat third > "a copy"
/bin/cat missing
/bin/dd if=second of=zeroes bs=2 count=2 2> /dev/null
/bin/rm -f second third fourth "a copy" zeroes
cd .. && /bin/rmdir inner
