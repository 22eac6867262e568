// What shim.c shares with batch.c.
#ifndef RANKD_PJRT_SHIM_INTERNAL_H
#define RANKD_PJRT_SHIM_INTERNAL_H

#include <stdatomic.h>
#include <string.h>

#include "shim.h"

// ARGS declares zeroed arguments whose size ends with the last field, without the compiler's padding behind it.
#define ARGS(type, name, last) \
  struct type name;            \
  memset(&name, 0, sizeof name); \
  name.struct_size = offsetof(struct type, last) + sizeof(name.last)

extern _Atomic long rk_counts[rk_kinds];

static inline void rk_count(enum rk_kind kind, long change) {
  atomic_fetch_add_explicit(&rk_counts[kind], change, memory_order_relaxed);
}

static inline pj_error *rk_invoke(const struct pj_api *api, enum pj_slot slot, void *args) {
  return ((pj_error * (*)(void *)) api->functions[slot])(args);
}

// rk_bad takes an error of the plugin, frees it, and says whether there was one. The first failure is the one that is kept.
int rk_bad(const struct pj_api *api, pj_error *e, struct rk_failure *f);

// rk_fail records a failure of the shim's own.
int rk_fail(struct rk_failure *f, int code, const char *text);

void rk_wait_ready(struct rk_device *d, pj_event *event, struct rk_failure *f);
void rk_free_event(struct rk_device *d, pj_event *event, struct rk_failure *f);
void rk_buffer_form(const struct pj_api *api, pj_buffer *b, struct rk_form *form, struct rk_failure *f);

// rk_describe asks what a device is. kind belongs to the description.
int rk_describe(const struct pj_api *api, const void *description, int *id, const char **kind, size_t *kind_size, struct rk_failure *f);

// What can be done with a program that is on no device. rk_executable_free counts it down.
int rk_executable_image(const struct pj_api *api, pj_executable *e, struct rk_image *image, struct rk_failure *f);
int rk_executable_form(const struct pj_api *api, pj_executable *e, struct rk_form *form, struct rk_failure *f);
void rk_executable_free(const struct pj_api *api, pj_executable *e, struct rk_failure *f);

#endif
