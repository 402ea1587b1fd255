/* SPDX-License-Identifier: MIT
 * Threads that take turns, wait, and end in all ways. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static int next_one, sum;
static __thread int own;

static void *work(void *arg)
{
    int me = (int)(long)arg;
    for (int i = 0; i < 5; i++) {
        pthread_mutex_lock(&lock);
        while (next_one != me)
            pthread_cond_wait(&turn, &lock);
        for (int k = 0; k < 300; k++)
            sum += (own += k) & me;
        next_one = (next_one + 1) % 4;
        pthread_cond_broadcast(&turn);
        pthread_mutex_unlock(&lock);
    }
    return (void *)(long)own;
}

static volatile int flag;

static void *spin(void *arg)
{
    while (!flag) /* no system call: needs the other's turn */
        ;
    return arg;
}

int main(void)
{
    pthread_t t[4], s;
    void *result;
    pthread_create(&s, NULL, spin, NULL);
    for (long i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    flag = 1;
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &result);
        printf("%ld\n", (long)result);
    }
    pthread_join(s, NULL);
    printf("%d\n", sum);
    fflush(stdout);
    pthread_create(&s, NULL, work, (void *)9); /* waits for ever: exit_group ends it */
    usleep(1000);
    return 7;
}
