#include "linger.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_US 1000000
enum { READ = 65536 };

struct lingering {
    struct list link;
    struct lingers *of;
    struct loop_io io;
    struct timer timer;
    struct loop_task reap;
};

static void on_reap(struct loop_task *t)
{
    free(container_of(t, struct lingering, reap));
}

static void end(struct lingering *s)
{
    sched_clear(loop_sched(s->of->loop), &s->timer);
    loop_io_remove(s->of->loop, &s->io);
    close(s->io.fd);
    list_remove(&s->link);
    s->of->n--;
    loop_defer(s->of->loop, &s->reap);
}

static void on_ready(struct loop_io *io, int what)
{
    (void)what;
    char bytes[READ];
    ssize_t n = recv(io->fd, bytes, sizeof bytes, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        end(container_of(io, struct lingering, io));
}

static void on_timer(struct timer *t)
{
    end(container_of(t, struct lingering, timer));
}

void lingers_init(struct lingers *ls, struct loop *l)
{
    ls->loop = l;
    ls->n = 0;
    list_init(&ls->all);
}

void lingers_deinit(struct lingers *ls)
{
    list_for_each_safe (it, &ls->all)
        end(container_of(it, struct lingering, link));
}

void linger(struct lingers *ls, int fd)
{
    struct lingering *s = ls->n < LINGERS_MAX ? calloc(1, sizeof *s) : NULL;
    if (!s || shutdown(fd, SHUT_WR) || loop_io_add(ls->loop, &s->io, fd, LOOP_READ)) {
        free(s);
        close(fd);
        return;
    }
    s->of = ls;
    s->io.on_ready = on_ready;
    s->timer.on_fire = on_timer;
    s->reap.on_run = on_reap;
    list_init(&s->reap.link);
    list_push_back(&ls->all, &s->link);
    ls->n++;
    sched_set_in(loop_sched(ls->loop), &s->timer, LINGER_US);
}
