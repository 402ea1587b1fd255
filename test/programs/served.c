/* SPDX-License-Identifier: MIT
 * served DIR: a file system of one program, DIR/prog (/bin/echo), which this program serves and runs. Each request takes it more
 * branches than its log has room for. It is unmounted at the end. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef BRANCHES
#define BRANCHES 20000000 /* of an answer */
#endif
enum { ROOT = 1, PROGRAM = 2, FILE_BYTES = 1 << 20 };
static int device;
static char program[FILE_BYTES];
static ssize_t bytes;
static volatile unsigned long odd;

static void work(void)
{
    unsigned long x = 1;
    for (int i = 0; i < BRANCHES; i++) {
        x = x * 6364136223846793005ul + 1;
        if (x >> 63)
            odd++;
    }
}

static struct fuse_attr attributes(uint64_t inode)
{
    struct fuse_attr a = {.ino = inode, .nlink = 1, .mode = S_IFDIR | 0755, .blksize = 4096};
    if (inode == PROGRAM) {
        a.mode = S_IFREG | 0755;
        a.size = (uint64_t)bytes;
    }
    return a;
}

static void reply(const struct fuse_in_header *to, int error, const void *data, size_t n)
{
    struct fuse_out_header h = {(uint32_t)(sizeof h + n), -error, to->unique};
    struct iovec v[2] = {{&h, sizeof h}, {(void *)data, n}};
    if (writev(device, v, 2) < 0 && errno != ENOENT)
        perror("reply");
}

static void answer(const struct fuse_in_header *h)
{
    const void *in = h + 1;
    const struct fuse_read_in *r = in;
    struct fuse_init_out init = {.major = 7, .minor = 31, .max_readahead = 65536, .max_write = 65536};
    struct fuse_entry_out entry = {.nodeid = PROGRAM, .attr = attributes(PROGRAM)};
    struct fuse_attr_out attr = {.attr = attributes(h->nodeid)};
    struct fuse_open_out open = {0};
    switch (h->opcode) {
    case FUSE_INIT: reply(h, 0, &init, sizeof init); break;
    case FUSE_LOOKUP: reply(h, strcmp(in, "prog") ? ENOENT : 0, &entry, strcmp(in, "prog") ? 0 : sizeof entry); break;
    case FUSE_GETATTR: reply(h, 0, &attr, sizeof attr); break;
    case FUSE_OPEN: reply(h, 0, &open, sizeof open); break;
    case FUSE_READ: {
        size_t at = r->offset < (uint64_t)bytes ? r->offset : (size_t)bytes, n = (size_t)bytes - at;
        reply(h, 0, program + at, n < r->size ? n : r->size);
        break;
    }
    case FUSE_RELEASE:
    case FUSE_FLUSH:
    case FUSE_ACCESS: reply(h, 0, NULL, 0); break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: break;
    default: reply(h, ENOSYS, NULL, 0); break;
    }
}

static void serve(void)
{
    static char request[FILE_BYTES];
    for (;;)
        if (read(device, request, sizeof request) > 0) {
            work();
            answer((const void *)request);
        } else if (errno != EINTR && errno != ENOENT) {
            _exit(0);
        }
}

int main(int argc, char **argv)
{
    char options[100], path[4096];
    int file = open("/bin/echo", O_RDONLY), status;
    bytes = read(file, program, sizeof program);
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (argc < 2 || bytes <= 0 || device < 0 || mount("served", argv[1], "fuse.served", 0, options))
        return 77;
    pid_t server = fork();
    if (!server)
        serve();
    close(device);
    snprintf(path, sizeof path, "%s/prog", argv[1]);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (!child) {
            execl(path, "prog", "from", "there", NULL);
            _exit(1);
        }
        waitpid(child, &status, 0);
        printf("%x\n", (unsigned)status);
        fflush(stdout);
    }
    umount2(argv[1], MNT_DETACH);
    kill(server, SIGTERM);
    waitpid(server, &status, 0);
    return 0;
}
