#include <dlfcn.h>
#include <stdlib.h>

#include "shim_internal.h"

_Atomic long rk_counts[rk_kinds];

long rk_alive(int kind) { return atomic_load_explicit(&rk_counts[kind], memory_order_relaxed); }

void rk_failure_free(struct rk_failure *f) {
  free(f->text);
  memset(f, 0, sizeof *f);
}

static void keep(struct rk_failure *f, int code, const char *text, size_t size) {
  if (f->code) return;
  f->code = code;
  f->text = malloc(size);
  f->size = f->text ? size : 0;
  if (f->text) memcpy(f->text, text, size);
}

int rk_fail(struct rk_failure *f, int code, const char *text) {
  keep(f, code, text, strlen(text));
  return f->code;
}

int rk_bad(const struct pj_api *api, pj_error *e, struct rk_failure *f) {
  if (!e) return 0;
  ARGS(pj_int, code, value);
  code.object = e;
  ARGS(pj_text, message, size);
  message.object = e;
  rk_invoke(api, pj_error_message, &message);
  pj_error *none = rk_invoke(api, pj_error_code, &code);
  ARGS(pj_one, gone, object);
  if (none) {
    gone.object = none;
    rk_invoke(api, pj_error_destroy, &gone);
  }
  keep(f, none || code.value <= 0 ? 2 : code.value, message.text, message.size); // 2: unknown
  gone.object = e;
  rk_invoke(api, pj_error_destroy, &gone);
  return 1;
}

int rk_has(const struct pj_api *api, int slot) {
  return api->struct_size >= offsetof(struct pj_api, functions) + (slot + 1) * sizeof(void *) && api->functions[slot];
}

// Functions without which nothing works. The others are asked for where they are used.
static const int required[] = {
    pj_error_destroy,            pj_error_message,            pj_error_code,               pj_plugin_initialize,
    pj_event_destroy,            pj_event_await,              pj_event_on_ready,           pj_client_create,
    pj_client_destroy,           pj_client_platform_name,     pj_client_platform_version,  pj_client_devices,
    pj_client_compile,           pj_client_upload,            pj_description_id,           pj_description_kind,
    pj_device_description,       pj_executable_destroy,       pj_executable_result_count,  pj_loaded_destroy,
    pj_loaded_executable,        pj_loaded_execute,           pj_buffer_destroy,           pj_buffer_type,
    pj_buffer_dims,              pj_buffer_download,
};

int rk_load(const char *path, const struct pj_api **api, struct rk_failure *f) {
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!library) return rk_fail(f, rk_library_unusable, dlerror());
  const struct pj_api *(*entry)(void) = (const struct pj_api *(*)(void))dlsym(library, "GetPjrtApi");
  const struct pj_api *a = entry ? entry() : NULL;
  if (!a) return rk_fail(f, rk_library_unusable, "GetPjrtApi gives no function table");
  if (a->struct_size < offsetof(struct pj_api, functions) || a->version.major != 0) {
    *api = a;
    return rk_fail(f, rk_library_unusable, "is of another major version of the PJRT C API, want 0.x");
  }
  for (size_t i = 0; i < sizeof required / sizeof *required; i++)
    if (!rk_has(a, required[i])) return rk_fail(f, rk_library_unusable, "lacks functions of the PJRT C API that are needed here");
  ARGS(pj_nothing, args, extensions);
  if (rk_bad(a, rk_invoke(a, pj_plugin_initialize, &args), f)) return f->code;
  *api = a;
  return 0;
}

struct pj_named *rk_named_array(size_t count) {
  struct pj_named *list = calloc(count, sizeof *list);
  for (size_t i = 0; list && i < count; i++) list[i].struct_size = sizeof *list;
  return list;
}

void rk_named_string(struct pj_named *n, const char *text, size_t size) {
  n->kind = pj_named_string;
  n->value.string = text;
  n->value_size = size;
}

void rk_named_int64(struct pj_named *n, int64_t v) {
  n->kind = pj_named_int64;
  n->value.number = v;
  n->value_size = 1;
}

void rk_named_int64_list(struct pj_named *n, const int64_t *list, size_t count) {
  n->kind = pj_named_int64_list;
  n->value.numbers = list;
  n->value_size = count;
}

void rk_named_float(struct pj_named *n, float v) {
  n->kind = pj_named_float;
  n->value.real = v;
  n->value_size = 1;
}

void rk_named_bool(struct pj_named *n, bool v) {
  n->kind = pj_named_bool;
  n->value.flag = v;
  n->value_size = 1;
}

int rk_describe(const struct pj_api *api, const void *description, int *id, const char **kind, size_t *kind_size, struct rk_failure *f) {
  ARGS(pj_int, number, value);
  ARGS(pj_text, text, size);
  number.object = text.object = description;
  if (rk_bad(api, rk_invoke(api, pj_description_id, &number), f) || rk_bad(api, rk_invoke(api, pj_description_kind, &text), f))
    return f->code;
  *id = number.value;
  *kind = text.text, *kind_size = text.size;
  return 0;
}

// describe finds out what the client is and picks its first device. A client without devices is left to the caller to judge.
static int describe(struct rk_device *d, struct rk_failure *f) {
  ARGS(pj_text, name, size);
  ARGS(pj_text, version, size);
  ARGS(pj_list, devices, count);
  name.object = version.object = devices.object = d->client;
  if (rk_bad(d->api, rk_invoke(d->api, pj_client_platform_name, &name), f) ||
      rk_bad(d->api, rk_invoke(d->api, pj_client_platform_version, &version), f) ||
      rk_bad(d->api, rk_invoke(d->api, pj_client_devices, &devices), f))
    return f->code;
  d->platform = name.text, d->platform_size = name.size;
  d->version = version.text, d->version_size = version.size;
  d->device_count = devices.count;
  if (!devices.count) return 0;
  d->device = ((pj_device *const *)devices.items)[0];
  ARGS(pj_get, description, result);
  description.object = d->device;
  if (rk_bad(d->api, rk_invoke(d->api, pj_device_description, &description), f)) return f->code;
  return rk_describe(d->api, description.result, &d->id, &d->kind, &d->kind_size, f);
}

int rk_open(const struct pj_api *api, const struct pj_named *options, size_t option_count, struct rk_device **device, struct rk_failure *f) {
  ARGS(pj_create, create, key_value_try);
  create.options = options;
  create.option_count = option_count;
  struct rk_device *d = calloc(1, sizeof *d);
  if (!d) return rk_fail(f, 8, "out of memory"); // 8: resource exhausted
  d->api = api;
  if (rk_bad(api, rk_invoke(api, pj_client_create, &create), f)) {
    free(d);
    return f->code;
  }
  rk_count(rk_clients, 1);
  d->client = create.client;
  if (describe(d, f)) {
    rk_close(d, f);
    return f->code;
  }
  *device = d;
  return 0;
}

int rk_close(struct rk_device *d, struct rk_failure *f) {
  ARGS(pj_one, gone, object);
  gone.object = d->client;
  if (!rk_bad(d->api, rk_invoke(d->api, pj_client_destroy, &gone), f)) rk_count(rk_clients, -1);
  free(d);
  return f->code;
}

int rk_dma_map(struct rk_device *d, void *data, size_t size, struct rk_failure *f) {
  // Memory that cannot be unmapped must not be mapped: its owner wants it back.
  if (!rk_has(d->api, pj_client_dma_map) || !rk_has(d->api, pj_client_dma_unmap))
    return rk_fail(f, 12, "the plugin has no such function"); // 12: unimplemented
  ARGS(pj_dma, args, size);
  args.client = d->client;
  args.data = data;
  args.size = size;
  rk_bad(d->api, rk_invoke(d->api, pj_client_dma_map, &args), f);
  return f->code;
}

int rk_dma_unmap(struct rk_device *d, void *data, struct rk_failure *f) {
  ARGS(pj_dma, args, data);
  args.client = d->client;
  args.data = data;
  rk_bad(d->api, rk_invoke(d->api, pj_client_dma_unmap, &args), f);
  return f->code;
}

int rk_upload(struct rk_device *d, const void *data, int type, const int64_t *dims, size_t dim_count, int semantics,
              pj_buffer **buffer, pj_event **done, struct rk_failure *f) {
  ARGS(pj_upload, args, buffer);
  args.client = d->client;
  args.device = d->device;
  args.data = data;
  args.type = type;
  args.dims = dims;
  args.dim_count = dim_count;
  args.semantics = semantics;
  if (rk_bad(d->api, rk_invoke(d->api, pj_client_upload, &args), f)) return f->code;
  rk_count(rk_buffers, 1);
  if (args.host_done) rk_count(rk_events, 1);
  *buffer = args.buffer;
  *done = args.host_done;
  return 0;
}

void rk_wait_ready(struct rk_device *d, pj_event *event, struct rk_failure *f) {
  ARGS(pj_one, args, object);
  args.object = event;
  rk_bad(d->api, rk_invoke(d->api, pj_event_await, &args), f);
}

void rk_free_event(struct rk_device *d, pj_event *event, struct rk_failure *f) {
  ARGS(pj_one, gone, object);
  gone.object = event;
  if (!rk_bad(d->api, rk_invoke(d->api, pj_event_destroy, &gone), f)) rk_count(rk_events, -1);
}

int rk_await(struct rk_device *d, pj_event *event, struct rk_failure *f) {
  if (!event) return 0;
  rk_wait_ready(d, event, f);
  rk_free_event(d, event, f);
  return f->code;
}

int rk_free_buffer(struct rk_device *d, pj_buffer *b, struct rk_failure *f) {
  ARGS(pj_one, gone, object);
  gone.object = b;
  if (!rk_bad(d->api, rk_invoke(d->api, pj_buffer_destroy, &gone), f)) rk_count(rk_buffers, -1);
  return f->code;
}

int rk_compile(struct rk_device *d, const char *code, size_t code_size, const char *options, size_t options_size,
               pj_loaded **loaded, struct rk_failure *f) {
  ARGS(pj_program, program, format_size);
  program.code = code;
  program.code_size = code_size;
  program.format = "mlir";
  program.format_size = 4;
  ARGS(pj_compile, args, loaded);
  args.client = d->client;
  args.program = &program;
  args.options = options;
  args.options_size = options_size;
  if (rk_bad(d->api, rk_invoke(d->api, pj_client_compile, &args), f)) return f->code;
  rk_count(rk_programs, 1);
  *loaded = args.loaded;
  return 0;
}

int rk_free_program(struct rk_device *d, pj_loaded *l, struct rk_failure *f) {
  ARGS(pj_one, gone, object);
  gone.object = l;
  if (!rk_bad(d->api, rk_invoke(d->api, pj_loaded_destroy, &gone), f)) rk_count(rk_programs, -1);
  return f->code;
}

// executable gets the program behind a loaded one, which is counted as a program of its own until it is freed.
static pj_executable *executable(struct rk_device *d, pj_loaded *l, struct rk_failure *f) {
  ARGS(pj_get, get, result);
  get.object = l;
  if (rk_bad(d->api, rk_invoke(d->api, pj_loaded_executable, &get), f)) return NULL;
  rk_count(rk_programs, 1);
  return get.result;
}

void rk_executable_free(const struct pj_api *api, pj_executable *e, struct rk_failure *f) {
  ARGS(pj_one, gone, object);
  gone.object = e;
  if (!rk_bad(api, rk_invoke(api, pj_executable_destroy, &gone), f)) rk_count(rk_programs, -1);
}

int rk_executable_image(const struct pj_api *api, pj_executable *e, struct rk_image *image, struct rk_failure *f) {
  ARGS(pj_serialize, args, free_owner);
  args.executable = e;
  if (rk_bad(api, rk_invoke(api, pj_executable_serialize, &args), f)) return f->code;
  image->bytes = args.bytes;
  image->size = args.size;
  image->owner = args.owner;
  image->free_owner = args.free_owner;
  return 0;
}

int rk_serialize(struct rk_device *d, pj_loaded *l, struct rk_image *image, struct rk_failure *f) {
  if (!rk_has(d->api, pj_executable_serialize)) return rk_fail(f, 12, "the plugin has no such function"); // 12: unimplemented
  pj_executable *e = executable(d, l, f);
  if (!e) return f->code;
  rk_executable_image(d->api, e, image, f);
  rk_executable_free(d->api, e, f);
  return f->code;
}

void rk_image_free(struct rk_image *image) {
  if (image->free_owner) image->free_owner(image->owner);
  memset(image, 0, sizeof *image);
}

int rk_deserialize(struct rk_device *d, const char *bytes, size_t size, pj_loaded **loaded, struct rk_failure *f) {
  if (!rk_has(d->api, pj_deserialize)) return rk_fail(f, 12, "the plugin has no such function");
  ARGS(pj_deserialize_args, args, options_size);
  args.client = d->client;
  args.bytes = bytes;
  args.size = size;
  if (rk_bad(d->api, rk_invoke(d->api, pj_deserialize, &args), f)) return f->code;
  rk_count(rk_programs, 1);
  *loaded = args.loaded;
  return 0;
}

static void store_dims(struct rk_form *form, const int64_t *dims, size_t count) {
  form->known = count <= rk_max_dims;
  form->dim_count = count;
  for (size_t i = 0; form->known && i < count; i++) form->dims[i] = dims[i];
}

// result_form asks a program for the form of its first result, which not every plugin tells.
static void result_form(const struct pj_api *api, pj_executable *e, struct rk_form *form) {
  if (!form->count || !rk_has(api, pj_executable_result_types) || !rk_has(api, pj_executable_result_dims)) return;
  struct rk_failure ignored = {0}; // a run finds out what the plugin does not tell
  ARGS(pj_result_types, types, count);
  types.executable = e;
  ARGS(pj_result_dims, dims, dim_sizes);
  dims.executable = e;
  dims.count = form->count;
  if (!rk_bad(api, rk_invoke(api, pj_executable_result_types, &types), &ignored) &&
      !rk_bad(api, rk_invoke(api, pj_executable_result_dims, &dims), &ignored) && types.count == form->count) {
    form->type = types.types[0];
    store_dims(form, dims.dims, dims.dim_sizes[0]);
  }
  rk_failure_free(&ignored);
}

int rk_executable_form(const struct pj_api *api, pj_executable *e, struct rk_form *form, struct rk_failure *f) {
  memset(form, 0, sizeof *form);
  ARGS(pj_count, args, count);
  args.object = e;
  if (rk_bad(api, rk_invoke(api, pj_executable_result_count, &args), f)) return f->code;
  form->count = args.count;
  result_form(api, e, form);
  return 0;
}

int rk_program_form(struct rk_device *d, pj_loaded *l, struct rk_form *form, struct rk_failure *f) {
  memset(form, 0, sizeof *form);
  pj_executable *e = executable(d, l, f);
  if (!e) return f->code;
  rk_executable_form(d->api, e, form, f);
  rk_executable_free(d->api, e, f);
  return f->code;
}

void rk_buffer_form(const struct pj_api *api, pj_buffer *b, struct rk_form *form, struct rk_failure *f) {
  memset(form, 0, sizeof *form);
  ARGS(pj_int, type, value);
  ARGS(pj_list, dims, count);
  type.object = dims.object = b;
  if (rk_bad(api, rk_invoke(api, pj_buffer_type, &type), f) || rk_bad(api, rk_invoke(api, pj_buffer_dims, &dims), f)) return;
  form->count = 1;
  form->type = type.value;
  store_dims(form, dims.items, dims.count);
}
