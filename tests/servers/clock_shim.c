/* A wall clock that can be set: loaded into a program with LD_PRELOAD, it adds to the time of day the microseconds that
   stand in the file named by ROTA_CLOCK_SHIM. Clocks that only count on (CLOCK_MONOTONIC) are left alone, as they are
   when somebody sets the clock of a machine. See clock_shim.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *shared;

static long long offset(void)
{
    if (shared == NULL) {
        const char *path = getenv("ROTA_CLOCK_SHIM");
        int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0)
            return 0;
        void *mapped = mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
        close(file);
        if (mapped == MAP_FAILED)
            return 0;
        shared = mapped;
    }
    return *shared;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long nanos = now->tv_sec * 1000000000LL + now->tv_nsec + offset() * 1000;
        now->tv_sec = nanos / 1000000000;
        now->tv_nsec = nanos % 1000000000;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (result != NULL)
        *result = exact.tv_sec;
    return exact.tv_sec;
}
