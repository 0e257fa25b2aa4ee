// shared_queue DIR ITEMS THREADS: each item makes a directory, writes, renames, looks at, reads and
// removes a file in it, and removes the directory: eleven calls, each by the next one of the
// threads.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEPS 11
// Items under way at once: fewer than descriptors that a process may have.
#define TOGETHER 256

struct item {
    int number;
    int step;
    int fd;
    struct item *next;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct item *first, **last;
};

static const char *directory;
static int threads;
static struct queue *queues;
static int items, begun, left;
static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;

static void put(struct queue *queue, struct item *item) {
    pthread_mutex_lock(&queue->lock);
    item->next = NULL;
    *queue->last = item;
    queue->last = &item->next;
    pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
}

static struct item *take(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (!queue->first)
        pthread_cond_wait(&queue->filled, &queue->lock);
    struct item *item = queue->first;
    queue->first = item->next;
    if (!queue->first)
        queue->last = &queue->first;
    pthread_mutex_unlock(&queue->lock);
    return item;
}

static int step(struct item *item) {
    char base[256], first[300], second[300], bytes[4096];
    struct stat found;
    snprintf(base, sizeof base, "%s/d%d", directory, item->number);
    snprintf(first, sizeof first, "%s/first", base);
    snprintf(second, sizeof second, "%s/second", base);
    switch (item->step) {
    case 0: return mkdir(base, 0755);
    case 1: return item->fd = open(first, O_CREAT | O_EXCL | O_WRONLY, 0644);
    case 2: return write(item->fd, "handed over", 11) == 11 ? 0 : -1;
    case 3: return close(item->fd);
    case 4: return rename(first, second);
    case 5: return stat(second, &found);
    case 6: return item->fd = open(second, O_RDONLY);
    case 7: return read(item->fd, bytes, sizeof bytes) == 11 ? 0 : -1;
    case 8: return close(item->fd);
    case 9: return unlink(second);
    default: return rmdir(base);
    }
}

static void *work(void *argument) {
    long me = (long)argument;
    for (;;) {
        struct item *item = take(&queues[me]);
        if (item->number < 0)
            return NULL;
        if (step(item) < 0) {
            fprintf(stderr, "step %d: %m\n", item->step);
            _exit(1);
        }
        if (++item->step < STEPS) {
            put(&queues[(me + 1) % threads], item);
            continue;
        }
        pthread_mutex_lock(&left_lock);
        int is_last = --left == 0;
        int next = begun < items ? begun++ : -1;
        pthread_mutex_unlock(&left_lock);
        if (next >= 0) {
            *item = (struct item){.number = next};
            put(&queues[next % threads], item);
        }
        for (int it = 0; is_last && it < threads; it++) {
            struct item *end = malloc(sizeof *end);
            *end = (struct item){.number = -1};
            put(&queues[it], end);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    directory = argv[1];
    items = left = atoi(argv[2]);
    threads = atoi(argv[3]);
    queues = calloc(threads, sizeof *queues);
    for (int it = 0; it < threads; it++) {
        pthread_mutex_init(&queues[it].lock, NULL);
        pthread_cond_init(&queues[it].filled, NULL);
        queues[it].last = &queues[it].first;
    }
    for (; begun < items && begun < TOGETHER; begun++) {
        struct item *item = malloc(sizeof *item);
        *item = (struct item){.number = begun};
        put(&queues[begun % threads], item);
    }
    pthread_t *ids = calloc(threads, sizeof *ids);
    for (long it = 1; it < threads; it++)
        pthread_create(&ids[it], NULL, work, (void *)it);
    work(NULL);
    for (int it = 1; it < threads; it++)
        pthread_join(ids[it], NULL);
    return 0;
}
