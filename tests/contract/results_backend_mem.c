#include "adapter/mem/mem_results.h"
#include "backend_sched.h"
#include "results_backend.h"

static struct results *results;
static int64_t next_sku;

void backend_start(void)
{
    sched_init(&backend_sched, MEM_CLOCK_START_US);
    results = mem_results_new(&backend_sched);
}

void backend_stop(void)
{
    mem_results_free(results);
    sched_deinit(&backend_sched);
}

struct results *backend_results(void)
{
    return results;
}

struct item backend_item(void)
{
    return (struct item){5, ++next_sku};
}

int backend_read(struct item item, int n, const char **bodies, int max)
{
    static char texts[256][RESULT_MAX_BYTES + 1];
    const struct result *r;
    int found = 0;
    (void)n;
    for (int i = 0; (r = mem_results_told(results, i)) && found < max && found < 256; i++) {
        struct strbuf b;
        if (!item_eq(r->item, item))
            continue;
        strbuf_init_fixed(&b, texts[found], RESULT_MAX_BYTES);
        result_encode(r, &b);
        texts[found][b.len] = '\0';
        bodies[found] = texts[found];
        found++;
    }
    return found;
}

void backend_down(void)
{
    mem_faults_add(mem_results_faults(results), MEM_RESULTS_PUBLISH, 0, MEM_FAULT_NOT_DONE, 0);
}

void backend_up(void)
{
    mem_faults_clear(mem_results_faults(results), -1);
}
