# A thread's name may be given by another thread of its process, as pthread_setname_np does.
cat >main.c <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static pthread_barrier_t barrier;
static void *work(void *unused)
{
    for (int i = 0; i < 2; i++)
        pthread_barrier_wait(&barrier);
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&thread, 0, work, 0);
    pthread_barrier_wait(&barrier);
    pthread_setname_np(thread, "by another");
    pthread_barrier_wait(&barrier);
    pthread_join(thread, 0);
    int fd = open("/proc/self/comm", O_WRONLY), file = dup(open("comm", O_WRONLY | O_CREAT, 0600));
    return write(fd, "by the first, and longer than it may be", 39) != 39 || write(file, "no name", 7) != 7;
}
END
cc -pthread -o main main.c
for host in fast step; do
    "$COFI" record -q --host=$host -- ./main
    echo "status $?"
    "$COFI" stat | sed -n 's/^thread [0-9]* \((.*)\): .*/\1/p'
done
