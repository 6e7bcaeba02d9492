#include "adapter/mem/mem_queue.h"
#include "adapter/mem/mem_stock.h"
#include "backend_sched.h"
#include "stock_backend.h"

static struct mem_broker *broker;
static struct stock *stock;
static int64_t next_sku;

void backend_start(bool streams)
{
    sched_init(&backend_sched, MEM_CLOCK_START_US);
    broker = mem_broker_new(&(struct mem_broker_config){.sched = &backend_sched});
    stock = mem_stock_new(
        &(struct mem_stock_config){.sched = &backend_sched, .stream = streams ? broker : NULL});
}

void backend_stop(void)
{
    mem_stock_free(stock);
    mem_broker_free(broker);
    sched_deinit(&backend_sched);
}

struct stock *backend_stock(void)
{
    return stock;
}

struct item backend_item(void)
{
    return (struct item){5, ++next_sku};
}

bool backend_reported(struct item item)
{
    return mem_stock_reported(stock, item);
}

void backend_set_epoch(struct item item, int64_t epoch)
{
    mem_stock_set_epoch(stock, item, epoch);
}

void backend_add_free(struct item item, int64_t by)
{
    mem_stock_add_free(stock, item, by);
}

void backend_remove_buyer(struct item item, int64_t user)
{
    mem_stock_remove_buyer(stock, item, user);
}

void backend_put_buyer(struct item item, const struct reservation *r)
{
    mem_stock_put_buyer(stock, item, r);
}

void backend_forget_pending(struct item item, const struct reservation *r)
{
    mem_stock_forget_pending(stock, item, r->user_id);
}
