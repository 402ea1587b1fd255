/* What runs a container does: a mount namespace of its own, another root and a command there, or its child in a root inside of that one.
 * Ends with 77 where it is not permitted.
 * usage: enter KIND[:OPTIONS] POINT JAIL COMMAND…    KIND: overlay, bind (OPTIONS: of which directory), tmpfs (its input says which files
 * there are in it, and by which names), none (the root stays) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int failed, const char *what)
{
    if (!failed)
        return;
    perror(what);
    _exit(77);
}

static void mount_root(const char *kind, const char *point)
{
    char type[16] = "";
    const char *options = strchr(kind, ':');
    strncat(type, kind, options ? (size_t)(options - kind) : sizeof type - 1);
    if (!strcmp(type, "bind"))
        must(mount(options + 1, point, NULL, MS_BIND, NULL), "bind");
    else
        must(mount(type, point, type, 0, options ? options + 1 : NULL), type);
}

/* A file of here, into a root that is empty. */
static void copy(const char *from, const char *point, const char *name)
{
    static char bytes[65536];
    char to[512];
    snprintf(to, sizeof to, "%s%s", point, name);
    for (char *slash = to + strlen(point) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(to, 0755);
    }
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0755);
    must(in < 0 || out < 0, to);
    for (long n; (n = read(in, bytes, sizeof bytes)) > 0;)
        must(write(out, bytes, (size_t)n) != n, to);
    close(in);
    close(out);
}

static void show_proc(const char *root)
{
    char proc[512];
    snprintf(proc, sizeof proc, "%s/proc", root);
    mkdir(proc, 0755);
    must(mount("/proc", proc, NULL, MS_BIND | MS_REC, NULL), "proc");
}

static void change_root(const char *point)
{
    show_proc(point);
    must(chdir(point), point);
    must((int)syscall(SYS_pivot_root, ".", "."), "pivot_root");
    must(umount2(".", MNT_DETACH), "umount");
    must(chdir("/"), "/");
}

int main(int argc, char **argv)
{
    char from[256], name[256];
    if (argc < 5)
        return 2;
    must(unshare(CLONE_NEWNS), "unshare");
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
    if (strcmp(argv[1], "none")) {
        mount_root(argv[1], argv[2]);
        if (!strncmp(argv[1], "tmpfs", 5))
            while (scanf("%255s %255s", from, name) == 2)
                copy(from, argv[2], name);
        change_root(argv[2]);
    }
    if (strcmp(argv[3], "/")) {
        int status, child = fork();
        if (child > 0)
            return waitpid(child, &status, 0) != child || status;
        show_proc(argv[3]);
        must(chroot(argv[3]) || chdir("/"), "chroot");
    }
    execv(argv[4], argv + 4);
    must(1, argv[4]);
}
