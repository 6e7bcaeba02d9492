/* Intrusive doubly linked list. A head is a node that links to itself when empty. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#ifndef container_of
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#endif

static inline void list_init(struct list *head)
{
    head->next = head->prev = head;
}
static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}
static inline void list_insert_after(struct list *at, struct list *n)
{
    n->prev = at;
    n->next = at->next;
    at->next->prev = n;
    at->next = n;
}
static inline void list_push_back(struct list *head, struct list *n)
{
    list_insert_after(head->prev, n);
}
static inline void list_push_front(struct list *head, struct list *n)
{
    list_insert_after(head, n);
}
/* Removes a node and leaves it linked to itself, so that removing it again is harmless. */
static inline void list_remove(struct list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->next = n->prev = n;
}
static inline struct list *list_pop_front(struct list *head)
{
    if (list_empty(head))
        return NULL;
    struct list *n = head->next;
    list_remove(n);
    return n;
}
/* Moves everything from `from` to the end of `to`. */
static inline void list_splice_back(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}
#define list_for_each(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
#define list_for_each_safe(it, head)                                                               \
    for (struct list *it = (head)->next, *it##_next = it->next; it != (head);                      \
         it = it##_next, it##_next = it->next)
