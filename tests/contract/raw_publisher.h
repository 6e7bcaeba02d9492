/* Publishes any bytes to a RocketMQ topic, past the port; each call waits until it is done. */
#pragma once

#include "base/str.h"

struct raw_publisher;

struct raw_publisher *raw_publisher_new(const char *endpoints, const char *topic);
void raw_publisher_free(struct raw_publisher *p);
void raw_publisher_send(struct raw_publisher *p, struct str body); /* aborts if it is refused */
