#include "adapter/jwt/jwt.h"
#include "base/log.h"
#include "base/streams.h"
#include "daemon/api/api.h"
#include "daemon/common/location_secret.h"
#include "daemon/common/program.h"
#include "daemon/common/store.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define PROGRAM "seckill-api"

static const char usage[] =
    "usage: seckill-api [--config FILE] [--ports-file FILE] [--SETTING VALUE…]\n"
    "The buyers' write path: orders, cancels, payments.\n"
    "  --ports-file FILE  writes \"api=PORT admin=PORT\" there when it listens\n";

static int start(struct api *api)
{
    char err[1024] = "", listen[CONF_STRING_MAX + 16];
    const struct settings *s = &api->settings;
    /* What a 202 rests on. */
    int rc = store_check_durability(s);
    if (rc)
        return rc;
    api->keys = jwt_keys_load(s->auth.keys, err, sizeof(err));
    if (!api->keys)
        return program_fail("no usable token keys (auth.keys)", err);
    if (payment_auth_load(&api->payment_auth, s->payments.secret_file, s->payments.window_us, err,
                          sizeof(err)) < 0)
        return program_fail("no usable payment credential", err);
    if (location_secret_load(&api->location_keys, s->location.secret_file, err, sizeof(err)) < 0)
        return program_fail("no usable secret for location tokens", err);
    order_id_init(&api->ids);
    api->n_loops = program_loops((int)s->api.loops);
    api->loops = calloc((size_t)api->n_loops, sizeof(api->loops[0]));
    if (!api->loops)
        return program_fail("cannot start", "no memory");
    if (control_init(&api->control, api, err, sizeof(err)) < 0)
        return program_fail("the control loop cannot start", err);
    str_copy(listen, sizeof(listen), str_of(s->api.listen));
    for (int i = 0; i < api->n_loops; i++) {
        if (data_loop_init(&api->loops[i], api, i, listen, err, sizeof(err)) < 0)
            return program_fail("a data loop cannot start", err);
        if (program_with_port(listen, sizeof(listen), s->api.listen,
                              http_server_port(api->loops[0].server)) < 0)
            return program_fail("api.listen is too long", s->api.listen);
    }
    for (int i = 0; i < api->n_loops; i++) {
        if (serve_thread_start(&api->loops[i].thread) < 0)
            return program_fail("a data loop cannot start", "no thread");
    }
    return 0;
}

static int tell_ports(const struct api *api)
{
    char err[1024];
    int port = http_server_port(api->loops[0].server), admin = admin_port(api->control.admin);
    log_info("listening", LOG_I("port", port), LOG_I("admin_port", admin),
             LOG_I("loops", api->n_loops));
    struct program_port ports[] = {{"api", port}, {"admin", admin}};
    if (api->ports_file && program_write_ports(api->ports_file, ports, 2, err, sizeof(err)) < 0)
        return program_fail("the ports file cannot be written", err);
    return 0;
}

int main(int argc, char **argv)
{
    static struct api api; /* large: hints, mailboxes */
    streams_hold();
    signal(SIGPIPE, SIG_IGN);
    api.ports_file = program_take_option(&argc, argv, "--ports-file");
    int rc = settings_load(&api.settings, &api.conf, &argc, argv, PROGRAM, usage);
    if (rc >= 0) {
        conf_deinit(&api.conf);
        return rc;
    }
    rc = program_no_more(argc, argv, PROGRAM);
    if (rc == 0)
        rc = start(&api);
    if (rc == 0)
        rc = tell_ports(&api);
    if (rc == 0)
        control_run(&api.control);
    /* Those who hand things to the control loop first, the admin port last. */
    for (int i = 0; api.loops && i < api.n_loops; i++)
        data_loop_deinit(&api.loops[i]);
    control_deinit(&api.control);
    control_free_admin(&api.control);
    free(api.loops);
    if (api.keys)
        jwt_keys_free(api.keys);
    payment_auth_wipe(&api.payment_auth);
    explicit_bzero(&api.location_keys, sizeof(api.location_keys));
    conf_deinit(&api.conf);
    if (rc == 0)
        log_info("stopped");
    return rc;
}
