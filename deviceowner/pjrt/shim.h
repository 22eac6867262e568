// The shim: sequences of PJRT calls that the Go side makes with one cgo call each. Functions return 0 or the code of the
// failure that they leave in f, whose text the caller frees; they free whatever they made before they failed.
#ifndef RANKD_PJRT_SHIM_H
#define RANKD_PJRT_SHIM_H

#include "abi.h"

struct rk_failure {
  int code; // 0: none; else a status code of the plugin, or one below
  char *text;
  size_t size;
};

enum { rk_library_unusable = -1, rk_result_unexpected = -2 };

void rk_failure_free(struct rk_failure *f);

// Objects of the plugin that the shim holds, by kind, in the whole process.
enum rk_kind { rk_clients, rk_buffers, rk_programs, rk_events, rk_topologies, rk_kinds };

long rk_alive(int kind);

// rk_load opens a plugin's file, which then stays loaded, and initializes it.
int rk_load(const char *path, const struct pj_api **api, struct rk_failure *f);

int rk_has(const struct pj_api *api, int slot);

// rk_device is a client and its first device. The texts belong to the client.
struct rk_device {
  const struct pj_api *api;
  pj_client *client;
  pj_device *device;
  size_t device_count;
  int id;
  const char *platform, *version, *kind;
  size_t platform_size, version_size, kind_size;
};

struct pj_named *rk_named_array(size_t count);
void rk_named_string(struct pj_named *n, const char *text, size_t size);
void rk_named_int64(struct pj_named *n, int64_t v);
void rk_named_int64_list(struct pj_named *n, const int64_t *list, size_t count);
void rk_named_float(struct pj_named *n, float v);
void rk_named_bool(struct pj_named *n, bool v);

int rk_open(const struct pj_api *api, const struct pj_named *options, size_t option_count, struct rk_device **device, struct rk_failure *f);
int rk_close(struct rk_device *d, struct rk_failure *f);

// rk_dma_map tells the device that it will read the memory again and again, so that the plugin may prepare it for transfers
// without a copy. It stays mapped until rk_dma_unmap.
int rk_dma_map(struct rk_device *d, void *data, size_t size, struct rk_failure *f);
int rk_dma_unmap(struct rk_device *d, void *data, struct rk_failure *f);

// rk_upload starts a transfer to the device. data stays in use until rk_await on done.
int rk_upload(struct rk_device *d, const void *data, int type, const int64_t *dims, size_t dim_count, int semantics,
              pj_buffer **buffer, pj_event **done, struct rk_failure *f);
int rk_await(struct rk_device *d, pj_event *event, struct rk_failure *f);
int rk_free_buffer(struct rk_device *d, pj_buffer *b, struct rk_failure *f);

int rk_compile(struct rk_device *d, const char *code, size_t code_size, const char *options, size_t options_size,
               pj_loaded **loaded, struct rk_failure *f);
int rk_free_program(struct rk_device *d, pj_loaded *l, struct rk_failure *f);

// rk_image is a serialized program. The caller frees it.
struct rk_image {
  const char *bytes;
  size_t size;
  void *owner;
  void (*free_owner)(void *owner);
};

int rk_serialize(struct rk_device *d, pj_loaded *l, struct rk_image *image, struct rk_failure *f);
void rk_image_free(struct rk_image *image);
int rk_deserialize(struct rk_device *d, const char *bytes, size_t size, pj_loaded **loaded, struct rk_failure *f);

// rk_form is what a program or a run returns. type and dims are those of the first result, and only there if known.
enum { rk_max_dims = 8 };

struct rk_form {
  size_t count;
  int known;
  int type;
  size_t dim_count;
  int64_t dims[rk_max_dims];
};

int rk_program_form(struct rk_device *d, pj_loaded *l, struct rk_form *form, struct rk_failure *f);

// rk_wait is an event that must be ready before a run is over, and what it said.
struct rk_wait {
  struct rk_call *call;
  pj_event *event;
  struct rk_failure failure;
};

// rk_topology describes devices that need not be there. The texts belong to the topology; id and kind are the first device's.
struct rk_topology {
  const struct pj_api *api;
  pj_topology *topology;
  size_t device_count;
  int id;
  const char *platform, *version, *kind;
  size_t platform_size, version_size, kind_size;
};

int rk_topology_open(const struct pj_api *api, const char *name, size_t name_size, const struct pj_named *options, size_t option_count,
                     struct rk_topology **topology, struct rk_failure *f);
int rk_topology_close(struct rk_topology *t, struct rk_failure *f);

// rk_topology_compile compiles a program and serializes it, and tells its form.
int rk_topology_compile(struct rk_topology *t, const char *code, size_t code_size, const char *options, size_t options_size,
                        struct rk_form *form, struct rk_image *image, struct rk_failure *f);

// rk_call is everything that one run of a program needs, made once and used for one run at a time.
struct rk_call {
  struct rk_device *device;
  size_t array_count;
  const void **data;         // per packed array: its rows, set before each run
  struct pj_upload *uploads; // per packed array
  size_t *places;            // per packed array: its argument
  pj_buffer **arguments;     // weights, and in a run the uploads
  pj_buffer *const *argument_list[1];
  pj_buffer *results[1];
  pj_buffer **result_list[1];
  int64_t *kept;
  struct pj_execute_options options;
  struct pj_execute execute;
  struct rk_wait *waits; // of a run: at most one a packed array and one for the scores
  size_t wait_count;
  struct rk_failure failure; // of the last run; the Go side frees its text

  // Of a started run.
  size_t left; // events that are not ready, and one for rk_start itself; changed by several threads
  struct rk_ends *ends;
  struct rk_call *next; // in the list of ends
  int tag;
};

// rk_call_new makes a call for a program of argument_count arguments. The caller then fills in the weights and, by
// rk_call_array, the packed arrays (0: no memory).
struct rk_call *rk_call_new(struct rk_device *d, pj_loaded *l, size_t argument_count, size_t array_count, int semantics);
void rk_call_weight(struct rk_call *c, size_t argument, pj_buffer *b);
int rk_call_array(struct rk_call *c, size_t array, size_t argument, int type, int64_t rows, int64_t columns);
void rk_call_free(struct rk_call *c);

// rk_run uploads the arrays at c->data, executes the program and downloads its result into scores. It returns when the
// plugin is done with all of that memory, whether it succeeded or not. If form is not NULL the result's form is stored
// there, and a result of another type or size than float32 and size bytes is not downloaded.
int rk_run(struct rk_call *c, void *scores, size_t size, struct rk_form *form);

// rk_ends is where started runs arrive when they are over: a list that any thread of the plugin may append to, and an eventfd
// that is raised when the list was empty. The descriptor is the caller's.
struct rk_ends {
  struct rk_call *newest; // changed by several threads
  int fd;
};

struct rk_ends *rk_ends_new(int fd);
void rk_ends_free(struct rk_ends *e);

// rk_start begins what rk_run does and does not wait for its end. It returns 1 if the run is over already, as after rk_run.
// Otherwise the call belongs to the plugin until rk_take returns its tag.
int rk_start(struct rk_call *c, void *scores, size_t size, struct rk_ends *e, int tag);

// rk_take empties the list and stores the tags, oldest first. tags has room for every run in flight.
size_t rk_take(struct rk_ends *e, int *tags);

#endif
