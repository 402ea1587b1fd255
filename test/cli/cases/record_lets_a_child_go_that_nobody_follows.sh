# With CLONE_PTRACE the kernel gives a child to who traces its parent, asked for or not, and it waits to be let go.
cat >child.c <<'C'
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int status;
    long pid = syscall(SYS_clone, CLONE_PTRACE | SIGCHLD, 0, 0, 0, 0);
    if (!pid)
        _exit(7);
    return waitpid((pid_t)pid, &status, 0) == pid ? WEXITSTATUS(status) : 1;
}
C
gcc -O1 -static -o child child.c
for follow in --no-follow --; do
    timeout 60 "$COFI" record -q --host=step -o out.data $follow ./child
    echo "status $?"
    "$COFI" check out.data 2>&1 | tail -1 | cut -d, -f1
done
