/* What Prometheus's client libraries tell of a process, under their names. See proc(5). */
#include "base/clock.h"
#include "base/metric_series.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void add(struct strbuf *b, const char *name, const char *type, const char *help, double v)
{
    strbuf_printf(b, "# HELP %s %s\n# TYPE %s %s\n%s ", name, help, name, type, name);
    metric_add_double(b, v);
    strbuf_add_char(b, '\n');
}

static bool read_file(const char *path, char *dst, size_t cap)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t n = fread(dst, 1, cap - 1, f);
    fclose(f);
    dst[n] = 0;
    return n > 0;
}

static long count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return -1;
    long n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 3; /* "." and ".." and the directory's own */
}

/* Unix time of the start: now, less what passed since; both from clocks, since the kernel's btime
 * has whole seconds only. Read once, so that a step of the wall clock does not make the process
 * look restarted. */
static double start_time(unsigned long long start_ticks)
{
    static _Atomic double known;
    double t = atomic_load(&known);
    if (t != 0)
        return t;
    char text[64];
    if (!read_file("/proc/uptime", text, sizeof text))
        return 0;
    double age = strtod(text, NULL) - (double)start_ticks / (double)sysconf(_SC_CLK_TCK);
    double none = 0;
    t = (double)(int64_t)(((double)clock_wall_us() / 1e6 - age) * 100) / 100;
    return atomic_compare_exchange_strong(&known, &none, t) ? t : none;
}

static void add_stat(struct strbuf *b)
{
    char text[1024];
    unsigned long long threads, start_ticks;
    if (!read_file("/proc/self/stat", text, sizeof text))
        return;
    /* The command's name may hold anything, parentheses too; the fields begin behind the last one.
     */
    const char *at = strrchr(text, ')');
    if (!at || sscanf(at + 1,
                      " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %llu "
                      "%*d %llu",
                      &threads, &start_ticks) != 2)
        return;
    add(b, "process_threads", "gauge", "Number of threads.", (double)threads);
    double start = start_time(start_ticks);
    if (start > 0)
        add(b, "process_start_time_seconds", "gauge",
            "Start time of the process since the Unix epoch in seconds.", start);
}

void metric_render_process(struct strbuf *b)
{
    add(b, "process_cpu_seconds_total", "counter", "User and system CPU time spent in seconds.",
        (double)clock_cpu_us() / 1e6);
    char text[128];
    unsigned long long pages;
    if (read_file("/proc/self/statm", text, sizeof text) && sscanf(text, "%*u %llu", &pages) == 1)
        add(b, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
            (double)pages * (double)sysconf(_SC_PAGESIZE));
    long fds = count_fds();
    if (fds >= 0)
        add(b, "process_open_fds", "gauge", "Number of open file descriptors.", (double)fds);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        add(b, "process_max_fds", "gauge", "Maximum number of open file descriptors.",
            (double)limit.rlim_cur);
    add_stat(b);
}
