/* Mail between the control loop and a data loop: what the sold-out hints have to tell each other.
 * One of the few things that threads share (see ARCHITECTURE.md).
 *
 * Bounded by HINT_MAIL_MAX letters; letters about one item are merged. When the box is full, a
 * request for a set and a set are dropped (the next sold-out answer asks again), and dropped news
 * become HINT_MAIL_OFF: hints only ever say no, so losing them is safe. */
#pragma once

#include "core/hint.h"
#include "loop/loop.h"
#include <pthread.h>

#define HINT_MAIL_MAX 256

enum hint_mail_kind {
    HINT_MAIL_SOLD_OUT, /* to control: a buyer heard it */
    HINT_MAIL_NEWS,     /* to data: PUBLISH */
    HINT_MAIL_SET,      /* to data: the receiver takes a reference over */
    HINT_MAIL_OFF,      /* to data: no hints until new sets come */
};

struct hint_mail {
    enum hint_mail_kind kind;
    struct item item;
    struct item_version version;
    struct hint_set *set;
};

struct hint_mailbox {
    struct loop *loop; /* the receiver's */
    void (*on_mail)(struct hint_mailbox *m, const struct hint_mail *mail);
    /* internal */
    pthread_mutex_t lock; /* guards the next five */
    int n;
    bool posted, off, closed;
    struct hint_mail mail[HINT_MAIL_MAX];
    struct hint_mail taken[HINT_MAIL_MAX]; /* the receiver's own */
    struct loop_post post;
};

/* loop and on_mail are set. */
void hint_mailbox_init(struct hint_mailbox *m);
/* Nothing is delivered any more. A post may still be under way: deinit comes after loop_free, which
 * runs it. */
void hint_mailbox_close(struct hint_mailbox *m);
void hint_mailbox_deinit(struct hint_mailbox *m); /* closed */
/* Any thread. With HINT_MAIL_SET the reference of `mail` is taken over, delivered or not. */
void hint_mailbox_put(struct hint_mailbox *m, const struct hint_mail *mail);
