/* Shifts the wall clock of the process that it is preloaded into (LD_PRELOAD, Linux).
 *
 * CLOCK_SHIM names a file of eight bytes: an int64 of the machine, the microseconds to add. It is
 * mapped, so a change counts when the clock is read next. CLOCK_MONOTONIC, and with it every timer of
 * the process, is not changed, as when an administrator or NTP sets the clock.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none = 0;
static const volatile int64_t *shift;

static void map_file(void) {
    const char *path = getenv("CLOCK_SHIM");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED
                            : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    shift = mapped == MAP_FAILED ? &none : mapped;
}

/* By the system call: dlsym(3) may allocate, and an allocator may read the clock. */
static int read_clock(clockid_t id, struct timespec *now) {
    return (int)syscall(SYS_clock_gettime, id, now);
}

static int64_t shifted_us(const struct timespec *now) {
    if (!shift)
        map_file();
    return (int64_t)now->tv_sec * 1000000 + now->tv_nsec / 1000 + *shift;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = read_clock(id, now);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t us = shifted_us(now);
        now->tv_sec = us / 1000000;
        now->tv_nsec = us % 1000000 * 1000 + now->tv_nsec % 1000;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec real;
    (void)zone;
    if (read_clock(CLOCK_REALTIME, &real))
        return -1;
    int64_t us = shifted_us(&real);
    now->tv_sec = us / 1000000;
    now->tv_usec = us % 1000000;
    return 0;
}

time_t time(time_t *kept) {
    struct timeval now;
    gettimeofday(&now, NULL);
    if (kept)
        *kept = now.tv_sec;
    return now.tv_sec;
}
