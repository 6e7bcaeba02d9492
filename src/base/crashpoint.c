#include "base/crashpoint.h"

#ifdef SECKILL_CRASHPOINTS
#include "base/parse.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { POINTS_MAX = 16, NAME_MAX_BYTES = 64 };

static struct point {
    char name[NAME_MAX_BYTES];
    int64_t arg; /* 0: none */
    _Atomic int64_t reached;
} points[POINTS_MAX];
static int n_points;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_environment(void)
{
    struct str rest = str_of(getenv("SECKILL_CRASHPOINT"));
    while (rest.ptr && n_points < POINTS_MAX) {
        struct str one, name;
        rest = str_split(rest, ',', &one);
        struct point *p = &points[n_points];
        struct str arg = str_split(one, ':', &name);
        if (!str_copy(p->name, sizeof p->name, name) || name.len == 0)
            continue;
        if (arg.ptr && parse_i64(arg, 1, INT64_MAX, &p->arg))
            continue;
        n_points++;
    }
}

static struct point *find(const char *name)
{
    pthread_once(&once, read_environment);
    for (int i = 0; i < n_points; i++) {
        if (strcmp(points[i].name, name) == 0)
            return &points[i];
    }
    return NULL;
}

void crashpoint(const char *name)
{
    struct point *p = find(name);
    if (p && atomic_fetch_add(&p->reached, 1) + 1 >= (p->arg ? p->arg : 1))
        kill(getpid(), SIGKILL);
}

void crashpoint_for(const char *name, int64_t id)
{
    struct point *p = find(name);
    if (p && p->arg == id)
        abort();
}

bool crashpoint_armed(const char *name)
{
    return find(name) != NULL;
}
#endif
