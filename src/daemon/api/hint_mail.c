#include "daemon/api/hint_mail.h"

#include <string.h>

/* Letters further back are not looked at for merging: news come in runs of the same few items. */
#define MERGE_BACK 16

static void drop_all(struct hint_mailbox *m)
{
    for (int i = 0; i < m->n; i++) {
        if (m->mail[i].kind == HINT_MAIL_SET)
            hint_set_unref(m->mail[i].set);
    }
    m->n = 0;
}

static void on_post(struct loop_post *p)
{
    struct hint_mailbox *m = container_of(p, struct hint_mailbox, post);
    pthread_mutex_lock(&m->lock);
    int n = m->n;
    bool off = m->off;
    memcpy(m->taken, m->mail, (size_t)n * sizeof(m->mail[0]));
    m->n = 0;
    m->off = m->posted = false;
    pthread_mutex_unlock(&m->lock);
    if (off) /* came before what is in the box: it emptied it */
        m->on_mail(m, &(struct hint_mail){.kind = HINT_MAIL_OFF});
    for (int i = 0; i < n; i++)
        m->on_mail(m, &m->taken[i]);
}

void hint_mailbox_init(struct hint_mailbox *m)
{
    pthread_mutex_init(&m->lock, NULL);
    m->n = 0;
    m->posted = m->off = m->closed = false;
    m->post = (struct loop_post){.on_run = on_post};
}

void hint_mailbox_close(struct hint_mailbox *m)
{
    pthread_mutex_lock(&m->lock);
    drop_all(m);
    m->off = false;
    m->closed = true;
    pthread_mutex_unlock(&m->lock);
}

void hint_mailbox_deinit(struct hint_mailbox *m)
{
    pthread_mutex_destroy(&m->lock);
}

/* A letter of the same kind about the same item, not older than what cannot change places with it.
 */
static bool merge(struct hint_mailbox *m, const struct hint_mail *mail)
{
    if (mail->kind == HINT_MAIL_SET)
        return false;
    for (int i = m->n - 1; i >= 0 && i >= m->n - MERGE_BACK; i--) {
        struct hint_mail *old = &m->mail[i];
        if (old->kind != mail->kind || !item_eq(old->item, mail->item))
            continue;
        if (item_version_cmp(mail->version, old->version) > 0)
            old->version = mail->version;
        return true;
    }
    return false;
}

void hint_mailbox_put(struct hint_mailbox *m, const struct hint_mail *mail)
{
    struct hint_set *unwanted = NULL;
    bool post;
    pthread_mutex_lock(&m->lock);
    if (m->closed) {
        unwanted = mail->kind == HINT_MAIL_SET ? mail->set : NULL;
    } else if (mail->kind == HINT_MAIL_OFF) {
        drop_all(m);
        m->off = true;
    } else if (!merge(m, mail)) {
        if (m->n < HINT_MAIL_MAX) {
            m->mail[m->n++] = *mail;
        } else if (mail->kind == HINT_MAIL_SET) {
            unwanted = mail->set;
        } else if (mail->kind == HINT_MAIL_NEWS) {
            drop_all(m);
            m->off = true;
        }
    }
    post = !m->posted && !m->closed;
    m->posted = m->posted || post;
    pthread_mutex_unlock(&m->lock);
    hint_set_unref(unwanted);
    if (post)
        loop_post(m->loop, &m->post);
}
