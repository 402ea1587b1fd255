/* SPDX-License-Identifier: MIT
 * cofi gdb: a recording -> gdb, which goes back and forth in it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cofi/cofi.h>

#include "cli.h"
#include "gdb_history.h"
#include "gdb_modules.h"
#include "gdb_serve.h"
#include "gdb_symbols.h"
#include "record_first.h"
#include "session.h"

/* The one that knows x86. */
#ifdef __x86_64__
#define DEBUGGER "gdb"
#else
#define DEBUGGER "gdb-multiarch"
#endif

struct gdb_options {
    struct session_options session;
    uint64_t last, pid; /* pid 0: the first process */
    bool stdio;
    const char *core;   /* null: none */
    char **arguments;   /* for gdb, ended by null */
};

static const char usage[] =
    "usage: cofi gdb [options] [FILE] [-- GDB-OPTION...]    default FILE: cofi.data\n"
    "       cofi gdb [options] [-- GDB-OPTION...] --args COMMAND...    record that first, as cofi record does\n\n"
    "Start gdb on a recorded process, at its end. reverse-stepi, reverse-step, reverse-finish and\n"
    "reverse-continue go back in what ran, stepi, step, finish and continue forward again; breakpoints\n"
    "stop both; bt tells the calls that led there; record function-call-history /cil lists them.\n"
    "Registers (but the instruction pointer) and data are not recorded: gdb calls them unavailable,\n"
    "but for those at the end where a core file tells them.\n\n"
    "      --last=N            the last N instructions of each thread (default 200000)\n"
    "      --args              what follows is recorded first: a command, behind options of cofi record\n"
    "      --core=FILE         registers and memory at the end, of the core file that the process left\n"
    "      --pid=PID           of several processes that were recorded, this one (default: the first)\n"
    "      --to=T              what ran up to a time (1.25: the recording's seconds) or stream offset (@0x1f40)\n"
    "      --stdio             start no gdb, speak its remote protocol: (gdb) target remote | cofi gdb --stdio FILE\n"
    SESSION_INPUT_HELP;

static const struct option long_options[] = {
    SESSION_INPUT_OPTIONS, SESSION_TO,
    {"last", required_argument, 0, 'L'},
    {"core", required_argument, 0, 'c'},
    {"pid", required_argument, 0, 'p'},
    {"stdio", no_argument, 0, 's'},
    {"args", no_argument, 0, 'A'}, /* and what follows it: not getopt's */
    {0},
};

static int take(void *opaque, int letter, const char *argument)
{
    struct gdb_options *options = opaque;
    switch (letter) {
    case 'L': return parse_number(argument, UINT64_MAX, &options->last) && options->last ? 0 : -1;
    case 'p': return parse_number(argument, INT32_MAX, &options->pid) && options->pid ? 0 : -1;
    case 'c': options->core = argument; return *argument ? 0 : -1;
    case 's': options->stdio = true; break;
    }
    return 0;
}

static bool is_stdin(const char *path) { return path && !strcmp(path, "-"); }

/* The recording, a raw stream or the core. */
static bool takes_stdin(const struct gdb_options *options)
{
    return is_stdin(options->session.file) || is_stdin(options->session.raw) || is_stdin(options->core);
}

/* A command that is recorded first. Returns what is wrong, or null. */
static const char *take_command(struct gdb_options *options, int n, char **arguments)
{
    options->session.record = arguments;
    options->session.record_n = n;
    if (n == 1)
        return "no COMMAND behind --args";
    if (options->session.file || options->session.raw)
        return "a file, or a COMMAND behind --args that is recorded first; not both";
    if (options->core)
        return "--core is of a program that has ended; with --args that runs first";
    return options->stdio ? "--stdio: standard input and output are gdb's, not those of a COMMAND behind --args" : NULL;
}

/* What follows -- is gdb's, what follows --args is recorded. */
static int parse(struct gdb_options *options, int argc, char **argv)
{
    const struct session_command command = {"gdb", usage, long_options, take, options};
    int end = record_first_at(argc, argv, "--args"), n = record_first_at(end, argv, "--");
    *options = (struct gdb_options){.last = 200000};
    options->arguments = argv + n + (n < end);
    int status = session_parse(&command, &options->session, n, argv);
    const char *wrong = status == EXIT_DONE && end < argc ? take_command(options, argc - end, argv + end) : NULL;
    if (wrong) {
        complain("gdb: %s", wrong);
        return EXIT_USAGE;
    }
    if (status == EXIT_DONE && options->stdio && n < end) {
        complain("gdb: --stdio starts no gdb; it takes no options of it");
        return EXIT_USAGE;
    }
    if (status == EXIT_DONE && options->stdio && takes_stdin(options)) {
        complain("gdb: --stdio: standard input is gdb's, and cannot be a file, too");
        return EXIT_USAGE;
    }
    return status;
}

/* ---- which process ---- */

/* Those that were recorded, the one that is shown first; of more than are told only that there are. */
struct processes {
    struct {
        int32_t pid;
        char name[32];
    } told[12];
    size_t n;
    bool more;
};

static void add_process(struct processes *processes, int32_t pid, const char *name)
{
    const size_t most = sizeof processes->told / sizeof processes->told[0];
    size_t i = 0;
    while (i < processes->n && processes->told[i].pid != pid)
        i++;
    processes->more |= i == most;
    if (i < processes->n || i == most)
        return;
    processes->told[i].pid = pid;
    snprintf(processes->told[i].name, sizeof processes->told[i].name, "%s", name ? name : "");
    processes->n++;
}

/* Of a recording by processors: those whose names are told, those before all others that were started in it. */
static void list_named(struct processes *processes, const struct cofi_recording *recording, bool started)
{
    const struct cofi_sideband *sb;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++)
        if (sb->kind == COFI_SB_COMM && sb->pid > 0 && !sb->machine && (sb->exec || !started))
            add_process(processes, sb->pid, sb->name);
}

static void list_processes(struct processes *processes, struct session *session)
{
    struct session_stream stream;
    if (session_per_processor(session)) {
        list_named(processes, session_recording(session), true);
        list_named(processes, session_recording(session), false);
        return;
    }
    for (size_t i = 0; i < session_streams(session); i++) {
        session_stream(session, i, &stream);
        add_process(processes, stream.pid, stream.comm);
    }
}

/* The first one, unless another was asked for; which others there are, if there are any. 0: there is none. */
static int32_t choose_process(struct session *session, const struct gdb_options *options)
{
    struct processes processes = {0};
    if (options->pid)
        return (int32_t)options->pid;
    list_processes(&processes, session);
    for (size_t i = 1; i < processes.n; i++)
        complain("gdb: this is process %" PRId32 "; --pid=%" PRId32 " shows %s", processes.told[0].pid,
                 processes.told[i].pid, processes.told[i].name);
    if (processes.more)
        complain("gdb: and there are more processes");
    return processes.n ? processes.told[0].pid : 0;
}

/* ---- gdb itself ---- */

/* A socket in a folder of its own, which nobody else may enter, and beside it the names that gdb has
 * from nowhere else. */
struct door {
    char folder[80], path[sizeof ((struct sockaddr_un *)0)->sun_path], names[96];
    bool has_names;
    int fd;
};

static bool open_door(struct door *door)
{
    const char *tmp = getenv("TMPDIR");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    bool fits = tmp && *tmp && strlen(tmp) < sizeof door->folder - 20; /* a socket's path is short */
    snprintf(door->folder, sizeof door->folder, "%s/cofi-gdb-XXXXXX", fits ? tmp : "/tmp");
    door->fd = mkdtemp(door->folder) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    snprintf(door->path, sizeof door->path, "%s/gdb", door->folder);
    snprintf(door->names, sizeof door->names, "%s/names", door->folder);
    memcpy(address.sun_path, door->path, sizeof address.sun_path);
    return door->fd >= 0 && !bind(door->fd, (struct sockaddr *)&address, sizeof address) && !listen(door->fd, 1);
}

/* Without them gdb shows addresses, which is said. */
static void write_names(struct door *door, const struct gdb_target *target)
{
    size_t n = 0;
    FILE *out = fopen(door->names, "we");
    int status = out ? gdb_symbols_write(out, target->history, target->modules, target->view, &n) : COFI_ERR_IO;
    if (out && fclose(out) && status >= 0)
        status = COFI_ERR_IO;
    if (status < 0)
        complain("gdb: %s: %s: no names of functions that are in no file", door->names,
                 status == COFI_ERR_IO ? strerror(errno) : cofi_error_text(status));
    door->has_names = status >= 0 && n;
}

static void close_door(struct door *door)
{
    int error = errno;
    close(door->fd);
    unlink(door->path);
    unlink(door->names);
    rmdir(door->folder);
    errno = error;
}

/* In a process of its own, which ends with the one that became gdb. */
static void serve_at(const struct gdb_target *target, struct door *door, pid_t gdb)
{
    struct pollfd ready = {.fd = door->fd, .events = POLLIN};
    setpgid(0, 0); /* the terminal's signals are for gdb */
    while (poll(&ready, 1, 200) <= 0 && getppid() == gdb) {
    }
    int fd = ready.revents & POLLIN ? accept(door->fd, NULL, NULL) : -1;
    unlink(door->path);
    if (fd >= 0)
        gdb_serve(target, fd, fd);
    close_door(door); /* gdb may look at the names until its end */
}

struct arguments {
    char **all;
    size_t n;
};

static void add_command(struct arguments *arguments, const char *when, const char *command)
{
    arguments->all[arguments->n++] = (char *)when;
    arguments->all[arguments->n++] = (char *)command;
}

/* A recording that came by standard input is at its end there. */
static void take_terminal(void)
{
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (terminal >= 0)
        dup2(terminal, STDIN_FILENO);
}

/* Become gdb. Returns if that fails. What is served of memory is code, which gdb may read in the past,
 * too, unless it is a core file's data, which were others then. */
static void exec_gdb(const struct gdb_options *options, const struct door *door)
{
    char remote[sizeof door->path + 16], sysroot[PATH_MAX + 16], names[sizeof door->names + 64];
    const char *symfs = options->session.where.symfs;
    size_t own = 0;
    while (options->arguments[own])
        own++;
    struct arguments arguments = {.all = calloc(own + 16, sizeof *arguments.all)};
    if (!arguments.all)
        return;
    snprintf(sysroot, sizeof sysroot, "set sysroot %s", symfs ? symfs : "/");
    snprintf(remote, sizeof remote, "target remote %s", door->path);
    snprintf(names, sizeof names, "with confirm off -- add-symbol-file %s", door->names);
    arguments.all[arguments.n++] = (char *)DEBUGGER;
    add_command(&arguments, "-iex", sysroot);
    add_command(&arguments, "-iex",
                options->core ? "set record btrace replay-memory-access read-only"
                              : "set record btrace replay-memory-access read-write");
    add_command(&arguments, "-iex", "set remotetimeout 3600"); /* a long history is a long answer */
    add_command(&arguments, "-ex", remote);
    if (door->has_names)
        add_command(&arguments, "-ex", names);
    memcpy(arguments.all + arguments.n, options->arguments, own * sizeof *arguments.all);
    if (takes_stdin(options))
        take_terminal();
    execvp(DEBUGGER, arguments.all);
    free(arguments.all);
}

static int start_gdb(const struct gdb_options *options, const struct gdb_target *target)
{
    struct door door;
    pid_t self = getpid();
    if (!open_door(&door)) {
        complain("gdb: %s: %s", door.path, strerror(errno));
        close_door(&door);
        return EXIT_ENVIRONMENT;
    }
    write_names(&door, target);
    fflush(NULL);
    pid_t server = fork();
    if (!server) {
        serve_at(target, &door, self);
        _exit(EXIT_DONE);
    }
    if (server > 0)
        exec_gdb(options, &door);
    complain("gdb: %s: %s", server < 0 ? "fork" : DEBUGGER,
             errno == ENOENT ? "it is not installed (Debian: apt install " DEBUGGER ")" : strerror(errno));
    if (server > 0)
        kill(server, SIGKILL);
    close_door(&door);
    return EXIT_ENVIRONMENT;
}

/* ---- the recording ---- */

static void tell_history(const struct gdb_history *history)
{
    for (size_t i = 0; i < history->n; i++)
        if (history->threads[i].gaps)
            complain("gdb: thread %" PRId32
                     ": %zu gaps, at each of which gdb warns that the trace may be corrupted; 'cofi check' tells why",
                     history->threads[i].tid, history->threads[i].gaps);
}

static int show(const struct gdb_options *options, const struct gdb_target *target)
{
    if (!options->stdio)
        return start_gdb(options, target);
    gdb_serve(target, STDIN_FILENO, STDOUT_FILENO);
    return EXIT_DONE;
}

/* The code as it was where the history ends: at --to, or at the recording's end. */
static int show_history(const struct gdb_options *options, struct session *session, const struct gdb_history *history,
                        const struct gdb_core *core)
{
    const struct cofi_image *image = session_image(session, history->pid);
    struct gdb_modules modules = {0};
    struct gdb_target target = {.history = history, .modules = &modules, .core = core};
    bool whole = !options->session.given['T'];
    int status = image ? cofi_view_open(&target.view, image) : COFI_ERR_NO_CODE, exit = EXIT_ENVIRONMENT;
    if (status >= 0)
        status = cofi_view_advance(target.view, whole ? UINT64_MAX : history->end_ns, NULL, NULL);
    if (status >= 0)
        status = gdb_modules_find(&modules, session_recording(session), target.view, history->pid);
    if (status >= 0)
        exit = show(options, &target);
    else
        complain("gdb: %s", cofi_error_text(status));
    gdb_modules_fini(&modules);
    cofi_view_close(target.view);
    return exit;
}

static int show_with_core(const struct gdb_options *options, struct session *session, struct gdb_history *history)
{
    struct gdb_core core = {0};
    size_t joined = 1;
    int exit = options->core ? gdb_core_open(&core, options->core) : EXIT_DONE;
    int status = options->core && exit == EXIT_DONE ? gdb_history_join(history, &core, &joined) : 0;
    if (status < 0)
        complain("gdb: %s", cofi_error_text(status));
    else if (exit == EXIT_DONE && !joined)
        complain("gdb: %s: none of its threads is where the recording of process %" PRId32
                 " ends: it is of another run, or process",
                 options->core, history->pid);
    if (exit == EXIT_DONE)
        exit = status < 0 ? EXIT_ENVIRONMENT : joined ? show_history(options, session, history, &core) : EXIT_DATA;
    gdb_core_close(&core);
    return exit;
}

static int show_process(const struct gdb_options *options, struct session *session)
{
    struct gdb_history history = {.session = session, .pid = choose_process(session, options), .last = options->last};
    int exit = EXIT_DATA;
    int status = gdb_history_read(&history);
    if (status < 0)
        complain("gdb: %s", cofi_error_text(status));
    else if (!history.n)
        complain("gdb: there is nothing of process %" PRId32 ": 'cofi check' tells what could be decoded", history.pid);
    tell_history(&history);
    if (status >= 0 && history.n)
        exit = show_with_core(options, session, &history);
    gdb_history_fini(&history);
    return exit;
}

int cmd_gdb(int argc, char **argv)
{
    struct gdb_options options;
    struct session *session;
    int status = parse(&options, argc, argv);
    if (status != EXIT_DONE)
        return status < 0 ? EXIT_DONE : status;
    status = session_open(&session, &options.session);
    if (status != EXIT_DONE)
        return status;
    if (options.session.record_n)
        options.session.record[0] = NULL; /* which ends the options of gdb */
    status = session_status(session, show_process(&options, session));
    session_close(session);
    return status;
}
