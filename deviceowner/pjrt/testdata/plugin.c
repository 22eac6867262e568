// A device for tests. Its memory is the host's, one thread of its own does what is queued, and each of its functions and events
// can be told to fail: RANKD_TEST_PLUGIN holds "slot:after:number", where slot -1 stands for an event; after that many calls
// one fails, and a new number begins a new count. A program is the text "rows=N"; the score of a row is the sum of the first
// columns of its arguments. A client that is destroyed before everything that it made says what is left.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../abi.h"

struct pj_error {
  int code;
  char text[160];
};

struct pj_event {
  int refs, ready, code;
  void (*callback)(pj_error *, void *);
  void *user;
};

struct pj_buffer {
  int refs, type;
  int64_t dims[2];
  size_t dim_count, size;
  char *own;
  const char *data;
  pj_event *host_done; // without a copy: when the last reference is gone
};

struct pj_loaded {
  int64_t rows;
};

struct pj_client {
  pthread_t thread;
};

enum { max_arguments = 4 };

struct job {
  struct job *next;
  size_t input_count;
  pj_buffer *inputs[max_arguments]; // of a program
  pj_buffer *output;                // of a program, or of an upload
  const void *from;                 // of an upload
  pj_buffer *source;                // of a download
  void *to;
  size_t size;
  pj_event *event; // of an upload and a download
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards all that follows, and refs and states
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job *first, **last = &first;
static int stopping;
static int errors, events, buffers, executables, programs, maps;
static void *mapped;
static char plan[64];
static int plan_slot = -2, plan_after;

static pj_error *make_error(int code, const char *text) {
  pj_error *e = calloc(1, sizeof *e);
  e->code = code;
  snprintf(e->text, sizeof e->text, "%s", text);
  pthread_mutex_lock(&lock);
  errors++;
  pthread_mutex_unlock(&lock);
  return e;
}

// told reports whether this is the call that has to fail.
static int told(int slot) {
  const char *now = getenv("RANKD_TEST_PLUGIN");
  pthread_mutex_lock(&lock);
  if (now && strcmp(now, plan)) {
    snprintf(plan, sizeof plan, "%s", now);
    plan_slot = -2;
    sscanf(plan, "%d:%d", &plan_slot, &plan_after);
  }
  int yes = now && plan_slot == slot && plan_after-- == 0;
  pthread_mutex_unlock(&lock);
  return yes;
}

#define MAY_FAIL(slot) \
  if (told(slot)) return make_error(13, "told to fail in " #slot)

static pj_event *make_event(void) {
  pj_event *e = calloc(1, sizeof *e);
  e->refs = 2; // the caller's and the signaller's
  pthread_mutex_lock(&lock);
  events++;
  pthread_mutex_unlock(&lock);
  return e;
}

static void drop_event(pj_event *e) {
  pthread_mutex_lock(&lock);
  int gone = --e->refs == 0;
  if (gone) events--;
  pthread_mutex_unlock(&lock);
  if (gone) free(e);
}

static pj_error *event_error(int code) { return code ? make_error(code, "told to fail an event") : NULL; }

static void signal_event(pj_event *e) {
  int code = told(-1) ? 14 : 0;
  pthread_mutex_lock(&lock);
  e->code = code;
  e->ready = 1;
  void (*callback)(pj_error *, void *) = e->callback;
  void *user = e->user;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  if (callback) callback(event_error(code), user);
  drop_event(e);
}

static void drop_buffer(pj_buffer *b) {
  pthread_mutex_lock(&lock);
  int gone = --b->refs == 0;
  if (gone) buffers--;
  pthread_mutex_unlock(&lock);
  if (!gone) return;
  if (b->host_done) signal_event(b->host_done);
  free(b->own);
  free(b);
}

static pj_buffer *make_buffer(int type, const int64_t *dims, size_t dim_count) {
  pj_buffer *b = calloc(1, sizeof *b);
  b->refs = 1;
  b->type = type;
  b->dim_count = dim_count;
  b->size = 4;
  for (size_t i = 0; i < dim_count; i++) b->size *= b->dims[i] = dims[i];
  pthread_mutex_lock(&lock);
  buffers++;
  pthread_mutex_unlock(&lock);
  return b;
}

static void hold(pj_buffer *b) {
  pthread_mutex_lock(&lock);
  b->refs++;
  pthread_mutex_unlock(&lock);
}

static void enqueue(struct job j) {
  struct job *p = malloc(sizeof *p);
  *p = j;
  p->next = NULL;
  pthread_mutex_lock(&lock);
  *last = p;
  last = &p->next;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static void execute_job(struct job *j) {
  float *out = (float *)j->output->own;
  for (int64_t r = 0; r < j->output->dims[0]; r++) {
    out[r] = 0;
    for (size_t i = 0; i < j->input_count; i++) out[r] += ((const float *)j->inputs[i]->data)[r * j->inputs[i]->dims[1]];
  }
  for (size_t i = 0; i < j->input_count; i++) drop_buffer(j->inputs[i]);
  drop_buffer(j->output);
}

static void *work(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&lock);
    while (!first && !stopping) pthread_cond_wait(&changed, &lock);
    struct job *j = first;
    if (j && !(first = j->next)) last = &first;
    pthread_mutex_unlock(&lock);
    if (!j) return NULL;
    struct timespec pause = {0, 20000}; // so that callers get ahead of the device
    nanosleep(&pause, NULL);
    if (j->input_count) {
      execute_job(j);
    } else if (j->from) {
      memcpy(j->output->own, j->from, j->output->size);
      drop_buffer(j->output);
      signal_event(j->event);
    } else {
      memcpy(j->to, j->source->data, j->size);
      drop_buffer(j->source);
      signal_event(j->event);
    }
    free(j);
  }
}

static pj_error *error_destroy(struct pj_one *a) {
  pthread_mutex_lock(&lock);
  errors--;
  pthread_mutex_unlock(&lock);
  free(a->object);
  return NULL;
}

static pj_error *error_message(struct pj_text *a) {
  const pj_error *e = a->object;
  a->text = e->text;
  a->size = strlen(e->text);
  return NULL;
}

static pj_error *error_code(struct pj_int *a) {
  a->value = ((const pj_error *)a->object)->code;
  return NULL;
}

static pj_error *initialize(struct pj_nothing *a) {
  (void)a;
  return NULL;
}

static pj_error *event_destroy(struct pj_one *a) {
  drop_event(a->object);
  return NULL;
}

static pj_error *event_await(struct pj_one *a) {
  pj_event *e = a->object;
  pthread_mutex_lock(&lock);
  while (!e->ready) pthread_cond_wait(&changed, &lock);
  int code = e->code;
  pthread_mutex_unlock(&lock);
  return event_error(code);
}

static pj_error *event_on_ready(struct pj_on_ready *a) {
  MAY_FAIL(pj_event_on_ready);
  pthread_mutex_lock(&lock);
  int ready = a->event->ready, code = a->event->code;
  if (!ready) {
    a->event->callback = a->callback;
    a->event->user = a->user;
  }
  pthread_mutex_unlock(&lock);
  if (ready) a->callback(event_error(code), a->user);
  return NULL;
}

static pj_error *client_create(struct pj_create *a) {
  MAY_FAIL(pj_client_create);
  a->client = calloc(1, sizeof *a->client);
  stopping = 0;
  pthread_create(&a->client->thread, NULL, work, NULL);
  return NULL;
}

static pj_error *client_destroy(struct pj_one *a) {
  pj_client *c = a->object;
  pthread_mutex_lock(&lock);
  stopping = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  pthread_join(c->thread, NULL);
  free(c);
  if (!errors && !events && !buffers && !executables && !programs && !maps) return NULL;
  char text[160];
  snprintf(text, sizeof text, "left: %d errors, %d events, %d buffers, %d executables, %d programs, %d maps", errors, events, buffers, executables, programs, maps);
  return make_error(13, text);
}

static pj_error *client_platform_name(struct pj_text *a) {
  a->text = "test";
  a->size = 4;
  return NULL;
}

static pj_device *const devices[] = {(pj_device *)devices};

static pj_error *client_devices(struct pj_list *a) {
  a->items = devices;
  a->count = 1;
  return NULL;
}

static pj_error *description_id(struct pj_int *a) {
  a->value = 0;
  return NULL;
}

static pj_error *device_description(struct pj_get *a) {
  a->result = (void *)a->object;
  return NULL;
}

static pj_error *client_compile(struct pj_compile *a) {
  MAY_FAIL(pj_client_compile);
  char text[32] = "";
  memcpy(text, a->program->code, a->program->code_size < 31 ? a->program->code_size : 31);
  int64_t rows = atoll(text + 5);
  if (strncmp(text, "rows=", 5) || rows <= 0) return make_error(3, "no such program");
  a->loaded = calloc(1, sizeof *a->loaded);
  a->loaded->rows = rows;
  programs++;
  return NULL;
}

static pj_error *executable_destroy(struct pj_one *a) {
  (void)a;
  executables--;
  return NULL;
}

static pj_error *result_count(struct pj_count *a) {
  MAY_FAIL(pj_executable_result_count);
  a->count = 1;
  return NULL;
}

static pj_error *loaded_destroy(struct pj_one *a) {
  free(a->object);
  programs--;
  return NULL;
}

static pj_error *loaded_executable(struct pj_get *a) {
  MAY_FAIL(pj_loaded_executable);
  a->result = (void *)a->object;
  executables++;
  return NULL;
}

static pj_error *client_upload(struct pj_upload *a) {
  MAY_FAIL(pj_client_upload);
  pj_buffer *b = make_buffer(a->type, a->dims, a->dim_count);
  pj_event *done = make_event();
  if (a->semantics == pj_zero_copy) {
    b->data = a->data;
    b->host_done = done;
  } else {
    b->own = malloc(b->size);
    b->data = b->own;
    if (a->semantics == pj_during_call) {
      memcpy(b->own, a->data, b->size);
      signal_event(done);
    } else {
      hold(b);
      enqueue((struct job){.output = b, .from = a->data, .event = done});
    }
  }
  a->host_done = done;
  a->buffer = b;
  return NULL;
}

static pj_error *loaded_execute(struct pj_execute *a) {
  MAY_FAIL(pj_loaded_execute);
  if (a->argument_count > max_arguments) return make_error(3, "too many arguments");
  pj_buffer *out = make_buffer(pj_f32, (int64_t[]){a->loaded->rows, 1}, 2);
  out->own = malloc(out->size);
  out->data = out->own;
  struct job j = {.input_count = a->argument_count, .output = out};
  for (size_t i = 0; i < a->argument_count; i++) hold(j.inputs[i] = a->arguments[0][i]);
  hold(out);
  enqueue(j);
  a->results[0][0] = out;
  return NULL;
}

static pj_error *buffer_destroy(struct pj_one *a) {
  drop_buffer(a->object);
  return NULL;
}

static pj_error *buffer_type(struct pj_int *a) {
  MAY_FAIL(pj_buffer_type);
  a->value = ((const pj_buffer *)a->object)->type;
  return NULL;
}

static pj_error *buffer_dims(struct pj_list *a) {
  a->items = ((const pj_buffer *)a->object)->dims;
  a->count = ((const pj_buffer *)a->object)->dim_count;
  return NULL;
}

static pj_error *buffer_download(struct pj_download *a) {
  MAY_FAIL(pj_buffer_download);
  a->event = make_event();
  hold(a->buffer);
  enqueue((struct job){.source = a->buffer, .to = a->data, .size = a->size, .event = a->event});
  return NULL;
}

static pj_error *dma_map(struct pj_dma *a) {
  MAY_FAIL(pj_client_dma_map);
  mapped = a->data;
  maps++;
  return NULL;
}

static pj_error *dma_unmap(struct pj_dma *a) {
  if (a->data != mapped) return make_error(5, "not mapped");
  maps--;
  return NULL;
}

static struct {
  size_t struct_size;
  void *extensions;
  struct pj_version version;
  void *functions[112];
} table;

const void *GetPjrtApi(void) {
  table.struct_size = sizeof table;
  table.version.struct_size = sizeof table.version;
  void **f = table.functions;
  f[pj_error_destroy] = error_destroy;
  f[pj_error_message] = error_message;
  f[pj_error_code] = error_code;
  f[pj_plugin_initialize] = initialize;
  f[pj_event_destroy] = event_destroy;
  f[pj_event_await] = event_await;
  f[pj_event_on_ready] = event_on_ready;
  f[pj_client_create] = client_create;
  f[pj_client_destroy] = client_destroy;
  f[pj_client_platform_name] = client_platform_name;
  f[pj_client_platform_version] = client_platform_name;
  f[pj_client_devices] = client_devices;
  f[pj_client_compile] = client_compile;
  f[pj_client_upload] = client_upload;
  f[pj_description_id] = description_id;
  f[pj_description_kind] = client_platform_name;
  f[pj_device_description] = device_description;
  f[pj_executable_destroy] = executable_destroy;
  f[pj_executable_result_count] = result_count;
  f[pj_loaded_destroy] = loaded_destroy;
  f[pj_loaded_executable] = loaded_executable;
  f[pj_loaded_execute] = loaded_execute;
  f[pj_buffer_destroy] = buffer_destroy;
  f[pj_buffer_type] = buffer_type;
  f[pj_buffer_dims] = buffer_dims;
  f[pj_buffer_download] = buffer_download;
#ifndef WITHOUT_DMA
  f[pj_client_dma_map] = dma_map;
  f[pj_client_dma_unmap] = dma_unmap;
#else
  (void)dma_map;
  (void)dma_unmap;
#endif
#ifdef SHORT_TABLE
  table.struct_size = offsetof(struct pj_api, functions) + sizeof(void *) * pj_client_dma_map;
#endif
  return &table;
}
