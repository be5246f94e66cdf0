/* Loaded into a process with LD_PRELOAD: fsync and fdatasync fail with EIO, as of a disk that has lost what it was to
   write, for files whose names end in the first line of the file that FAILING_SYNCS names, while that file is there. If
   its second line is "once", it is removed with the first failure. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int descriptor) {
    const char *orders = getenv("FAILING_SYNCS");
    FILE *opened = orders ? fopen(orders, "r") : NULL;
    if (opened == NULL)
        return 0;
    char ending[256] = "", often[16] = "", link[64], name[4096];
    int read = fscanf(opened, "%255s %15s", ending, often);
    fclose(opened);
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, name, sizeof name);
    size_t wanted = strlen(ending);
    if (read < 1 || length < (ssize_t)wanted || memcmp(name + length - wanted, ending, wanted) != 0)
        return 0;
    if (strcmp(often, "once") == 0)
        unlink(orders);
    errno = EIO;
    return 1;
}

int fsync(int descriptor) {
    return fails(descriptor) ? -1 : ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(descriptor);
}

int fdatasync(int descriptor) {
    return fails(descriptor) ? -1 : ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(descriptor);
}
