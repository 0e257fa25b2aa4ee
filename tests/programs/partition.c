// partition DEVICE NUMBER START SECTORS: announces a partition to the kernel, in sectors of 512
// bytes, as addpart does, which Debian 13 has no more. partition DEVICE NUMBER: takes it back.
#include <fcntl.h>
#include <linux/blkpg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

int main(int count, char **words) {
    if (count != 3 && count != 5)
        return 2;
    struct blkpg_partition partition = {.pno = atoi(words[2])};
    struct blkpg_ioctl_arg what = {.op = BLKPG_DEL_PARTITION};
    if (count == 5) {
        what.op = BLKPG_ADD_PARTITION;
        partition.start = 512 * atoll(words[3]);
        partition.length = 512 * atoll(words[4]);
    }
    what.datalen = sizeof partition;
    what.data = &partition;
    int device = open(words[1], O_RDONLY);
    if (device < 0 || ioctl(device, BLKPG, &what)) {
        perror(words[1]);
        return 1;
    }
    return 0;
}
