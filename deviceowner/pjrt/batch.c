// One batch from host memory to host memory. The structs are filled in once a call; a run only resets what the plugin writes.
#include <stdlib.h>

#include "shim_internal.h"

struct rk_call *rk_call_new(struct rk_device *d, pj_loaded *l, size_t argument_count, size_t array_count, int semantics) {
  struct rk_call *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  // One element more than needed, so that NULL always means that there is no memory.
  c->data = calloc(array_count + 1, sizeof *c->data);
  c->uploads = calloc(array_count + 1, sizeof *c->uploads);
  c->places = calloc(array_count + 1, sizeof *c->places);
  c->arguments = calloc(argument_count + 1, sizeof *c->arguments);
  c->kept = calloc(argument_count + 1, sizeof *c->kept);
  if (!c->data || !c->uploads || !c->places || !c->arguments || !c->kept) {
    rk_call_free(c);
    return NULL;
  }
  c->device = d;
  c->array_count = array_count;
  for (size_t i = 0; i < argument_count; i++) c->kept[i] = i; // weights serve again, uploads may be host memory
  for (size_t i = 0; i < array_count; i++) {
    struct pj_upload *u = &c->uploads[i];
    u->struct_size = sizeof *u;
    u->client = d->client;
    u->device = d->device;
    u->semantics = semantics;
  }
  c->options.struct_size = sizeof c->options;
  c->options.kept = c->kept;
  c->options.kept_count = argument_count;
  c->argument_list[0] = c->arguments;
  c->result_list[0] = c->results;
  c->execute.struct_size = sizeof c->execute;
  c->execute.loaded = l;
  c->execute.options = &c->options;
  c->execute.arguments = c->argument_list;
  c->execute.device_count = 1;
  c->execute.argument_count = argument_count;
  c->execute.results = c->result_list;
  return c;
}

void rk_call_free(struct rk_call *c) {
  for (size_t i = 0; c->uploads && i < c->array_count; i++) free((void *)c->uploads[i].dims);
  free(c->data);
  free(c->uploads);
  free(c->places);
  free(c->arguments);
  free(c->kept);
  rk_failure_free(&c->failure);
  free(c);
}

void rk_call_weight(struct rk_call *c, size_t argument, pj_buffer *b) { c->arguments[argument] = b; }

int rk_call_array(struct rk_call *c, size_t array, size_t argument, int type, int64_t rows, int64_t columns) {
  int64_t *dims = calloc(2, sizeof *dims);
  if (!dims) return 0;
  dims[0] = rows;
  dims[1] = columns;
  struct pj_upload *u = &c->uploads[array];
  u->type = type;
  u->dims = dims;
  u->dim_count = 2;
  c->places[array] = argument;
  return 1;
}

// upload sends the arrays and returns how many of them reached a buffer.
static size_t upload(struct rk_call *c) {
  for (size_t i = 0; i < c->array_count; i++) {
    struct pj_upload *u = &c->uploads[i];
    u->data = c->data[i];
    u->host_done = NULL;
    u->buffer = NULL;
    if (rk_bad(c->device->api, rk_invoke(c->device->api, pj_client_upload, u), &c->failure)) return i;
    rk_count(rk_buffers, 1);
    if (u->host_done) rk_count(rk_events, 1);
    c->arguments[c->places[i]] = u->buffer;
  }
  return c->array_count;
}

static int is_float32_of(const struct rk_form *form, size_t size) {
  if (!form->known || form->type != pj_f32) return 0;
  uint64_t bytes = 4;
  for (size_t i = 0; i < form->dim_count; i++)
    if (form->dims[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)form->dims[i], &bytes)) return 0;
  return bytes == size;
}

static void download(struct rk_call *c, void *scores, size_t size, struct rk_form *form) {
  const struct pj_api *api = c->device->api;
  if (form) {
    rk_buffer_form(api, c->results[0], form, &c->failure);
    if (c->failure.code) return;
    if (!is_float32_of(form, size)) {
      rk_fail(&c->failure, rk_result_unexpected, "result has another type or size");
      return;
    }
  }
  ARGS(pj_download, args, event);
  args.buffer = c->results[0];
  args.data = scores;
  args.size = size;
  if (rk_bad(api, rk_invoke(api, pj_buffer_download, &args), &c->failure)) return;
  if (args.event) rk_count(rk_events, 1);
  rk_await(c->device, args.event, &c->failure);
}

int rk_run(struct rk_call *c, void *scores, size_t size, struct rk_form *form) {
  const struct pj_api *api = c->device->api;
  struct rk_failure *f = &c->failure;
  size_t sent = upload(c);
  if (sent == c->array_count) {
    c->results[0] = NULL;
    if (!rk_bad(api, rk_invoke(api, pj_loaded_execute, &c->execute), f)) {
      rk_count(rk_buffers, 1);
      download(c, scores, size, form);
      rk_free_buffer(c->device, c->results[0], f);
    }
  }
  // The host's memory is free when the events say so, and without a copy they wait for the buffers to go.
  for (size_t i = 0; i < sent; i++) rk_free_buffer(c->device, c->uploads[i].buffer, f);
  for (size_t i = 0; i < sent; i++) rk_await(c->device, c->uploads[i].host_done, f);
  return f->code;
}
