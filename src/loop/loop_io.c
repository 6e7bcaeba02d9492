/* Readiness of descriptors, and signals: libevent's events behind our own structs. */
#include "loop/loop_internal.h"

#include "base/err.h"
#include "base/panic.h"
#include <poll.h>

static short events_of(int want)
{
    /* Edge-triggered "writable" is how libevent can be asked for nothing but the hang-up: it speaks
     * once at the start and from then on only when the state of the socket changes. */
    if (want == LOOP_HANGUP)
        return EV_WRITE | EV_ET | EV_PERSIST;
    return (short)((want & LOOP_READ ? EV_READ : 0) | (want & LOOP_WRITE ? EV_WRITE : 0) |
                   EV_PERSIST);
}

/* libevent reports an error or a full hang-up as readable and writable, whichever of them was asked
 * for. */
static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct loop_io *io = arg;
    loop_touch(io->loop);
    if (io->want != LOOP_HANGUP) {
        io->on_ready(io, (what & EV_READ ? LOOP_READ : 0) | (what & EV_WRITE ? LOOP_WRITE : 0));
        return;
    }
    struct pollfd p = {.fd = fd};
    if (poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR))
        io->on_ready(io, LOOP_HANGUP);
}

int loop_io_add(struct loop *l, struct loop_io *io, int fd, int want)
{
    struct event *ev = event_new(l->base, fd, events_of(want), on_event, io);
    if (!ev)
        return ERR_OVERLOAD;
    if (want && event_add(ev, NULL)) {
        event_free(ev);
        return ERR_OVERLOAD;
    }
    io->fd = fd;
    io->want = want;
    io->loop = l;
    io->impl = ev;
    l->attached++;
    return 0;
}

void loop_io_want(struct loop *l, struct loop_io *io, int want)
{
    if (io->want == want)
        return;
    struct event *ev = io->impl;
    if (io->want)
        event_del(ev);
    event_assign(ev, l->base, io->fd, events_of(want), on_event, io);
    io->want = want;
    if (want && event_add(ev, NULL))
        panic("loop_io_want: the descriptor %d cannot be watched", io->fd);
}

void loop_io_remove(struct loop *l, struct loop_io *io)
{
    if (!io->impl)
        return;
    event_free(io->impl);
    io->impl = NULL;
    io->want = 0;
    l->attached--;
}

static void on_signal_event(evutil_socket_t signo, short what, void *arg)
{
    (void)what;
    struct loop_signal *s = arg;
    loop_touch(s->loop);
    s->on_signal(s, (int)signo);
}

int loop_signal_add(struct loop *l, struct loop_signal *s, int signo)
{
    struct event *ev = evsignal_new(l->base, signo, on_signal_event, s);
    if (!ev)
        return ERR_OVERLOAD;
    if (event_add(ev, NULL)) {
        event_free(ev);
        return ERR_OVERLOAD;
    }
    s->loop = l;
    s->impl = ev;
    l->attached++;
    return 0;
}

void loop_signal_remove(struct loop *l, struct loop_signal *s)
{
    if (!s->impl)
        return;
    event_free(s->impl);
    s->impl = NULL;
    l->attached--;
}
