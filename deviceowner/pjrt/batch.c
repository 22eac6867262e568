// One batch from host memory to host memory. The structs are filled in once a call; a run only resets what the plugin writes.
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

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
  c->waits = calloc(array_count + 1, sizeof *c->waits);
  if (!c->data || !c->uploads || !c->places || !c->arguments || !c->kept || !c->waits) {
    rk_call_free(c);
    return NULL;
  }
  c->device = d;
  c->array_count = array_count;
  for (size_t i = 0; i <= array_count; i++) c->waits[i].call = c;
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
  free(c->waits);
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

// add_wait makes the run wait for an event, which it then owns. A plugin may give none, which means that it is ready.
static void add_wait(struct rk_call *c, pj_event *event) {
  if (event) c->waits[c->wait_count++].event = event;
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
  add_wait(c, args.event);
}

// begin starts the uploads, the program and the download. c->waits then are the events that it left to wait for.
static void begin(struct rk_call *c, void *scores, size_t size, struct rk_form *form) {
  c->wait_count = 0;
  c->results[0] = NULL;
  size_t sent = upload(c);
  if (sent == c->array_count && !rk_bad(c->device->api, rk_invoke(c->device->api, pj_loaded_execute, &c->execute), &c->failure)) {
    rk_count(rk_buffers, 1);
    download(c, scores, size, form);
  }
  // The plugin keeps what the program still reads. Without a copy it gives the host's memory back only when the buffers over
  // it are destroyed, so they go first.
  for (size_t i = 0; i < sent; i++) rk_free_buffer(c->device, c->uploads[i].buffer, &c->failure);
  for (size_t i = 0; i < sent; i++) add_wait(c, c->uploads[i].host_done);
}

// finish frees what is left of a run whose events are ready.
static int finish(struct rk_call *c) {
  if (c->results[0]) rk_free_buffer(c->device, c->results[0], &c->failure);
  return c->failure.code;
}

int rk_run(struct rk_call *c, void *scores, size_t size, struct rk_form *form) {
  begin(c, scores, size, form);
  for (size_t i = 0; i < c->wait_count; i++) rk_await(c->device, c->waits[i].event, &c->failure);
  return finish(c);
}

struct rk_ends *rk_ends_new(int fd) {
  struct rk_ends *e = calloc(1, sizeof *e);
  if (e) e->fd = fd;
  return e;
}

void rk_ends_free(struct rk_ends *e) { free(e); }

// drop gives up one share of a started run and reports whether it was the last one. Whoever gave up the last share has the
// call, and everybody else must not touch it any more.
static int drop(struct rk_call *c) { return __atomic_sub_fetch(&c->left, 1, __ATOMIC_ACQ_REL) == 0; }

// append hands a run that is over to the taker. Only who finds the list empty raises the descriptor: the taker gets all that
// come before it looks.
static void append(struct rk_ends *e, struct rk_call *c) {
  struct rk_call *newest = __atomic_load_n(&e->newest, __ATOMIC_RELAXED);
  do c->next = newest;
  while (!__atomic_compare_exchange_n(&e->newest, &newest, c, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
  if (newest) return;
  uint64_t one = 1;
  while (write(e->fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

static void ready(pj_error *error, void *user) {
  struct rk_wait *w = user;
  struct rk_call *c = w->call;
  rk_bad(c->device->api, error, &w->failure);
  if (drop(c)) append(c->ends, c);
}

// settle frees the events of a started run and keeps the first of their failures.
static int settle(struct rk_call *c) {
  for (size_t i = 0; i < c->wait_count; i++) {
    struct rk_wait *w = &c->waits[i];
    rk_free_event(c->device, w->event, &w->failure);
    if (c->failure.code) {
      rk_failure_free(&w->failure);
      continue;
    }
    c->failure = w->failure;
    memset(&w->failure, 0, sizeof w->failure);
  }
  return finish(c);
}

int rk_start(struct rk_call *c, void *scores, size_t size, struct rk_ends *e, int tag) {
  begin(c, scores, size, NULL);
  c->ends = e;
  c->tag = tag;
  __atomic_store_n(&c->left, c->wait_count + 1, __ATOMIC_RELAXED);
  for (size_t i = 0; i < c->wait_count; i++) {
    struct rk_wait *w = &c->waits[i];
    ARGS(pj_on_ready, args, user);
    args.event = w->event;
    args.callback = ready;
    args.user = w;
    if (rk_bad(c->device->api, rk_invoke(c->device->api, pj_event_on_ready, &args), &w->failure)) {
      rk_wait_ready(c->device, w->event, &w->failure); // no call will come
      drop(c);
    }
  }
  if (!drop(c)) return 0;
  settle(c);
  return 1;
}

size_t rk_take(struct rk_ends *e, int *tags) {
  struct rk_call *c = __atomic_exchange_n(&e->newest, NULL, __ATOMIC_ACQUIRE), *oldest = NULL;
  while (c) {
    struct rk_call *older = c->next;
    c->next = oldest;
    oldest = c;
    c = older;
  }
  size_t n = 0;
  for (c = oldest; c; c = oldest) {
    oldest = c->next;
    settle(c);
    tags[n++] = c->tag;
  }
  return n;
}
