/* Toxiproxy's HTTP API over the proxies. */
#pragma once

#include "control.h"
#include "proxy.h"

struct api {
    struct control_handler handler;
    struct proxies *proxies;
};

void api_init(struct api *a, struct proxies *ps);
