#include "api.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION "2.9.0-seckill"

typedef struct control_answer answer;

struct call {
    struct api *api;
    const char *method;
    char *seg[4]; /* of the path */
    int n;
    json_t *body; /* NULL: none, or no JSON */
};

static answer tell(int status, json_t *json /* taken */)
{
    answer a = {.status = status, .json = json_dumps(json, JSON_COMPACT)};
    json_decref(json);
    return a;
}

static answer refuse(int status, const char *why)
{
    return tell(status, json_pack("{s:s, s:i}", "error", why, "status", status));
}

static answer none(void)
{
    return (answer){.status = 204};
}

static bool is(const struct call *c, const char *method)
{
    return strcmp(c->method, method) == 0;
}

/* --- proxies --- */

static answer proxies_index(struct call *c)
{
    json_t *all = json_object();
    list_for_each (it, &c->api->proxies->all) {
        struct proxy *p = container_of(it, struct proxy, link);
        json_object_set_new(all, p->name, proxy_to_json(p));
    }
    return tell(200, all);
}

struct wanted {
    const char *name, *listen, *upstream;
    int enabled; /* -1: not said */
};

static bool read_wanted(json_t *body, struct wanted *w)
{
    json_t *enabled = NULL;
    *w = (struct wanted){.enabled = -1};
    if (!body || json_unpack(body, "{s?s, s?s, s?s, s?o}", "name", &w->name, "listen", &w->listen,
                             "upstream", &w->upstream, "enabled", &enabled))
        return false;
    if (enabled && !json_is_boolean(enabled))
        return false;
    if (enabled)
        w->enabled = json_is_true(enabled);
    return true;
}

/* NULL with the refusal. */
static struct proxy *create(struct api *a, const struct wanted *w, answer *refusal)
{
    char err[400];
    if (!w->name || !*w->name || strchr(w->name, '/')) {
        *refusal = refuse(400, "missing required field: name");
        return NULL;
    }
    if (!w->upstream || !*w->upstream) {
        *refusal = refuse(400, "missing required field: upstream");
        return NULL;
    }
    if (proxy_find(a->proxies, w->name)) {
        *refusal = refuse(409, "proxy already exists");
        return NULL;
    }
    struct proxy *p =
        proxy_new(a->proxies, w->name, w->listen && *w->listen ? w->listen : "127.0.0.1:0",
                  w->upstream, err, sizeof err);
    if (!p) {
        *refusal = refuse(400, err);
        return NULL;
    }
    if (w->enabled && !proxy_enable(p, err, sizeof err)) {
        proxy_free(p);
        *refusal = refuse(500, err);
        return NULL;
    }
    return p;
}

static answer proxy_create(struct call *c)
{
    struct wanted w;
    answer refusal;
    if (!read_wanted(c->body, &w))
        return refuse(400, "bad request body");
    struct proxy *p = create(c->api, &w, &refusal);
    return p ? tell(201, proxy_to_json(p)) : refusal;
}

/* A new address cuts the connections, as Toxiproxy does. */
static answer proxy_update(struct call *c, struct proxy *p)
{
    struct wanted w;
    struct address listen = p->listen, upstream = p->upstream;
    char err[400];
    if (!read_wanted(c->body, &w))
        return refuse(400, "bad request body");
    if ((w.listen && *w.listen && !address_parse(&listen, w.listen, err, sizeof err)) ||
        (w.upstream && *w.upstream && !address_parse(&upstream, w.upstream, err, sizeof err)))
        return refuse(400, err);
    bool moved = strcmp(listen.text, p->listen.text) || strcmp(upstream.text, p->upstream.text);
    bool enabled = w.enabled < 0 ? p->enabled : w.enabled;
    if (moved || !enabled)
        proxy_disable(p);
    p->listen = listen;
    p->upstream = upstream;
    if (enabled && !proxy_enable(p, err, sizeof err))
        return refuse(500, err);
    return tell(200, proxy_to_json(p));
}

static answer one_proxy(struct call *c, struct proxy *p)
{
    if (is(c, "GET"))
        return tell(200, proxy_to_json(p));
    if (is(c, "POST") || is(c, "PATCH"))
        return proxy_update(c, p);
    if (!is(c, "DELETE"))
        return refuse(405, "method not allowed");
    proxy_free(p);
    return none();
}

/* --- toxics --- */

static answer toxic_create(struct call *c, struct proxy *p)
{
    const char *error = "bad request body";
    struct toxic *t = c->body ? toxic_from_json(c->body, &error) : NULL;
    if (!t)
        return refuse(400, error);
    if (p->n_toxics == PROXY_TOXICS_MAX || proxy_toxic(p, t->name)) {
        toxic_unref(t);
        return refuse(409, "toxic already exists");
    }
    proxy_add_toxic(p, t);
    return tell(200, toxic_to_json(t));
}

static answer toxics(struct call *c, struct proxy *p)
{
    if (is(c, "POST"))
        return toxic_create(c, p);
    if (!is(c, "GET"))
        return refuse(405, "method not allowed");
    json_t *all = json_array();
    list_for_each (it, &p->toxics)
        json_array_append_new(all, toxic_to_json(container_of(it, struct toxic, link)));
    return tell(200, all);
}

static answer one_toxic(struct call *c, struct proxy *p, struct toxic *t)
{
    if (is(c, "GET"))
        return tell(200, toxic_to_json(t));
    if (is(c, "DELETE")) {
        proxy_remove_toxic(p, t);
        return none();
    }
    if (!is(c, "POST") && !is(c, "PATCH"))
        return refuse(405, "method not allowed");
    const char *error = c->body ? toxic_update(t, c->body) : "bad request body";
    if (error)
        return refuse(400, error);
    proxy_toxic_changed(p, t);
    return tell(200, toxic_to_json(t));
}

static answer below_proxies(struct call *c)
{
    if (c->n == 1)
        return is(c, "GET")    ? proxies_index(c)
               : is(c, "POST") ? proxy_create(c)
                               : refuse(405, "method not allowed");
    struct proxy *p = proxy_find(c->api->proxies, c->seg[1]);
    if (!p)
        return refuse(404, "proxy not found");
    if (c->n == 2)
        return one_proxy(c, p);
    if (strcmp(c->seg[2], "toxics"))
        return refuse(404, "404 page not found");
    if (c->n == 3)
        return toxics(c, p);
    struct toxic *t = proxy_toxic(p, c->seg[3]);
    return t ? one_toxic(c, p, t) : refuse(404, "toxic not found");
}

/* --- all of them --- */

/* A proxy that is there with the same addresses stays; another is replaced. */
static struct proxy *populate_one(struct api *a, json_t *one, answer *refusal)
{
    struct wanted w;
    char err[400];
    if (!read_wanted(one, &w) || !w.name || !w.listen || !w.upstream) {
        *refusal = refuse(400, "bad request body");
        return NULL;
    }
    struct proxy *p = proxy_find(a->proxies, w.name);
    if (p && (strcmp(p->listen.text, w.listen) || strcmp(p->upstream.text, w.upstream))) {
        proxy_free(p);
        p = NULL;
    }
    if (!p)
        return create(a, &w, refusal);
    if (w.enabled == 0)
        proxy_disable(p);
    else if (!proxy_enable(p, err, sizeof err)) {
        *refusal = refuse(500, err);
        return NULL;
    }
    return p;
}

static answer populate(struct call *c)
{
    json_t *done = json_array(), *one;
    size_t i;
    if (!json_is_array(c->body)) {
        json_decref(done);
        return refuse(400, "bad request body");
    }
    json_array_foreach(c->body, i, one)
    {
        answer refusal;
        struct proxy *p = populate_one(c->api, one, &refusal);
        if (!p) {
            json_decref(done);
            return refusal;
        }
        json_array_append_new(done, proxy_to_json(p));
    }
    return tell(201, json_pack("{s:o}", "proxies", done));
}

static answer reset(struct call *c)
{
    char err[400];
    answer a = none();
    list_for_each (it, &c->api->proxies->all) {
        struct proxy *p = container_of(it, struct proxy, link);
        list_for_each_safe (t, &p->toxics)
            proxy_remove_toxic(p, container_of(t, struct toxic, link));
        if (!proxy_enable(p, err, sizeof err)) {
            free(a.json);
            a = refuse(500, err);
        }
    }
    return a;
}

static answer version(struct call *c)
{
    return tell(200, json_pack("{s:s, s:I}", "version", VERSION, "seed",
                               (json_int_t)c->api->proxies->decide.seed));
}

static answer route(struct call *c)
{
    if (c->n && strcmp(c->seg[0], "proxies") == 0)
        return below_proxies(c);
    if (c->n == 1 && strcmp(c->seg[0], "version") == 0 && is(c, "GET"))
        return version(c);
    if (c->n == 1 && strcmp(c->seg[0], "populate") == 0 && is(c, "POST"))
        return populate(c);
    if (c->n == 1 && strcmp(c->seg[0], "reset") == 0 && is(c, "POST"))
        return reset(c);
    return refuse(404, "404 page not found");
}

static answer on_request(struct control_handler *h, const char *method, const char *path,
                         struct str body)
{
    struct call c = {.api = container_of(h, struct api, handler), .method = method};
    char copy[1200], *at = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *s = strtok_r(copy, "/", &at); s; s = strtok_r(NULL, "/", &at)) {
        if (c.n == 4)
            return refuse(404, "404 page not found");
        c.seg[c.n++] = s;
    }
    if (body.len)
        c.body = json_loadb(body.ptr, body.len, JSON_REJECT_DUPLICATES, NULL);
    answer a = route(&c);
    json_decref(c.body);
    return a;
}

void api_init(struct api *a, struct proxies *ps)
{
    *a = (struct api){.handler.on_request = on_request, .proxies = ps};
}
